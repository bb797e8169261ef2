"""
Censored targets: lifetimes and detection limits
================================================

A machine that still runs when a study ends has a lifetime of which only a lower bound is known, and
a concentration below the detection limit has an upper one. Dropping such rows, or treating their
bounds as values, biases every fit. With ``likelihood="censored"`` y has two columns, a lower and an
upper bound: equal where y is observed, infinite where there is no bound.
"""

# %%
# Log lifetimes of pumps, by load and age. A study ends after a random time, which censors about
# half of them, and the longest lifetimes most of all.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skgp import SVGPRegressor
from skgp.scoring import coverage, crps, nll

rng = np.random.default_rng(0)
n, n_test = 300, 300
load = rng.uniform(0, 1, n + n_test)
age = rng.uniform(0, 10, n + n_test)
log_life = 3.5 - 3.0 * load**2 - 0.6 * np.sin(age / 2) + 0.5 * rng.standard_normal(n + n_test)
study = rng.uniform(1.5, 3.2, n + n_test)  # log of the time until the study of a pump ends
X = np.column_stack([load, age])

# %%
# Such data have a time and a flag. One line turns them into two columns of bounds.
table = pd.DataFrame({"time": np.minimum(log_life, study), "failed": log_life <= study})[:n]
bounds = np.column_stack([table["time"], np.where(table["failed"], table["time"], np.inf)])
print(f"{1 - table['failed'].mean():.0%} of the rows are censored")

# %%
# A test set on which all lifetimes are known.
X_train, X_test, y_test = X[:n], X[n:], log_life[n:]
failed = table["failed"].to_numpy()
fits = {
    "censored": ("censored", X_train, bounds),
    "rows dropped": ("normal", X_train[failed], bounds[failed, 0]),
    "bounds as values": ("normal", X_train, bounds[:, 0]),
}
models = {}
print(f"{'':18}{'NLL':>7}{'CRPS':>7}{'in 90 %':>9}")
for name, (likelihood, X_fit, y_fit) in fits.items():
    model = SVGPRegressor(likelihood=likelihood, n_inducing=30, max_iter=300, random_state=0)
    models[name] = model.fit(X_fit, y_fit)
    dist = model.predict_dist(X_test)
    scores = nll(y_test, dist), crps(y_test, dist), coverage(y_test, dist)
    print(f"{name:18}{scores[0]:7.3f}{scores[1]:7.3f}{scores[2]:9.2f}")

# %%
# If lifetimes are censored in the test set too, the NLL of the bounds still tells models apart.
X_new, y_new = X_test, np.column_stack([y_test, y_test])
beyond = y_test > study[n:]
y_new[beyond] = np.column_stack([study[n:], np.full(n_test, np.inf)])[beyond]
for name, model in models.items():
    print(f"{name:18}{nll(y_new, model.predict_dist(X_new)):7.3f}")

# %%
# Left, the medians and central 90 % intervals by load at an age of five. Right, the probability
# that a pump of that age lives longer than a time: a survival curve for each load.
grid = np.linspace(0, 1, 101)
X_grid = np.column_stack([grid, np.full(101, 5.0)])
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
near = np.abs(X_train[:, 1] - 5.0) < 1.5
left.plot(load[:n][near & failed], table["time"][near & failed], "k.", label="failed")
left.plot(
    load[:n][near & ~failed], table["time"][near & ~failed], "k^", mfc="none", label="running"
)
for color, (name, model) in zip(("C0", "C1", "C2"), models.items(), strict=True):
    left.plot(grid, model.predict(X_grid), color, label=name)
    if name == "censored":
        left.fill_between(grid, *model.predict_interval(X_grid, 0.9), color=color, alpha=0.2)
left.plot(grid, 3.5 - 3.0 * grid**2 - 0.6 * np.sin(2.5), "k:", label="truth")
left.set(xlabel="load", ylabel="log lifetime", title="age 5")
left.legend(fontsize="small", loc="upper right")

times = np.linspace(0.1, 80, 200)
for value in (0.1, 0.5, 0.9):
    row = models["censored"].predict_dist(np.array([[value, 5.0]]))
    survival = [row.sf(np.log(time))[0] for time in times]
    right.plot(times, survival, label=f"load {value}")
right.set(xlabel="time", ylabel="probability to live longer", title="survival curves")
right.legend()
plt.show()
