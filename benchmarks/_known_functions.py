"""Functions of the literature on emulators, and rows that break the assumptions of a normal GP."""

from collections.abc import Callable
from typing import Final

import numpy as np
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3

Rows = tuple[np.ndarray, np.ndarray]
Make = Callable[[np.random.Generator, int], Rows]


def _uniform(rng: np.random.Generator, n: int, *bounds: tuple[float, float]) -> np.ndarray:
    """Columns (n, D) between their bounds."""
    low, high = np.transpose(bounds)
    return rng.uniform(low, high, (n, len(bounds)))


def borehole(rng: np.random.Generator, n: int) -> Rows:
    """Flow of water through a borehole (Morris, Mitchell and Ylvisaker 1993), without noise."""
    ranges = (63_070, 115_600), (990, 1110), (63.1, 116), (700, 820), (1120, 1680), (9855, 12_045)
    X = np.c_[rng.uniform(0.05, 0.15, n), rng.lognormal(7.71, 1.0056, n), _uniform(rng, n, *ranges)]
    radius, reach, upper, above, lower, below, length, conductivity = X.T
    log = np.log(reach / radius)
    leak = 2.0 * length * upper / (log * radius**2 * conductivity)
    return X, 2.0 * np.pi * upper * (above - below) / (log * (1.0 + leak + upper / lower))


def circuit(rng: np.random.Generator, n: int) -> Rows:
    """Voltage of a push-pull circuit (Ben-Ari and Steinberg 2007), without noise."""
    ranges = (50, 150), (25, 70), (0.5, 3), (1.2, 2.5), (0.25, 1.2), (50, 300)
    X = _uniform(rng, n, *ranges)
    b1, b2, f, c1, c2, beta = X.T
    base, gain = 12.0 * b2 / (b1 + b2), beta * (c2 + 9.0)
    parts = (base + 0.74) * gain + 11.35 * f + 0.74 * f * gain / c1
    return X, parts / (gain + f)


def piston(rng: np.random.Generator, n: int) -> Rows:
    """Time of a piston's cycle (Ben-Ari and Steinberg 2007), without noise."""
    ranges = (
        (30, 60),
        (0.005, 0.02),
        (0.002, 0.01),
        (1000, 5000),
        (9e4, 1.1e5),
        (290, 296),
        (340, 360),
    )
    X = _uniform(rng, n, *ranges)
    mass, area, volume, spring, pressure, ambient, filling = X.T
    force = pressure * area + 19.62 * mass - spring * volume / area
    heated = pressure * volume / filling * ambient
    filled = area / (2.0 * spring) * (np.sqrt(force**2 + 4.0 * spring * heated) - force)
    return X, 2.0 * np.pi * np.sqrt(mass / (spring + area**2 * heated / filled**2))


def ishigami(rng: np.random.Generator, n: int) -> Rows:
    """Ishigami and Homma (1990), without noise."""
    X = rng.uniform(-np.pi, np.pi, (n, 3))
    a, b, c = X.T
    return X, np.sin(a) + 7.0 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)


def arm(rng: np.random.Generator, n: int) -> Rows:
    """Distance that an arm of three links reaches, without noise."""
    X = np.c_[rng.uniform(0.0, 2.0 * np.pi, (n, 3)), rng.uniform(size=(n, 3))]
    turned = np.cumsum(X[:, :3], axis=1)
    return X, np.hypot((X[:, 3:] * np.cos(turned)).sum(1), (X[:, 3:] * np.sin(turned)).sum(1))


def smooth(rng: np.random.Generator, n: int) -> Rows:
    """Two columns, without noise."""
    X = rng.uniform(size=(n, 2))
    return X, np.exp(-X[:, 0]) * np.cos(3.0 * X[:, 1]) + X[:, 0] * X[:, 1]


def irrelevant(rng: np.random.Generator, n: int) -> Rows:
    """Three of thirty columns matter."""
    X = rng.standard_normal((n, 30))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_normal(n)


def linear(rng: np.random.Generator, n: int) -> Rows:
    """Ten columns of falling weight, and noise."""
    X = rng.standard_normal((n, 10))
    return X, X @ np.linspace(1.0, 0.0, 10) + rng.standard_normal(n)


def nothing(rng: np.random.Generator, n: int) -> Rows:
    """Noise alone."""
    return rng.standard_normal((n, 6)), rng.standard_normal(n)


def steps(rng: np.random.Generator, n: int) -> Rows:
    """Jumps in two of four columns."""
    X = rng.uniform(size=(n, 4))
    f = np.floor(4.0 * X[:, 0]) + 2.0 * (X[:, 1] > 0.5) * X[:, 2]
    return X, f + 0.1 * rng.standard_normal(n)


def wide(rng: np.random.Generator, n: int) -> Rows:
    """Noise that grows with a column."""
    X = rng.uniform(-2.0, 2.0, (n, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + np.exp(X[:, 2] - 1.0) * rng.standard_normal(n)


def skewed(rng: np.random.Generator, n: int) -> Rows:
    """Log-normal noise."""
    X = rng.standard_normal((n, 5))
    log = 0.7 * X[:, 0] + 0.5 * np.sin(2.0 * X[:, 1]) + 0.4 * rng.standard_normal(n)
    return X, np.exp(log)


def heavy(rng: np.random.Generator, n: int) -> Rows:
    """Noise of a Student t distribution with 2.5 degrees of freedom."""
    X = rng.uniform(-2.0, 2.0, (n, 4))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_t(2.5, n)


def outliers(rng: np.random.Generator, n: int) -> Rows:
    """Three of a hundred targets are far off."""
    X = rng.uniform(-2.0, 2.0, (n, 4))
    far = rng.uniform(size=n) < 0.03
    noise = np.where(far, 8.0, 0.1) * rng.standard_normal(n)
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + noise


def branches(rng: np.random.Generator, n: int) -> Rows:
    """Two branches."""
    X = rng.uniform(-2.0, 2.0, (n, 2))
    side = rng.choice([-1.0, 1.0], n)
    return X, side * (0.5 + X[:, 0] ** 2 / 2.0) + X[:, 1] + 0.1 * rng.standard_normal(n)


def counts(rng: np.random.Generator, n: int) -> Rows:
    """Poisson counts of a mean about two."""
    X = rng.standard_normal((n, 5))
    log_mean = 0.5 + 0.6 * X[:, 0] - 0.4 * X[:, 1] * (X[:, 2] > 0.0)
    return X, rng.poisson(np.exp(log_mean)).astype(float)


def _friedman(make: Callable[..., Rows], noise: float, rng: np.random.Generator, n: int) -> Rows:
    return make(n, noise=noise, random_state=int(rng.integers(2**31)))


def friedman1(rng: np.random.Generator, n: int) -> Rows:
    """Friedman (1991), the first."""
    return _friedman(make_friedman1, 1.0, rng, n)


def friedman2(rng: np.random.Generator, n: int) -> Rows:
    """Friedman (1991), the second."""
    return _friedman(make_friedman2, 100.0, rng, n)


def friedman3(rng: np.random.Generator, n: int) -> Rows:
    """Friedman (1991), the third."""
    return _friedman(make_friedman3, 0.1, rng, n)


FUNCTIONS: Final[tuple[Make, ...]] = (
    *(borehole, circuit, piston, ishigami, arm, smooth),
    *(friedman1, friedman2, friedman3, irrelevant, linear, nothing, steps),
    *(wide, skewed, heavy, outliers, branches, counts),
)
