"""Made-up rows with what data of users often have: categories, many zeros, groups, time stamps."""

from typing import Final

import numpy as np

from benchmarks._known_functions import Make, Rows


def categories(rng: np.random.Generator, n: int) -> Rows:
    """Two one-hot columns of six and four categories, one of which changes a slope."""
    first, second = rng.integers(0, 6, n), rng.integers(0, 4, n)
    numbers, level, slope = rng.standard_normal((n, 4)), rng.normal(size=6), rng.normal(size=4)
    f = level[first] + slope[second] * numbers[:, 0] + np.sin(2.0 * numbers[:, 1])
    X = np.column_stack([np.eye(6)[first], np.eye(4)[second], numbers])
    return X, f + 0.3 * rng.standard_normal(n)


def mostly_zero(rng: np.random.Generator, n: int) -> Rows:
    """Zero, or a positive amount, as of rain or claims."""
    X = rng.standard_normal((n, 5))
    z = X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(n)
    amount = np.exp(0.5 * X[:, 2] + z) * rng.gamma(3.0, 1.0 / 3.0, n)
    return X, np.where(z > 0.3, amount, 0.0)


def capped(rng: np.random.Generator, n: int) -> Rows:
    """Values above a limit are recorded as the limit."""
    X = rng.standard_normal((n, 6))
    f = 2.0 + X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3]
    return X, np.minimum(f + 0.3 * rng.standard_normal(n), 3.0)


def groups(rng: np.random.Generator, n: int) -> Rows:
    """Twelve groups, each with a level of its own."""
    centre, level, group = (
        2.0 * rng.normal(size=(12, 5)),
        rng.normal(size=12),
        rng.integers(0, 12, n),
    )
    X = centre[group] + 0.2 * rng.standard_normal((n, 5))
    return X, 2.0 * level[group] + X[:, 0] + 0.2 * rng.standard_normal(n)


def many_columns(rng: np.random.Generator, n: int) -> Rows:
    """Six of eighty columns count."""
    X = rng.standard_normal((n, 80))
    f = X[:, :5] @ np.array([1.0, -1.0, 0.5, 0.5, 0.3]) + np.sin(2.0 * X[:, 5])
    return X, f + 0.5 * rng.standard_normal(n)


def rules(rng: np.random.Generator, n: int) -> Rows:
    """A decision tree over grades from 0 to 7."""
    X = rng.integers(0, 8, (n, 6)).astype(float)
    upper, lower = np.where(X[:, 1] > 4.0, 3.0, 0.0), np.where(X[:, 2] < 2.0, -2.0, 1.0)
    f = np.where(X[:, 0] > 3.0, upper, lower) + 0.2 * X[:, 3]
    return X, f + 0.3 * rng.standard_normal(n)


def time_stamps(rng: np.random.Generator, n: int) -> Rows:
    """Seconds since 1970, a temperature, a day of the week that does not matter."""
    seconds = rng.uniform(0.0, 3e7, n)
    temperature = 10.0 + 8.0 * rng.standard_normal(n)
    X = np.column_stack([1.6e9 + seconds, temperature, rng.integers(0, 7, n)])
    return X, np.sin(seconds / 3e6) + 0.05 * temperature + 0.3 * rng.standard_normal(n)


def repeated_settings(rng: np.random.Generator, n: int) -> Rows:
    """Five settings of three knobs: a design with repetitions."""
    X = rng.integers(0, 5, (n, 3)).astype(float)
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 8.0 + 0.4 * rng.standard_normal(n)


def calm_and_wild(rng: np.random.Generator, n: int) -> Rows:
    """Noise whose standard deviation goes from 0.03 to 4."""
    X = rng.uniform(-2.0, 2.0, (n, 4))
    f = X[:, 0] ** 2 + X[:, 1]
    return X, f + np.exp(1.2 * X[:, 2] - 1.0) * rng.standard_normal(n)


def random_walk(rng: np.random.Generator, n: int) -> Rows:
    """A random walk, at times in any order."""
    walk, order = np.cumsum(rng.standard_normal(n)) / np.sqrt(n), rng.permutation(n)
    return order[:, np.newaxis] / n, walk[order]


def copied_columns(rng: np.random.Generator, n: int) -> Rows:
    """Nine columns are sums of three others but for a thousandth, and one is constant."""
    Z = rng.standard_normal((n, 3))
    sums = Z @ rng.normal(size=(3, 9)) + 1e-3 * rng.standard_normal((n, 9))
    y = np.tanh(2.0 * Z[:, 0]) + Z[:, 1] + 0.1 * rng.standard_normal(n)
    return np.column_stack([Z, sums, np.ones(n)]), y


def two_levels(rng: np.random.Generator, n: int) -> Rows:
    """Two levels four apart; a column says how likely the upper one is."""
    X = rng.standard_normal((n, 5))
    is_upper = rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 1]))
    return X, X[:, 0] + np.where(is_upper, 2.0, -2.0) + 0.2 * rng.standard_normal(n)


EVERYDAY: Final[tuple[Make, ...]] = (
    *(categories, mostly_zero, capped, groups, many_columns, rules, time_stamps),
    *(repeated_settings, calm_and_wild, random_walk, copied_columns, two_levels),
)
