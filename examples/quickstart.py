"""
Quickstart: when one normal with one noise is not enough
========================================================

Simulated motorcycle accidents measure how a rider's head is accelerated. Before the impact it is at
rest; after it the measurements scatter over 100 g. A Gaussian process with one noise variance is
too uncertain before the impact and too certain after it. The noise of a parametric GP depends on
the input, and a deep sigma point process predicts densities of any shape. They are compared with
scikit-learn's Gaussian process, gradient boosting of quantiles, and CatBoost if it is installed.
"""

# %%
# Each function returns the predictive distributions of the test rows, in the units of y. Nothing is
# tuned: the estimators of skgp have their defaults.
import importlib.util
import time

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


def of_skgp(estimator, X, y, X_test):
    return estimator(random_state=0).fit(X, y).predict_dist(X_test)


def of_scikit_learn(kernel, X, y, X_test):
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(X, y)
    return NormalMixture.normal(*model.predict(X_test, return_std=True))


def of_catboost(loss, X, y, X_test):
    from catboost import CatBoostRegressor

    X, X_stop, y, y_stop = train_test_split(X, y, test_size=0.1, random_state=0)
    options = {"thread_count": 1, "allow_writing_files": False, "verbose": False}
    model = CatBoostRegressor(loss_function=loss, early_stopping_rounds=50, **options)
    model.fit(X, y, eval_set=(X_stop, y_stop))
    mean, variance = model.predict(X_test, prediction_type=loss).T
    return NormalMixture.normal(mean, np.sqrt(variance))


models = {
    "skgp.DSPPRegressor": (of_skgp, DSPPRegressor),
    "skgp.SVGPRegressor": (of_skgp, SVGPRegressor),
    "scikit-learn's GP": (of_scikit_learn, ConstantKernel() * Matern(nu=2.5) + WhiteKernel()),
}
if importlib.util.find_spec("catboost"):
    models["CatBoost"] = (of_catboost, "RMSEWithUncertainty")

# %%
# Three models of all 133 rows. Half of the measurements should lie in the dark band, 90 % in the
# light one.
X, y = load_motorcycle(return_X_y=True)
titles = {
    SVGPRegressor: "SVGPRegressor\none noise for all times",
    PPGPRRegressor: "PPGPRRegressor\na normal of its own for each time",
    DSPPRegressor: "DSPPRegressor\na mixture of normals for each time",
}
figure, axes = plt.subplots(1, 3, figsize=(11, 4.2), sharey=True, layout="constrained")
times = np.linspace(X.min(), X.max(), 300)
for ax, (estimator, title) in zip(axes, titles.items(), strict=True):
    dist = of_skgp(estimator, X, y, times[:, None])
    wide, narrow = (
        PredictiveBandDisplay.from_predictions(times, dist, coverage=level, color="#0072B2", ax=ax)
        for level in (0.9, 0.5)
    )
    (points,) = ax.plot(X[:, 0], y, "k.", markersize=4)
    ax.get_legend().remove()
    ax.set(title=title, xlabel="time after the impact (ms)", ylabel="")
axes[0].set_ylabel("acceleration of the head (g)")
figure.legend(
    [points, narrow.line_, (wide.band_, narrow.band_), wide.band_],  # as the bands overlap
    ["measurement", "predictive mean", "50 % interval", "90 % interval"],
    loc="outside lower center",
    ncols=4,
)
figure.savefig("quickstart.png", dpi=110)
print("picture: quickstart.png", flush=True)

# %%
# In scores of rows that a model has not seen, the 133 rows gain less: the negative log likelihood
# (NLL) over three folds is 4.53 for PPGPR, 4.57 for DSPP, 4.60 for both Gaussian processes with one
# noise variance and 4.76 for CatBoost. The second data set is synthetic. Its outcomes lie on two
# branches, and no input tells on which. Lower is better for the NLL and for the continuous ranked
# probability score (CRPS); 90 % of the outcomes should lie in the intervals of 90 %. Quantiles have
# no density, and twice their mean pinball loss is the CRPS.


def scores(name, X, y, X_test, y_test):
    predict, argument = models[name]
    dist = predict(argument, X, y, X_test)
    return nll(y_test, dist), crps(y_test, dist), coverage(y_test, dist, coverage=0.9)


def quantile_scores(name, X, y, X_test, y_test):
    losses, quantiles = [], []
    for level in np.arange(0.05, 1.0, 0.1):
        model = HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=0)
        quantiles.append(model.fit(X, y).predict(X_test))
        losses.append(mean_pinball_loss(y_test, quantiles[-1], alpha=level))
    inside = (quantiles[0] <= y_test) & (y_test <= quantiles[-1])
    return np.nan, 2.0 * np.mean(losses), inside.mean()


# %%
X, y = make_bimodal(3300, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, train_size=300, random_state=0)
print("\ntwo branches: 300 rows to train on, 3,000 to test")
print(f"{'':30}{'NLL':>8}{'CRPS':>8}{'in 90 %':>9}{'seconds of CPU':>16}")
for name in (*models, "HistGradientBoostingRegressor"):
    start = time.process_time()
    score = scores if name in models else quantile_scores
    mean_nll, mean_crps, inside = score(name, X, y, X_test, y_test)
    seconds = time.process_time() - start
    density = "none" if np.isnan(mean_nll) else f"{mean_nll:.2f}"
    print(f"{name:30}{density:>8}{mean_crps:8.3g}{inside:9.0%}{seconds:16.1f}", flush=True)
