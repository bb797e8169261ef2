"""
Conformal intervals with MAPIE
==============================

The intervals of a model have the right coverage if the model is right. Conformal prediction does
not need this assumption: it widens or narrows intervals until they cover 90 % of held-out rows,
and then about 90 % of new rows, on average. MAPIE (``pip install mapie``) does it for any
regressor of scikit-learn. But coverage is right only on average: around a mean, conformal
intervals have the same width everywhere. If errors are divided by the standard deviation of a
model that has learned where the noise is large, the intervals keep its shape.
"""

# %%
# A sine whose noise grows along the input. 300 rows to fit, 300 to calibrate, 3,000 to test. The
# model is trained for too long on purpose, so that its own intervals are too narrow.
import matplotlib.pyplot as plt
import numpy as np
from mapie.regression import SplitConformalRegressor

from skgp import PPGPRRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 5.0, (3600, 1))
y = np.sin(2.0 * X[:, 0]) + (0.1 + 0.25 * X[:, 0]) * rng.standard_normal(3600)
X_fit, X_calibrate, X_test = X[:300], X[300:600], X[600:]
y_fit, y_calibrate, y_test = y[:300], y[300:600], y[600:]
model = PPGPRRegressor(
    n_inducing=30, max_iter=400, beta_reg=0.05, early_stopping=False, random_state=0
)
model.fit(X_fit, y_fit)

# %%
# MAPIE calibrates the absolute error of the mean.
mapie = SplitConformalRegressor(model, confidence_level=0.9, prefit=True)
mapie.conformalize(X_calibrate, y_calibrate)

# %%
# The same by hand, in units of the model's standard deviation, which is multiplied by the 90 %
# quantile of the absolute z-scores of the calibration rows.
mean, std = model.predict(X_calibrate, return_std=True)
rank = np.ceil(0.9 * (len(mean) + 1)) / len(mean)
factor = np.quantile(np.abs(y_calibrate - mean) / std, rank, method="higher")


def scaled(X):
    mean, std = model.predict(X, return_std=True)
    return mean - factor * std, mean + factor * std


def of_mapie(X):
    return mapie.predict_interval(X)[1][:, :, 0].T


# %%
# Both corrections hold about 90 % of the outcomes. Only the one that keeps the shape of the model
# does so where the noise is small, too.
ways = {
    "model": model.predict_interval,
    "MAPIE around the mean": of_mapie,
    "model, conformal factor": scaled,
}
quiet = X_test[:, 0] < 1.0
print(f"{'intervals':26}{'all rows':>10}{'quiet fifth':>13}{'the rest':>10}")
for name, interval in ways.items():
    low, high = interval(X_test)
    inside = (low <= y_test) & (y_test <= high)
    print(
        f"{name:26}{inside.mean():10.1%}{inside[quiet].mean():13.1%}{inside[~quiet].mean():10.1%}"
    )

# %%
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True, layout="constrained")
grid = np.linspace(0.0, 5.0, 200)[:, None]
for ax, (name, interval) in zip(axes, ways.items(), strict=True):
    ax.plot(X_test[::10], y_test[::10], ".", color="0.6", markersize=3)
    ax.fill_between(grid[:, 0], *interval(grid), alpha=0.4)
    ax.plot(grid[:, 0], model.predict(grid))
    ax.set(title=name, xlabel="x")
plt.show()
