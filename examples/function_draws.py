"""
Draws of functions: Thompson sampling
=====================================

Where is a noisy function of two inputs smallest? Each evaluation is expensive. Thompson sampling
draws functions from the posterior and evaluates next where each of the draws is smallest: if the
posterior is certain of a minimum, the draws agree; otherwise they explore different places. It
needs draws that are functions, as `sample_functions` gives: the same at every call, at any input,
with gradients.
"""

# %%
# Branin's function on the unit square, with noise of standard deviation 5. It has three minima, all
# of 0.398, and goes up to 308.
import warnings

import matplotlib.pyplot as plt
import numpy as np
import torch

from skgp import ExactGPRegressor
from skgp.exceptions import FitQualityWarning

LOWEST = 0.398
NOISE = 5.0


def branin(X):
    a, b = 15.0 * X[:, 0] - 5.0, 15.0 * X[:, 1]
    valley = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0


def measured(X, rng):
    return branin(X) + NOISE * rng.standard_normal(len(X))


# %%
# The lowest point of each draw: the best of 2,000 random candidates, then steps of a descent along
# the draw's own slope. `evaluate` returns the values of all draws at all points; each point belongs
# to one draw, so the diagonal counts.


def lowest_points(f, rng):
    candidates = rng.uniform(size=(2000, 2))
    x = torch.tensor(candidates[f(candidates).argmin(axis=0)], requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.005)
    for _ in range(40):
        optimizer.zero_grad()
        f.evaluate(x).diagonal().sum().backward()
        optimizer.step()
        with torch.no_grad():
            x.clamp_(0.0, 1.0)
    return x.detach().numpy()


# %%
# Ten random points, then ten rounds of four draws each. With few points the noise may be estimated
# as zero, of which the fit warns; later rounds correct this.
warnings.simplefilter("ignore", FitQualityWarning)


def thompson_sampling(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(10, 2))
    y = measured(X, rng)
    for number in range(10):
        model = ExactGPRegressor(random_state=0).fit(X, y)
        f = model.sample_functions(4, random_state=number)
        X_next = lowest_points(f, rng)
        X, y = np.vstack([X, X_next]), np.append(y, measured(X_next, rng))
    return X, ExactGPRegressor(random_state=0).fit(X, y)


def random_search(seed):
    return np.random.default_rng(seed).uniform(size=(50, 2))


# %%
# How far the best point so far lies above the minimum, without noise, over five runs.
def regret(X):
    return np.minimum.accumulate(branin(X)) - LOWEST


runs = [thompson_sampling(seed) for seed in range(5)]
curves = {
    "random points": np.array([regret(random_search(seed)) for seed in range(5)]),
    "Thompson sampling": np.array([regret(X) for X, _ in runs]),
}
print(f"{'above the minimum after':25}{'10':>8}{'30':>8}{'50 points':>12}")
for name, curve in curves.items():
    at = np.median(curve, axis=0)[[9, 29, 49]]
    print(f"{name:25}{at[0]:8.2f}{at[1]:8.2f}{at[2]:12.2f}")

# %%
# The points of one run gather in two of the three valleys: one minimum is enough. A draw of the
# final model is one of the functions that may have given the measurements. Along a line, draws
# agree near measurements and part where there are none.
X, model = runs[0]
edge = np.linspace(0.0, 1.0, 60)
grid = np.stack(np.meshgrid(edge, edge), -1).reshape(-1, 2)
levels = np.linspace(0.0, 310.0, 32)
figure, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
(truth, draw), (line, regrets) = axes
f = model.sample_functions(8, random_state=1)
for ax, values, title in [
    (truth, branin(grid), "the function, and points in their order"),
    (draw, f(grid)[:, 0], "a draw after 50 points"),
]:
    ax.contour(edge, edge, values.reshape(60, 60), levels=levels, colors="0.7", linewidths=0.7)
    ax.set(title=title, xlabel="$x_1$", ylabel="$x_2$")
points = truth.scatter(*X.T, c=np.arange(len(X)), cmap="viridis", s=25, zorder=2)
figure.colorbar(points, ax=truth, label="number of the point")
draw.scatter(*X.T, color="0.2", s=8, zorder=2)
along = np.column_stack([edge, np.full(60, 0.15)])
line.plot(edge, f(along), color="#0072B2", linewidth=0.8)
line.plot(edge, branin(along), color="black", label="the function")
line.plot([], [], color="#0072B2", label="draws")
line.set(title="along $x_2 = 0.15$", xlabel="$x_1$", ylabel="y")
line.legend()
for (name, curve), color in zip(curves.items(), ("0.5", "#0072B2"), strict=True):
    numbers = np.arange(1, 51)
    regrets.plot(numbers, np.median(curve, axis=0), color=color, label=name)
    regrets.fill_between(numbers, curve.min(0), curve.max(0), color=color, alpha=0.15)
regrets.set(yscale="log", title="best point so far, five runs", xlabel="points")
regrets.set_ylabel("above the minimum")
regrets.legend()
figure.savefig("function_draws.png", dpi=110)
print("picture: function_draws.png")
