"""
Choosing beta_reg on a validation split
=======================================

`beta_reg` weighs the divergence of q(u) from its prior against the data. The papers choose it on
one validation split rather than by cross-validation: one fit for each value. In scikit-learn that
is a `GridSearchCV` over a `PredefinedSplit`. The fits see the same rows, so with `memory` they
share their standardisation and their k-means.
"""

# %%
# A data set whose noise depends on the inputs: 300 training rows, 150 to validate, 2,000 to test.
import time
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from skgp import PPGPRRegressor
from skgp.scoring import coverage, crps, neg_nll_scorer, nll

X, signal = make_friedman1(2450, n_features=6, noise=0.0, random_state=0)
noise_std = 0.3 + 3.0 * X[:, 5]  # the column that the signal does not depend on
y = signal + noise_std * np.random.default_rng(0).standard_normal(len(signal))
X_fit, y_fit, X_test, y_test = X[:450], y[:450], X[450:], y[450:]

# %%
# -1 marks the rows that are always in the training part, 0 those of the one validation fold.
split = PredefinedSplit(np.repeat([-1, 0], [300, 150]))
grid = {"beta_reg": [0.05, 0.2, 1.0, 5.0]}
model = PPGPRRegressor(n_inducing=100, n_inducing_mean=100, max_iter=300, random_state=0)

start = time.perf_counter()
with TemporaryDirectory() as folder:
    model.set_params(memory=folder)
    search = GridSearchCV(model, grid, cv=split, scoring=neg_nll_scorer).fit(X_fit, y_fit)
    model.set_params(memory=None)
print(f"{len(grid['beta_reg'])} fits and the final one: {time.perf_counter() - start:.1f} seconds")

# %%
# The model with the best value is refitted on all 450 rows. Do the test rows prefer the same value?
# To find out, models with the other values are fitted to the same 450 rows.
print(f"{'beta_reg':>8}{'validation NLL':>16}{'test NLL':>10}{'CRPS':>8}{'in 90 % interval':>18}")
validation = -search.cv_results_["mean_test_score"]
test = []
for value, score in zip(grid["beta_reg"], validation, strict=True):
    fitted = search.best_estimator_
    if value != search.best_params_["beta_reg"]:
        fitted = PPGPRRegressor(**{**model.get_params(), "beta_reg": value}).fit(X_fit, y_fit)
    dist = fitted.predict_dist(X_test)
    test.append(nll(y_test, dist))
    inside = coverage(y_test, dist, coverage=0.9)
    print(f"{value:8}{score:16.3f}{test[-1]:10.3f}{crps(y_test, dist):8.3f}{inside:18.1%}")
print(f"chosen: {search.best_params_['beta_reg']}")

# %%
# With too small a value the model overfits: its variances suit the training rows only.
figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
axes.semilogx(grid["beta_reg"], validation, "o-", label="validation rows")
axes.semilogx(grid["beta_reg"], test, "s--", label="test rows")
axes.axvline(search.best_params_["beta_reg"], color="k", linestyle=":", label="chosen")
axes.set(xlabel="beta_reg", ylabel="negative log likelihood, nats per row")
axes.legend()
plt.show()
