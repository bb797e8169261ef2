"""Mixtures gathered from parts, against those made at once."""

import numpy as np
import pytest

from skgp.distributions import NormalMixture


@pytest.fixture(params=["single-shared", "one-component", "outputs-joint"])
def whole(request, make):
    dist = make(request.param, n=11)
    _, mean, std, factor = dist.components()
    return NormalMixture(np.arange(mean.shape[1]), mean, std, factor)  # weights that are shared


def test_weights_of_rows_are_gathered(make):
    """Also where the first parts have equal ones."""
    _, mean, std, _ = make("single", n=6).components()
    log_w = np.log([[1.0, 2.0, 3.0, 4.0]] * 3 + [[4.0, 3.0, 2.0, 1.0]] * 3)
    whole = NormalMixture(log_w, mean, std)
    for cuts in ([1, 2, 3, 4, 5], [3], [2, 5]):
        edges = zip([0, *cuts], [*cuts, 6], strict=True)
        dist = NormalMixture.gather((whole[a:b] for a, b in edges), 6)
        for found, desired in zip(dist.components()[:3], whole.components()[:3], strict=True):
            np.testing.assert_array_equal(found, desired)


def test_gathered_parts_are_the_whole(whole):
    cuts = [slice(0, 4), slice(4, 5), slice(5, 11)]
    dist = NormalMixture.gather((whole[rows] for rows in cuts), 11)
    for found, desired in zip(dist.components(), whole.components(), strict=True):
        np.testing.assert_array_equal(found, desired)
    assert repr(dist) == repr(whole)
    with pytest.raises(ValueError, match="read-only"):
        dist.components().mean[0] = 0.0


@pytest.mark.parametrize("n_rows", [10, 12])
def test_wrong_numbers_of_rows_are_refused(whole, n_rows):
    with pytest.raises(ValueError, match=f"n_rows={n_rows} rows, got 11"):
        NormalMixture.gather([whole[:6], whole[6:]], n_rows)
    with pytest.raises(ValueError, match="got 0"):
        NormalMixture.gather([], n_rows)


def test_parts_that_do_not_fit_are_refused():
    mean = np.zeros((2, 2))
    first = NormalMixture([0.0, 0.0], mean, 1.0)
    others = [
        NormalMixture([0.0], mean[:, :1], 1.0),
        NormalMixture([0.0, 0.0], mean[..., None], 1.0),
    ]
    for other in others:
        with pytest.raises(ValueError, match="same outputs and components"):
            NormalMixture.gather([first, other], 4)


@pytest.mark.parametrize("n", [1, 2])
def test_parts_without_rows_change_nothing(n):
    mean = np.arange(2.0 * n).reshape(n, 2)
    shared = NormalMixture([0.0, 0.0], mean, 1.0)
    whole = NormalMixture(np.log([[0.9, 0.1], [0.6, 0.4]][:n]), mean, 1.0)
    for parts in ([shared[:0], whole], [whole[:0], whole], [whole, shared[:0]]):
        weights = NormalMixture.gather(parts, n).components().weights
        np.testing.assert_allclose(weights, whole.components().weights)


def test_names_that_parts_share_are_kept():
    part = NormalMixture.normal(np.zeros((2, 2)), 1.0)
    named = part.with_output_names(["a", "b"])
    assert NormalMixture.gather([named, named], 4).output_names == ("a", "b")
    assert NormalMixture.gather([named, part], 4).output_names is None
