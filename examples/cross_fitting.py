"""
Cross-fitting: early stopping that wastes no row
================================================

Early stopping holds out a tenth of the rows, which a small data set can hardly spare. In an
ensemble over five folds, each member holds out another fold, so every row trains four members and
stops one. The mixture of the members uses all rows; it costs five fits.
"""

# %%
# 150 rows to train on, 2,000 to test. The noise grows with the last column.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1

from skgp import PPGPRRegressor
from skgp.compose import CrossFittedRegressor
from skgp.plotting import ReliabilityDisplay
from skgp.scoring import coverage, crps, nll

X, signal = make_friedman1(2150, n_features=6, noise=0.0, random_state=0)
y = signal + (0.3 + 3.0 * X[:, 5]) * np.random.default_rng(0).standard_normal(len(signal))
X_train, y_train, X_test, y_test = X[:150], y[:150], X[150:], y[150:]

# %%
# The same model trained for all epochs, stopped by a tenth of the rows, and cross-fitted.
options = {"n_inducing": 60, "beta_reg": 0.5, "max_iter": 400, "random_state": 0}
stopped = PPGPRRegressor(early_stopping=True, **options)
models = {
    "to the end": PPGPRRegressor(early_stopping=False, **options),
    "early stopping": stopped,
    "cross-fitted": CrossFittedRegressor(stopped, cv=5),
}
dists = {}
print(f"{'model':16}{'NLL':>8}{'CRPS':>8}{'in 90 % interval':>18}{'seconds':>9}")
for name, model in models.items():
    start = time.process_time()
    dists[name] = dist = model.fit(X_train, y_train).predict_dist(X_test)
    seconds = time.process_time() - start
    scores = f"{nll(y_test, dist):8.3f}{crps(y_test, dist):8.3f}{coverage(y_test, dist):18.1%}"
    print(f"{name:16}{scores}{seconds:9.1f}")

# %%
# The ensemble keeps, for each training row, the distribution of the member that left it out: scores
# without a further split.
print(f"out of fold: NLL {nll(y_train, models['cross-fitted'].oof_dist_):.3f}")

# %%
# Below the diagonal intervals are too narrow, above it too wide.
figure, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
for name, dist in dists.items():
    ReliabilityDisplay.from_predictions(y_test, dist, name=name, ax=ax)
plt.show()
