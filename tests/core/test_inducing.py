"""Choice of inducing inputs."""

import numpy as np
import pytest
from scipy.spatial import Delaunay

from skgp.core.kernels.inducing import kmeans_inducing_points


def quantisation_error(X: np.ndarray, centres: np.ndarray) -> float:
    """Mean over rows of the squared distance to the nearest centre."""
    return float(np.mean([min(np.sum((x - c) ** 2) for c in centres) for x in X]))


@pytest.mark.parametrize("n_inducing", [3, 4, 10])
def test_all_distinct_rows_sorted_where_they_are_no_more_than_wanted(n_inducing: int) -> None:
    X = np.array([[2.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    centres = kmeans_inducing_points(X, np.ones(len(X)), n_inducing, 0)
    np.testing.assert_array_equal(centres, [[0.0, -1.0], [0.0, 1.0], [2.0, 0.0]])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_centres_lie_in_the_convex_hull(rng: np.random.Generator, seed: int) -> None:
    X = rng.normal(size=(200, 2))
    centres = kmeans_inducing_points(X, np.ones(len(X)), 12, seed)
    assert centres.shape == (12, 2)
    assert centres.dtype == np.float64
    assert np.all(Delaunay(X).find_simplex(centres) >= 0)
    assert len(np.unique(centres, axis=0)) == 12


def test_quantisation_error_is_below_that_of_every_random_subset(
    rng: np.random.Generator,
) -> None:
    X = rng.normal(size=(150, 2))
    error = quantisation_error(X, kmeans_inducing_points(X, np.ones(len(X)), 10, 0))
    subsets = [rng.choice(X, 10, replace=False) for _ in range(20)]
    assert error < min(quantisation_error(X, subset) for subset in subsets)


def test_separated_clusters_get_one_centre_each(rng: np.random.Generator) -> None:
    corners = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0], [50.0, 50.0]])
    X = (corners[:, None] + 0.1 * rng.normal(size=(4, 50, 2))).reshape(-1, 2)
    centres = kmeans_inducing_points(X, np.ones(len(X)), 4, 0)
    for corner in corners:
        assert np.min(np.linalg.norm(centres - corner, axis=1)) < 0.1


def test_seed_decides_bit_for_bit(rng: np.random.Generator) -> None:
    X = rng.normal(size=(300, 3))
    first = kmeans_inducing_points(X, np.ones(len(X)), 20, 7)
    np.testing.assert_array_equal(kmeans_inducing_points(X, np.ones(len(X)), 20, 7), first)
    assert not np.array_equal(kmeans_inducing_points(X, np.ones(len(X)), 20, 8), first)


def test_rows_count_by_their_weights(rng: np.random.Generator) -> None:
    """Rows of next to no weight draw no centres, however many they are."""
    X = np.r_[rng.normal(size=(3000, 2)) + 20.0, rng.normal(size=(200, 2))]
    weight = np.r_[np.full(3000, 1e-6), np.ones(200)]
    centres = kmeans_inducing_points(X, weight, 30, 0)
    assert (np.abs(centres) < 6.0).all(axis=1).all()


def test_weights_are_repetitions_and_the_order_of_rows_is_no_matter(
    rng: np.random.Generator,
) -> None:
    X, weight = rng.normal(size=(300, 2)), rng.integers(0, 4, 300)
    repeated = rng.permutation(X.repeat(weight, axis=0))
    np.testing.assert_array_equal(
        kmeans_inducing_points(X, weight.astype(float), 25, 3),
        kmeans_inducing_points(repeated, np.ones(len(repeated)), 25, 3),
    )


@pytest.mark.parametrize(("n", "n_inducing"), [(70, 50), (70, 64), (300, 200), (1000, 300)])
def test_rounding_errors_of_rows_and_weights_decide_nothing(
    rng: np.random.Generator, n: int, n_inducing: int
) -> None:
    """Of rows that tie between two centres, as those of a centre between two rows do."""
    X, weight = rng.normal(size=(n, 2)), rng.uniform(0.5, 2.0, n)
    centres = kmeans_inducing_points(X, weight, n_inducing, 0)
    errors = 1.0 + 4e-16 * rng.integers(-1, 2, X.shape)
    again = kmeans_inducing_points(X * errors, weight * errors[:, 0], n_inducing, 0)
    np.testing.assert_allclose(again, centres, rtol=0.0, atol=1e-15)


def test_rows_that_differ_by_rounding_alone_are_one() -> None:
    X = np.array([[1.0, 0.0], [1.0 + 1e-13, 0.0], [0.0, 1.0]])
    centres = kmeans_inducing_points(X, np.ones(3), 2, 0)
    np.testing.assert_array_equal(centres, X[[2, 0]])
