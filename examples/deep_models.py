"""
Deep models: densities that are not normal
==========================================

How long does a delivery take? That depends on the distance, the hour and the vehicle. In two cases
of five there is no place to park, which costs little time in the morning and much at 17 h. Two
outcomes are likely then, and nothing between them. A Gaussian process of one layer predicts one
normal for each row. A deep one mixes several: here a deep sigma point process, tuned inside a
scikit-learn pipeline, is compared with a deep GP and two models of one layer.
"""

# %%
# 1,000 deliveries to train on, 2,000 to test. Besides the search for a parking place there is
# skewed noise that grows with the distance.
import time
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgp import DGPRegressor, DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.plotting import PITDisplay
from skgp.scoring import coverage, crps, neg_crps_scorer, nll, rmse


def deliveries(n_rows, rng):
    """Distance in km, hour, vehicle (0 bicycle, 1 van, 2 lorry), and the minutes taken."""
    distance, hour = rng.gamma(4.0, 1.5, n_rows), rng.uniform(8.0, 20.0, n_rows)
    vehicle = rng.integers(0, 3, n_rows)
    pace = np.array([3.5, 2.0, 2.6])[vehicle]  # minutes per km
    searches = rng.random(n_rows) < 0.4
    search = 25.0 * np.exp(-(((hour - 17.0) / 2.0) ** 2))
    delay = 0.15 * distance * rng.gamma(2.0, 1.0, n_rows)
    return np.column_stack([distance, hour, vehicle]), pace * distance + search * searches + delay


rng = np.random.default_rng(0)
X_train, y_train = deliveries(1000, rng)
X_test, y_test = deliveries(2000, rng)

# %%
# The search: `beta_reg` by CRPS, on two folds; `width` could be searched too. `memory` lets fits on
# the same rows share their k-means.
columns = make_column_transformer((StandardScaler(), [0, 1]), (OneHotEncoder(), [2]))
options = {
    "n_inducing": 50, "max_iter": 150, "batch_size": 250, "learning_rate_init": 0.05,
    "random_state": 0,
}  # fmt: skip
grid = {"dsppregressor__beta_reg": [0.3, 1.0]}

start = time.perf_counter()
with TemporaryDirectory() as folder:
    pipe = make_pipeline(columns, DSPPRegressor(width=4, **options, memory=folder))
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(pipe, grid, scoring=neg_crps_scorer, cv=folds).fit(X_train, y_train)
print(f"5 fits: {time.perf_counter() - start:.0f} seconds")
for name, value in search.best_params_.items():
    print(f"{name} = {value}")
print(f"CRPS of the folds: {-search.best_score_:.3f} minutes")

# %%
# The other models see the same rows. DSPP has the best NLL and the best CRPS; its mean, for which
# it is not trained, is about as good as theirs. The deep GP explains the spread by homoscedastic
# noise.
start = time.perf_counter()
others = {
    "SVGP": SVGPRegressor(**options),
    "PPGPR": PPGPRRegressor(**options, n_inducing_mean=100, beta_reg=0.3),
    "DGP": DGPRegressor(**options),
}
fitted = {n: make_pipeline(columns, m).fit(X_train, y_train) for n, m in others.items()}
fitted["DSPP"] = search
dists = {name: model.predict_proba(X_test) for name, model in fitted.items()}
print(f"3 fits and 4 predictions: {time.perf_counter() - start:.0f} seconds")

print(f"{'':8}{'NLL':>8}{'CRPS':>8}{'RMSE':>8}{'in 90 % interval':>18}")
for name, dist in dists.items():
    scores = f"{nll(y_test, dist):8.3f}{crps(y_test, dist):8.3f}{rmse(y_test, dist):8.3f}"
    print(f"{name:8}{scores}{coverage(y_test, dist, coverage=0.9):18.1%}")

# %%
# A lorry, 6 km, in the morning and at 17 h. The search has the method `predict_proba` of its last
# step, which on regressors is another name for `predict_dist`. The intervals need not be symmetric.
X_new = np.array([[6.0, 10.0, 2.0], [6.0, 17.0, 2.0]])
new = search.predict_proba(X_new)
late, (lower, upper) = new.ppf(0.95), new.interval(0.9)
for row, hour in enumerate(("10 h", "17 h")):
    print(f"{hour}: mean {new.mean()[row]:.1f} minutes, 95 % quantile {late[row]:.1f}", end=", ")
    print(f"90 % interval {lower[row]:.1f} to {upper[row]:.1f}")

# %%
# Left: the density of the second delivery by the two models that are trained for their densities,
# and what other deliveries like it would take. Right: a calibrated model's histogram is flat.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
minutes = np.linspace(0.0, 60.0, 400)
pace, delay = 2.6 * 6.0, 0.15 * 6.0 * rng.gamma(2.0, 1.0, 5000)
outcomes = pace + 25.0 * (rng.random(5000) < 0.4) + delay
left.hist(outcomes, bins=60, range=(0, 60), density=True, color="0.8", label="outcomes")
ppgpr = fitted["PPGPR"].predict_proba(X_new)
for name, dist in (("PPGPR", ppgpr), ("DSPP", new)):
    left.plot(minutes, np.exp([dist[1:].logpdf([value])[0] for value in minutes]), label=name)
left.set(xlabel="minutes, lorry, 6 km, 17 h", ylabel="density")
left.legend()
for name in ("PPGPR", "DSPP"):
    PITDisplay.from_predictions(y_test, dists[name], name=name, ax=right)
plt.show()
