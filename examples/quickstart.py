"""
Quickstart: calibrated predictions on a real table
==================================================

How far will diabetes have progressed one year from now, and how sure can we be? The table has 442
patients and ten measurements each. A sparse GP inside a scikit-learn pipeline predicts a whole
distribution for each patient; every prediction is made by a model that has not seen the patient.
It is judged beside scikit-learn's Bayesian ridge regression, whose predictions are normal too.
"""

# %%
# The data come with scikit-learn.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp import SVGPRegressor
from skgp.distributions import NormalMixture
from skgp.scoring import coverage, cross_val_predict_dist, crps, nll, pit

X, y = load_diabetes(return_X_y=True, scaled=False)
folds = KFold(5, shuffle=True, random_state=0)

# %%
# Out-of-fold predictive distributions of the GP, in the units of the target.
start = time.perf_counter()
model = make_pipeline(StandardScaler(), SVGPRegressor(n_inducing=100, max_iter=200, random_state=0))
gp = cross_val_predict_dist(model, X, y, cv=folds)
gp_seconds = time.perf_counter() - start

# %%
# The baseline's mean and standard deviation as the same kind of object.
start = time.perf_counter()
mean, std = np.empty(len(y)), np.empty(len(y))
for train, test in folds.split(X):
    ridge = make_pipeline(StandardScaler(), BayesianRidge()).fit(X[train], y[train])
    mean[test], std[test] = ridge.predict(X[test], return_std=True)
ridge = NormalMixture.normal(mean, std)
ridge_seconds = time.perf_counter() - start

# %%
# Lower is better for the negative log likelihood (NLL) and for the CRPS; the intervals should hold
# 90 % of the outcomes.
print(f"{'model':24}{'NLL':>8}{'CRPS':>8}{'in 90 % interval':>18}{'seconds':>9}")
for name, dist, seconds in (
    ("skgp.SVGPRegressor", gp, gp_seconds),
    ("sklearn.BayesianRidge", ridge, ridge_seconds),
):
    print(
        f"{name:24}{nll(y, dist):8.3f}{crps(y, dist):8.2f}"
        f"{coverage(y, dist, coverage=0.9):18.1%}{seconds:9.1f}"
    )

# %%
# Left: the 90 % interval of each patient, ordered by the predicted mean. Right: the probability
# integral transform, flat if the distributions are calibrated.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
order = np.argsort(gp.mean())
lower, upper = gp.interval(0.9)
rank = np.arange(len(y))
left.fill_between(rank, lower[order], upper[order], alpha=0.3, label="90 % interval")
left.plot(rank, gp.mean()[order], label="mean")
left.plot(rank, y[order], "k.", markersize=3, label="outcome")
left.set(xlabel="patient, ordered by predicted mean", ylabel="disease progression after a year")
left.legend(loc="upper left")
right.hist(pit(y, gp), bins=10, range=(0, 1), density=True, alpha=0.6)
right.axhline(1.0, color="k", linestyle=":")
right.set(xlabel="probability integral transform", ylabel="density")
figure.savefig("quickstart.png", dpi=120)
print("picture: quickstart.png")
