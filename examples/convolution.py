"""
Digits: a convolutional network in front of a Gaussian process
==============================================================

For a kernel on raw pixels, two digits differ if one is shifted by a pixel. A convolutional network
recognises strokes wherever they are, and a Gaussian process on its features quantifies the
uncertainty. Any torch module can be put in front of the kernel: `feature_extractor` takes a
function that returns the module, given the number of columns of X.
"""

# %%
# 1,797 digits of 8 x 8 pixels come with scikit-learn; 600 to train on.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from torch import nn

from skgp import SVGPClassifier
from skgp.scoring import expected_calibration_error

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16.0, y, train_size=600, stratify=y, random_state=0
)


# %%
# The network takes rows of pixels and returns features; a batch norm gives these unit variance,
# which the initial lengthscales assume. The function stands at the top of a module, so that the
# model can be pickled.
def convolutions(n_pixels):
    side = int(n_pixels**0.5)
    return nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (side // 4) ** 2, 10),
        nn.BatchNorm1d(10, affine=False),
    )


# %%
# Ten classes, with a function for each and one kernel for all. Digits hardly overlap, so the label
# is that of the largest function, except for rare errors: `likelihood="robust-max"`. Pixels share a
# scale, so the network gets them unscaled.
options = {
    "likelihood": "robust-max", "n_inducing": 50, "share_kernel": True,
    "max_iter": 100, "batch_size": 200, "learning_rate_init": 0.02, "random_state": 0,
}  # fmt: skip
models = {
    "pixels": SVGPClassifier(**options),
    "convolutions": SVGPClassifier(feature_extractor=convolutions, normalize_X=False, **options),
}
print(f"{'kernel of':14}{'accuracy':>10}{'log loss':>10}{'ECE':>8}")
for name, model in models.items():
    p = model.fit(X_train, y_train).predict_proba(X_test)
    print(
        f"{name:14}{model.score(X_test, y_test):10.3f}{log_loss(y_test, p):10.3f}"
        f"{expected_calibration_error(y_test, p):8.3f}"
    )

# %%
# The test digits about which the model is least certain, with its two most probable labels.
order = np.argsort(p.max(1))[:12]
figure, axes = plt.subplots(2, 6, figsize=(9, 3.8), layout="constrained")
for axis, row in zip(axes.flat, order, strict=True):
    axis.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    first, second = np.argsort(-p[row])[:2]
    axis.set_title(f"{first}: {p[row, first]:.2f}, {second}: {p[row, second]:.2f}", fontsize=9)
    axis.set_xlabel(f"it is a {y_test[row]}", fontsize=9)
    axis.set(xticks=[], yticks=[])
figure.suptitle("least certain test digits")
plt.show()
