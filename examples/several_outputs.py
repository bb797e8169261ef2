"""
Several outputs: hidden units between latent functions and outputs
==================================================================

Six sensors measure one moving source, and each responds in its own way: some saturate, some
rectify. The position of the source is a smooth function of the inputs, but the sensor values are
not linear combinations of a few smooth functions. Two models with two latent functions each are
compared: one mixes them linearly, the other through hidden units. One reading in five is missing.
"""

# %%
# 600 rows to train on, 600 to test.
import matplotlib.pyplot as plt
import numpy as np

from skgp import MOGPRegressor, NeuralMOGPRegressor
from skgp.scoring import joint_nll, rmse


def readings(n_rows, rng):
    """Two inputs, and what six sensors around the source report, with noise of 0.05."""
    X = rng.uniform(-1.0, 1.0, (n_rows, 2))
    source = np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 0] * X[:, 1]])
    angles = np.linspace(0.0, 2.0 * np.pi, 6, endpoint=False)
    along = source @ np.vstack([np.cos(angles), np.sin(angles)])
    Y = np.hstack([np.tanh(4.0 * along[:, :3]), np.maximum(along[:, 3:], 0.0)])
    return X, Y + 0.05 * rng.standard_normal(Y.shape)


rng = np.random.default_rng(0)
X, Y = readings(600, rng)
X_test, Y_test = readings(600, rng)
Y[rng.random(Y.shape) < 0.2] = np.nan

# %%
# The same options for both. The density is that of the six outputs of a row together, divided by
# their number.
options = {"n_latents": 2, "n_inducing": 50, "max_iter": 400, "random_state": 0}
models = {
    "linear mixing": MOGPRegressor(**options),
    "hidden units": NeuralMOGPRegressor(activation="erf", **options),
}
for name, model in models.items():
    dist = model.fit(X, Y).predict_dist(X_test)
    print(f"{name}: RMSE {rmse(Y_test, dist):.3f}, NLL {joint_nll(Y_test, dist):.2f}")

# %%
# The predicted mean of each sensor against what it reports.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    mean = model.predict(X_test)
    for sensor in range(6):
        ax.plot(Y_test[:, sensor], mean[:, sensor], ".", markersize=3, label=f"sensor {sensor + 1}")
    ax.axline((0.0, 0.0), slope=1.0, color="0.5", linewidth=1.0)
    ax.set(title=name, xlabel="reading", ylabel="predicted mean")
axes[0].legend(markerscale=3)
plt.show()
