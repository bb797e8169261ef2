"""
Counts: hourly arrivals
=======================

A count is a whole number, never below zero, and its variance grows with its mean. A normal
distribution with one noise variance has none of these properties. With ``likelihood="poisson"``
the latent function is the log of the rate; with ``likelihood="negative_binomial"`` the variance is
larger than Poisson's, by a dispersion that the fit learns.
"""

# %%
# Four weeks of arrivals, by the hour of the day and the day of the week. Rates are low at night,
# and days differ by more than the hour explains.
import matplotlib.pyplot as plt
import numpy as np

from skgp import SVGPRegressor
from skgp.scoring import coverage, crps, nll

rng = np.random.default_rng(0)
hour, day = (part.ravel() for part in np.meshgrid(np.arange(0, 24, 0.75), np.arange(28)))
X = np.column_stack([np.cos(np.pi * hour / 12), np.sin(np.pi * hour / 12), day % 7 >= 5])
rate = np.exp(1.6 - 1.8 * X[:, 0] + 0.5 * np.sin(np.pi * hour / 4) - 0.7 * X[:, 2])
y = rng.negative_binomial(3.0, 3.0 / (3.0 + rate))  # variance mu + mu^2 / 3
test = day >= 21

# %%
# For the normal, the probability of a count is its mass within half a unit of the count.
models = {}
print(f"{'likelihood':20}{'NLL':>7}{'CRPS':>7}{'in 90 %':>9}")
for name in ("normal", "poisson", "negative_binomial"):
    model = SVGPRegressor(likelihood=name, n_inducing=30, max_iter=300, random_state=0)
    models[name] = model.fit(X[~test], y[~test])
    dist, seen = model.predict_dist(X[test]), y[test]
    score = nll(seen, dist)
    if name == "normal":
        below, above = (f(seen + 0.5) - f(seen - 0.5) for f in (dist.cdf, dist.sf))
        score = -np.log(np.maximum(below, -above)).mean()  # the tail that rounding leaves
    print(f"{name:20}{score:7.3f}{crps(seen, dist):7.3f}{coverage(seen, dist):9.2f}")
dispersion = models["negative_binomial"].likelihood_parameters_["dispersion"]
print(f"dispersion {dispersion:.2f}, that of the data is 0.33")

# %%
# Central 90 % intervals of a working day. Those of counts are narrow at night and end at zero; the
# normal's are as wide as at noon.
grid = np.linspace(0, 24, 97)
X_grid = np.column_stack([np.cos(np.pi * grid / 12), np.sin(np.pi * grid / 12), np.zeros(97)])
figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
working = test & (day % 7 < 5)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    lower, upper = model.predict_interval(X_grid, coverage=0.9)
    ax.fill_between(grid, lower, upper, alpha=0.3, step="mid", label="90 % interval")
    ax.plot(grid, model.predict(X_grid), label="mean")
    ax.plot(hour[working], y[working], "k.", markersize=3, label="test rows")
    ax.set(title=name, xlabel="hour")
axes[0].set_ylabel("arrivals")
axes[0].legend()
plt.show()
