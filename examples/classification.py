"""
Classification: decision boundaries and calibrated probabilities
================================================================

A classifier of skgp returns probabilities, as any classifier of scikit-learn does. The data are two
noisy interleaved half moons. Where does a Gaussian process see the boundary, how certain is it far
from the rows, and are its probabilities calibrated? The example compares two objectives, and
logistic regression.
"""

# %%
# 600 rows to train on, 4,000 to test.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skgp import PPGPRClassifier, SVGPClassifier
from skgp.scoring import expected_calibration_error

X, y = make_moons(600, noise=0.35, random_state=0)
X_test, y_test = make_moons(4000, noise=0.35, random_state=1)

# %%
# `SVGPClassifier` maximises a bound on the evidence, `PPGPRClassifier` the log probability that it
# gives to the labels. The likelihood of two classes is a probit unless `likelihood` says otherwise.
options = {"n_inducing": 40, "max_iter": 200, "random_state": 0}
models = {
    "SVGPClassifier": SVGPClassifier(**options),
    "PPGPRClassifier": PPGPRClassifier(n_inducing_mean=60, **options),
    "LogisticRegression": LogisticRegression(),
}
print(f"{'model':20}{'accuracy':>10}{'log loss':>10}{'ECE':>8}")
for name, model in models.items():
    p = model.fit(X, y).predict_proba(X_test)
    print(
        f"{name:20}{model.score(X_test, y_test):10.3f}{log_loss(y_test, p):10.3f}"
        f"{expected_calibration_error(y_test, p):8.3f}"
    )

# %%
# Left: the probability of the second class, and the boundary. Far from the rows it returns towards
# one half. Middle: the standard deviation of the latent function, small where there are rows.
# Right: scikit-learn's calibration display works with these classifiers.
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
svgp = models["SVGPClassifier"]
grid = {"grid_resolution": 120, "eps": 2.0}
surface = DecisionBoundaryDisplay.from_estimator(
    svgp, X, response_method="predict_proba", class_of_interest=1, ax=left, levels=20,
    cmap="RdBu_r", vmin=0.0, vmax=1.0, **grid,
)  # fmt: skip
left.contour(surface.xx0, surface.xx1, surface.response, levels=[0.5], colors="k")
left.set_title("probability of the second class")
left.figure.colorbar(surface.surface_, ax=left)
points = np.column_stack([surface.xx0.ravel(), surface.xx1.ravel()])
deviation = np.sqrt(svgp.latent_mean_and_variance(points)[1]).reshape(surface.xx0.shape)
filled = middle.contourf(surface.xx0, surface.xx1, deviation, levels=20, cmap="viridis")
middle.figure.colorbar(filled, ax=middle)
middle.set_title("standard deviation of the latent function")
for axes in (left, middle):
    for label, color in ((0, "tab:blue"), (1, "tab:red")):
        axes.scatter(*X[y == label].T, s=6, color=color, edgecolor="white", linewidth=0.2)
    axes.set(xlabel="first input", ylabel="second input")
for name, model in models.items():
    CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=10, name=name, ax=right)
right.set_title("calibration")
plt.show()
