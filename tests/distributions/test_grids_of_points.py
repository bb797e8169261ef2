"""Densities and probabilities at several points of each row, in one call."""

import numpy as np
import pytest

from skgp.distributions import CountMixture, MonotoneTransformed, NormalMixture

FUNCTIONS = ["pdf", "logpdf", "cdf", "sf"]


def _square_root(y):
    """An inverse whose outputs differ: y = z^3 in the second, and decreasing in the third."""
    if y.ndim == 1:
        return np.cbrt(y)
    return np.column_stack([y[:, 0], np.cbrt(y[:, 1]), -y[:, 2]])


def _cube(z):
    if z.ndim == 1:
        return z**3
    return np.column_stack([z[:, 0], z[:, 1] ** 3, -z[:, 2]])


def _above_one(z):
    return 1.0 + np.exp(z)


def _log_above_one(y):
    return np.log(y - 1.0)


@pytest.fixture(
    params=["single", "outputs-joint", "counts", "cubed", "outputs, transformed", "above one"]
)
def dist(request, make):
    return {
        "single": lambda: make("single"),
        "outputs-joint": lambda: make("outputs-joint"),
        "counts": lambda: CountMixture(make("single", scale=0.3), [0.0, 0.1, 0.0, 2.0]),
        "cubed": lambda: MonotoneTransformed(make("single"), _cube, _square_root),
        "above one": lambda: MonotoneTransformed(make("outputs"), _above_one, _log_above_one),
        "outputs, transformed": lambda: MonotoneTransformed(make("outputs"), _cube, _square_root),
    }[request.param]()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_grid_for_all_rows_is_one_scalar_after_another(dist, name):
    grid = np.array([-2.0, 0.5, 1.0, 2.0, np.nan, 3.0, 7.0])  # of another length than the rows
    function = getattr(dist, name)
    expected = np.stack([function(point) for point in grid], axis=-1)
    actual = function(grid.reshape((1,) * dist.ndim + (-1,)))
    assert actual.shape == (*dist.shape, 7)
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_points_of_each_row(dist, name):
    points = dist.rvs(3, random_state=0)
    expected = [getattr(dist, name)(points[..., j]) for j in range(3)]
    actual = getattr(dist, name)(points)
    np.testing.assert_allclose(actual, np.stack(expected, axis=-1), rtol=1e-9)


def test_points_of_each_output_for_all_rows(make):
    dist = make("outputs")
    grid = np.arange(12.0).reshape(1, 3, 4)
    expected = [dist[:, p].logpdf(grid[:, p]) for p in range(3)]
    np.testing.assert_allclose(dist.logpdf(grid), np.stack(expected, axis=1), rtol=1e-12)


def test_cdf_undoes_quantiles(make):
    for kind in ("single", "outputs"):
        dist, q = make(kind), np.array([0.01, 0.5, 0.99])
        np.testing.assert_allclose(dist.cdf(dist.ppf(q)), np.broadcast_to(q, (*dist.shape, 3)))


def test_as_many_points_as_rows_are_still_one_for_each(make):
    dist = make("single", n=3)
    points = np.array([0.0, 1.0, 2.0])
    assert dist.pdf(points).shape == (3,)
    np.testing.assert_allclose(np.diag(dist.pdf(points[np.newaxis])), dist.pdf(points), rtol=1e-13)


def test_a_wrong_shape_names_the_one_of_a_grid(make):
    with pytest.raises(ValueError, match=r"\(5,\), got shape \(7,\); .*np.reshape\(points, \(1, -"):
        make("single").pdf(np.zeros(7))
    with pytest.raises(ValueError, match=r"\(5, 3\), got shape \(2, 1, 7\); .*\(1, 1, k\)"):
        make("outputs").cdf(np.zeros((2, 1, 7)))


def test_memory_is_bounded_by_chunks():
    tracemalloc = pytest.importorskip("tracemalloc")
    dist = NormalMixture(np.zeros(50), np.zeros((2000, 50)), 1.0)
    grid = np.linspace(-3.0, 3.0, 400)[np.newaxis]
    tracemalloc.start()
    values = dist.cdf(grid)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # One array of all components at all points would have fifty times the size of the result.
    assert peak < values.nbytes + 60e6
