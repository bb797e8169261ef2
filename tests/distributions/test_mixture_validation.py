"""Hostile arguments of normal mixtures: each error names the argument."""

import numpy as np
import pytest

from skgp.distributions import NormalMixture

EYE = np.broadcast_to(np.eye(2), (3, 1, 2, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], np.zeros(3), 1.0), r"mean must have shape \(n, S\).*NormalMixture.normal"),
        (([0.0], np.zeros((3, 0)), 1.0), "at least one component"),
        (([0.0], np.zeros((3, 1, 0)), 1.0), "one output"),
        (([0.0], [[np.nan]], 1.0), "mean must be finite"),
        (([0.0], [[np.inf]], 1.0), "mean must be finite"),
        (([0.0, 0.0], np.zeros((3, 1)), 1.0), r"log_weights must have shape \(1,\) or \(3, 1\)"),
        ((np.zeros((2, 1)), np.zeros((3, 1)), 1.0), "log_weights must have shape"),
        (([np.nan], np.zeros((3, 1)), 1.0), "log_weights must be finite or -inf"),
        (([np.inf, 0.0], np.zeros((3, 2)), 1.0), "log_weights must be finite or -inf"),
        (([-np.inf, -np.inf], np.zeros((3, 2)), 1.0), "log_weights must not be -inf for every"),
        (([0.0], np.zeros((3, 1)), 0.0), "std must be positive and finite"),
        (([0.0], np.zeros((3, 1)), [[1.0], [-1.0], [1.0]]), "std must be positive and finite"),
        (([0.0], np.zeros((3, 1)), np.nan), "std must be positive and finite"),
        (([0.0], np.zeros((3, 1)), np.inf), "std must be positive and finite"),
        (([0.0], np.zeros((3, 1)), np.ones(3)), r"std must be a scalar or fit the shape \(3, 1\)"),
        (([0.0], np.zeros((3, 1)), np.ones((3, 2))), "std must be a scalar or fit"),
        (([0.0], np.zeros((3, 1)), None), "std must be given unless scale_tril is"),
        (([0.0], np.zeros((3, 1)), None, EYE), "scale_tril needs several outputs"),
        (([0.0], np.zeros((3, 1, 2)), None, EYE[:2]), r"scale_tril must have shape \(3, 1, 2, 2\)"),
        (([0.0], np.zeros((3, 1, 2)), None, EYE * np.nan), "scale_tril must be finite"),
        (([0.0], np.zeros((3, 1, 2)), None, EYE + 1.0), "scale_tril must be lower triangular"),
        (([0.0], np.zeros((3, 1, 2)), None, -EYE), "positive diagonal"),
        (([0.0], np.zeros((3, 1, 2)), 2.0, EYE), "std must equal the norms of the rows"),
    ],
)
def test_constructor(arguments, message):
    with pytest.raises(ValueError, match=message):
        NormalMixture(*arguments)


def test_normal_needs_means_without_components():
    with pytest.raises(ValueError, match=r"mean must have shape \(n,\) or \(n, P\)"):
        NormalMixture.normal(np.zeros((2, 2, 2)), 1.0)
    with pytest.raises(ValueError, match="std must be a scalar or fit"):
        NormalMixture.normal(np.zeros((4, 2)), np.ones(2))


def test_weights_are_normalised_whatever_their_size():
    dist = NormalMixture([1e6, 1e6 + np.log(3.0), -np.inf], np.zeros((2, 3)), 1.0)
    np.testing.assert_allclose(dist.components().weights, [[0.25, 0.75, 0.0]] * 2, rtol=1e-9)


def test_std_is_repeated_along_axes_of_length_one():
    per_row = NormalMixture([0.0, 0.0], np.zeros((2, 2)), [[1.0], [2.0]])
    np.testing.assert_array_equal(per_row.std(), [1.0, 2.0])
    per_output = NormalMixture.normal(np.zeros((3, 2)), [[1.0, 2.0]])
    np.testing.assert_array_equal(per_output.std(), [[1.0, 2.0]] * 3)


def test_std_follows_from_the_factors():
    factor = np.array([[[3.0, 0.0], [3.0, 4.0]]])
    dist = NormalMixture.normal([[0.0, 0.0]], None, factor)
    np.testing.assert_allclose(dist.std(), [[3.0, 5.0]])
    NormalMixture.normal([[0.0, 0.0]], [[3.0, 5.0]], factor)


@pytest.mark.parametrize("name", ["pdf", "logpdf", "joint_logpdf", "cdf", "sf", "crps"])
@pytest.mark.parametrize("kind", ["single", "outputs"])
def test_observations_of_another_shape_are_refused(make, name, kind):
    dist = make(kind, n=3)
    shapes = {(3,), (3, 1), (1, 3), (1,), (4,), (3, 3), (4, 3), (3, 3, 1)} - {dist.shape}
    if name not in ("joint_logpdf", "crps"):  # the others take several points of each row
        of_points = {"single": {(3, 1), (1, 3), (3, 3)}, "outputs": {(3, 3, 1)}}[kind]
        shapes = shapes - of_points | {(2, 1), (2, 3, 1), (1, 2, 4)}
    for shape in shapes:
        with pytest.raises(ValueError, match="must be a scalar or have shape"):
            getattr(dist, name)(np.zeros(shape))
    np.testing.assert_array_equal(
        getattr(dist, name)(0.5), getattr(dist, name)(np.full(dist.shape, 0.5))
    )


@pytest.mark.parametrize(
    ("q", "named"), [(-0.1, "-0.1"), (1.1, "1.1"), (np.nan, "nan"), ([0.5, 90], "90")]
)
def test_quantile_levels_outside_the_unit_interval(make, q, named):
    with pytest.raises(ValueError, match=rf"q must lie in \[0, 1\], got {named}: "):
        make().ppf(q)


def test_other_arguments(make):
    with pytest.raises(ValueError, match="q must be a scalar or one-dimensional"):
        make().ppf([[0.5]])
    for coverage in (-0.1, 1.1, np.nan, [0.5]):
        with pytest.raises(ValueError, match=r"coverage must be a number in \[0, 1\]"):
            make().interval(coverage)
    for size in (-1, 1.5, True, (2, 3)):
        with pytest.raises(ValueError, match="size must be a non-negative integer"):
            make().rvs(size)


@pytest.mark.parametrize(
    ("loc", "scale", "message"),
    [
        (0.0, 0.0, "scale must not be zero"),
        (0.0, np.nan, "scale must be finite"),
        (np.inf, 1.0, "loc must be finite"),
        (np.zeros(2), 1.0, r"loc must be a scalar or of shape \(3,\)"),
        (0.0, [1.0, 0.0, 1.0], "scale must not be zero"),
        (0.0, 1e308, "out of the range of float64"),
    ],
)
def test_affine(make, loc, scale, message):
    with pytest.raises(ValueError, match=message):
        make("outputs", n=50).affine(loc, scale)


def test_affine_of_a_single_output_takes_scalars(make):
    with pytest.raises(ValueError, match="scale must be a scalar"):
        make().affine(0.0, [1.0])
