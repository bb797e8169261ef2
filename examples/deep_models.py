"""
Deep models: densities that are not normal
==========================================

How long does a delivery take? That depends on the distance, the hour and the vehicle; and at the
busy hours there is a bridge that may be up, so that two outcomes are likely and nothing between
them is. A Gaussian process has one normal for each row, whatever it is trained for. A deep one
mixes several: here a deep sigma point process, tuned inside a scikit-learn pipeline, beside a deep
GP and two models of one layer.
"""

# %%
# 1,500 deliveries to train on, 2,000 to test. The bridge delays by a quarter of an hour, and most
# often at 17 h; what remains is skewed noise that grows with the distance.
import time
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgp import DGPRegressor, DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.plotting import PITDisplay, PredictiveBandDisplay
from skgp.scoring import coverage, crps, neg_crps_scorer, nll, rmse


def deliveries(n_rows, rng):
    """Distance in km, hour, vehicle (0 bicycle, 1 van, 2 lorry), and the minutes taken."""
    distance, hour = rng.gamma(4.0, 1.5, n_rows), rng.uniform(8.0, 20.0, n_rows)
    vehicle = rng.integers(0, 3, n_rows)
    pace = np.array([3.5, 2.0, 2.6])[vehicle]  # minutes per km
    is_up = rng.random(n_rows) < 0.6 * np.exp(-(((hour - 17.0) / 2.0) ** 2))
    delay = 0.15 * distance * rng.gamma(2.0, 1.0, n_rows)
    return np.column_stack([distance, hour, vehicle]), pace * distance + 15.0 * is_up + delay


rng = np.random.default_rng(0)
X_train, y_train = deliveries(1500, rng)
X_test, y_test = deliveries(2000, rng)

# %%
# The search: `beta_reg` and `width` by CRPS, on two folds. The nine fits on three sets of rows share
# their k-means through `memory`.
columns = make_column_transformer((StandardScaler(), [0, 1]), (OneHotEncoder(), [2]))
options = {"n_inducing": 50, "max_iter": 150, "random_state": 0}
grid = {"dsppregressor__beta_reg": [0.05, 0.3], "dsppregressor__width": [2, 4]}

start = time.perf_counter()
with TemporaryDirectory() as folder:
    pipe = make_pipeline(columns, DSPPRegressor(**options, memory=folder))
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(pipe, grid, scoring=neg_crps_scorer, cv=folds).fit(X_train, y_train)
print(f"9 fits: {time.perf_counter() - start:.0f} seconds")
for name, value in search.best_params_.items():
    print(f"{name} = {value}")
print(f"CRPS of the folds: {-search.best_score_:.3f} minutes")

# %%
# The models of one layer and the deep GP see the same rows.
start = time.perf_counter()
others = {
    "SVGP": SVGPRegressor(**options),
    "PPGPR": PPGPRRegressor(**options, beta_reg=0.3),
    "DGP": DGPRegressor(**options),
}
dists = {}
for name, model in others.items():
    model = make_pipeline(columns, model).fit(X_train, y_train)
    dists[name] = model.predict_proba(X_test)
dists["DSPP"] = search.predict_proba(X_test)
print(f"3 fits and 4 predictions: {time.perf_counter() - start:.0f} seconds")

print(f"{'':8}{'NLL':>8}{'CRPS':>8}{'RMSE':>8}{'in 90 % interval':>18}")
for name, dist in dists.items():
    scores = f"{nll(y_test, dist):8.3f}{crps(y_test, dist):8.3f}{rmse(y_test, dist):8.3f}"
    print(f"{name:8}{scores}{coverage(y_test, dist, coverage=0.9):18.1%}")
