"""
Diagnostics: is the model certain where it can be?
==================================================

In this problem the noise depends on the input: outcomes scatter little on the left and much on the
right. Two sparse GPs are fitted to it. The variational one has homoscedastic noise, so its
intervals are too wide on the left and too narrow on the right. In the one that is trained for its
predictive density, the variance of the function describes the varying noise. The displays of
:mod:`skgp.plotting` show the difference.
"""

# %%
# A sine with noise whose standard deviation grows from 0.1 to 1.1.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from skgp import PPGPRRegressor, SVGPRegressor
from skgp.plotting import (
    IntervalDisplay,
    ModelComparisonDisplay,
    NoiseFractionDisplay,
    PITDisplay,
    PredictiveBandDisplay,
    ReliabilityDisplay,
    TrainingCurveDisplay,
    ZScoreDisplay,
)
from skgp.scoring import nll

rng = np.random.default_rng(0)
X = rng.uniform(0, 5, size=(3000, 1))
y = np.sin(2 * X[:, 0]) + (0.1 + 0.2 * X[:, 0]) * rng.normal(size=len(X))
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
X_fit, X_val, y_fit, y_val = train_test_split(X_train, y_train, test_size=0.2, random_state=0)

# %%
# The scores of the validation rows are recorded; they do not stop the training.
options = {"n_inducing": 40, "covariance": "full", "max_iter": 200, "random_state": 0}
models = {"SVGP": SVGPRegressor(**options), "PPGPR": PPGPRRegressor(**options)}
for model in models.values():
    model.fit(X_fit, y_fit, X_val=X_val, y_val=y_val)

# %%
# Predictions and noise of the models. Dark band: the function; light band: the next observation.
figure, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
x_grid = np.linspace(0, 5, 200)
for (name, model), ax in zip(models.items(), axes, strict=False):
    PredictiveBandDisplay.from_estimator(model, X_test, y_test, grid=x_grid, name=name, ax=ax)
NoiseFractionDisplay.from_estimators(models, X_test, ax=axes[2])
plt.show()

# %%
# Calibration, on rows that the models have not seen. Averaged over all rows, both models may look
# well calibrated; the z-scores of SVGP have too high a peak and too heavy tails.
dists = {name: model.predict_dist(X_test) for name, model in models.items()}
figure, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
for name, dist in dists.items():
    ZScoreDisplay.from_predictions(y_test, dist, name=name, ax=axes[0])
    PITDisplay.from_predictions(y_test, dist, name=name, ax=axes[1])
    ReliabilityDisplay.from_predictions(y_test, dist, name=name, ax=axes[2])
plt.show()

# %%
# Which rows are certain, and which miss? And had training converged, on the training rows and on
# the validation rows?
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
IntervalDisplay.from_predictions(y_test, dists["PPGPR"], name="PPGPR", order="mean", ax=left)
for name, model in models.items():
    TrainingCurveDisplay.from_estimator(model, name=name, ax=right)
plt.show()

# %%
# Scores in the quiet and in the noisy half, with standard errors over ten parts of the test rows.
results = []
for half, rows in (("x < 2.5", X_test[:, 0] < 2.5), ("x > 2.5", X_test[:, 0] > 2.5)):
    for split, part in enumerate(np.array_split(np.flatnonzero(rows), 10)):
        for name, dist in dists.items():
            score = nll(y_test[part], dist[part])
            results.append({"dataset": half, "method": name, "split": split, "NLL": score})
ModelComparisonDisplay.from_results(results, metric="NLL")
plt.show()
