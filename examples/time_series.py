"""
A time series: trend and season by kernels of GPyTorch
======================================================

A kernel is an assumption. With the default one, predictions return to the mean within a
lengthscale of the data. A sum of a linear trend and a season that slowly changes its shape
extrapolates. You can pass any kernel of GPyTorch, also sums and products.
"""

# %%
# Ten years of monthly values; the last three are for testing. The unit of time is a year, and
# `normalize_X=False` keeps it, so that a period of 1 means a year.
import gpytorch
import matplotlib.pyplot as plt
import numpy as np

from skgp import ExactGPRegressor
from skgp.plotting import PredictiveBandDisplay
from skgp.scoring import coverage, crps

rng = np.random.default_rng(0)
X = np.arange(120)[:, None] / 12.0
waves = np.sin(2 * np.pi * X[:, 0]) + 0.4 * np.sin(4 * np.pi * X[:, 0] + 1.0)
y = 20.0 + 1.2 * X[:, 0] + 2.0 * waves + 0.4 * rng.standard_normal(120)
X_train, y_train, X_test, y_test = X[:84], y[:84], X[84:], y[84:]

# %%
# The season is a periodic kernel times a wide one. The period is known, so it is not trained.
periodic = gpytorch.kernels.PeriodicKernel()
periodic.period_length = 1.0
periodic.raw_period_length.requires_grad_(False)
changing = gpytorch.kernels.RBFKernel()
changing.lengthscale = 20.0
season = gpytorch.kernels.ScaleKernel(periodic * changing)
trend_and_season = gpytorch.kernels.LinearKernel() + season
models = {
    "default kernel": ExactGPRegressor(normalize_X=False),
    "trend + season": ExactGPRegressor(kernel=trend_and_season, normalize_X=False),
}

# %%
# Both fit the past. Only the second predicts the years after it.
figure, axes = plt.subplots(2, 1, figsize=(8, 6.5), sharex=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    dist = model.fit(X_train, y_train).predict_dist(X_test)
    inside = coverage(y_test, dist)
    print(f"{name}: CRPS {crps(y_test, dist):.2f}, {inside:.0%} in the 90 % interval")
    PredictiveBandDisplay.from_estimator(model, X, y, grid=np.linspace(0, 10, 400), ax=ax)
    ax.axvline(7.0, color="0.5", linestyle=":")
    ax.set(title=name, xlabel="years", ylabel="value")
plt.show()
