"""
Quickstart: when one normal with one noise is not enough
========================================================

Simulated motorcycle accidents measure how a rider's head is accelerated. Before the impact it is at
rest; after it the measurements scatter over 100 g. A Gaussian process with one noise variance is
unsure where it could be sure, and too sure where it is not. The noise of a parametric GP depends on
the input, and a deep sigma point process predicts densities of any shape. Beside them stands what
you may use now: scikit-learn's Gaussian process, gradient boosting of quantiles, and CatBoost if it
is installed.
"""

# %%
# Each function fits a model and returns its predictions: distributions in the units of y, or
# quantiles. Nothing is tuned: the estimators of skgp have their defaults.
import importlib.util
import time
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import train_test_split

from skgp import DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.datasets import load_motorcycle, make_bimodal
from skgp.distributions import NormalMixture
from skgp.plotting import PredictiveBandDisplay
from skgp.scoring import coverage, crps, nll

LEVELS = np.arange(0.05, 1.0, 0.1)


def of_skgp(estimator, X, y):
    return estimator(random_state=0).fit(X, y).predict_dist


def of_scikit_learn(X, y):
    kernel = ConstantKernel() * Matern(nu=2.5) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(X, y)
    return lambda X_test: NormalMixture.normal(*model.predict(X_test, return_std=True))


def of_catboost(X, y, loss="RMSEWithUncertainty"):
    from catboost import CatBoostRegressor

    X, X_stop, y, y_stop = train_test_split(X, y, test_size=0.1, random_state=0)
    options = {"thread_count": 1, "allow_writing_files": False, "verbose": False}
    model = CatBoostRegressor(loss_function=loss, early_stopping_rounds=50, **options)
    model.fit(X, y, eval_set=(X_stop, y_stop))

    def predict(X_test):
        mean, variance = model.predict(X_test, prediction_type=loss).T
        return NormalMixture.normal(mean, np.sqrt(variance))

    return predict


def of_quantiles(X, y):
    models = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=0).fit(X, y)
        for level in LEVELS
    ]
    return lambda X_test: np.stack([model.predict(X_test) for model in models])


models = {
    "skgp.DSPPRegressor": partial(of_skgp, DSPPRegressor),
    "skgp.PPGPRRegressor": partial(of_skgp, PPGPRRegressor),
    "skgp.SVGPRegressor": partial(of_skgp, SVGPRegressor),
    "scikit-learn's GP": of_scikit_learn,
    "HistGradientBoostingRegressor": of_quantiles,
}
if importlib.util.find_spec("catboost"):
    models["CatBoost"] = of_catboost


def fitted(X, y):
    """The predictions of every model, and the seconds of processor time of its fit."""
    for name, fit in models.items():
        start = time.process_time()
        predict = fit(X, y)
        yield name, predict, time.process_time() - start


# %%
# Three models of 99 of the 133 rows. Half of the measurements should lie in the dark band, 90 % in
# the light one; circles are measurements that the models have not seen.
X, X_test, y, y_test = train_test_split(*load_motorcycle(return_X_y=True), random_state=0)
crash_test = list(fitted(X, y))
titles = {
    "skgp.SVGPRegressor": "SVGPRegressor\none noise for all times",
    "skgp.PPGPRRegressor": "PPGPRRegressor\na normal of its own for each time",
    "skgp.DSPPRegressor": "DSPPRegressor\na mixture of normals for each time",
}
predictions = {name: predict for name, predict, _ in crash_test}
figure, axes = plt.subplots(1, 3, figsize=(11, 4.2), sharey=True, layout="constrained")
times = np.linspace(min(X.min(), X_test.min()), max(X.max(), X_test.max()), 300)
for ax, (name, title) in zip(axes, titles.items(), strict=True):
    dist = predictions[name](times[:, None])
    wide, narrow = (
        PredictiveBandDisplay.from_predictions(times, dist, coverage=level, color="#0072B2", ax=ax)
        for level in (0.9, 0.5)
    )
    (points,) = ax.plot(X[:, 0], y, "k.", markersize=4)
    (unseen,) = ax.plot(X_test[:, 0], y_test, "o", markersize=5, mfc="white", mec="k", mew=0.8)
    ax.get_legend().remove()
    ax.set(title=title, xlabel="time after the impact (ms)", ylabel="")
axes[0].set_ylabel("acceleration of the head (g)")
figure.legend(
    [points, unseen, narrow.line_, (wide.band_, narrow.band_), wide.band_],  # as the bands overlap
    ["measurement", "held out", "predictive mean", "50 % interval", "90 % interval"],
    loc="outside lower center",
    ncols=5,
)
figure.savefig("quickstart.png", dpi=110)
print("picture: quickstart.png", flush=True)

# %%
# The scores of rows that a model has not seen. Lower is better for the negative log likelihood
# (NLL) and for the continuous ranked probability score (CRPS); 90 % of the outcomes should lie in
# the intervals of 90 %. Quantiles have no density, and twice their mean pinball loss is the CRPS.
# The 34 rows of the crash test are few: over ten folds the gain in NLL is a fifth of the one here.


def scores(y, predicted):
    if isinstance(predicted, NormalMixture):
        return nll(y, predicted), crps(y, predicted), coverage(y, predicted, coverage=0.9)
    losses = [mean_pinball_loss(y, q, alpha=a) for q, a in zip(predicted, LEVELS, strict=True)]
    inside = (predicted[0] <= y) & (y <= predicted[-1])
    return np.nan, 2.0 * np.mean(losses), inside.mean()


def print_table(title, fits, X, y):
    print(f"\n{title}\n{'':30}{'NLL':>8}{'CRPS':>8}{'in 90 %':>9}{'seconds of CPU':>16}")
    for name, predict, seconds in fits:
        mean_nll, mean_crps, inside = scores(y, predict(X))
        density = "none" if np.isnan(mean_nll) else f"{mean_nll:.2f}"
        print(f"{name:30}{density:>8}{mean_crps:8.3g}{inside:9.0%}{seconds:16.1f}", flush=True)


print_table("motorcycle crash test: 99 rows to train on, 34 to test", crash_test, X_test, y_test)

# %%
# The second data set is synthetic. Its outcomes lie on two branches, and no input tells on which.
X, y = make_bimodal(3200, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, train_size=200, random_state=0)
title = "two branches: 200 rows to train on, 3,000 to test"
print_table(title, fitted(X, y), X_test, y_test)
