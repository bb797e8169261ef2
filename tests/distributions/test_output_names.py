"""Names of outputs: what keeps them, and what they are good for."""

import numpy as np
import pytest

from skgp.distributions import CountMixture, MonotoneTransformed, NormalMixture, concat, mix

NAMES = ["wind", "rain", "temperature"]


@pytest.fixture
def dist(make):
    return make("outputs-joint").with_output_names(NAMES)


def test_a_distribution_has_no_names_of_its_own(make):
    assert make("outputs").output_names is None
    with pytest.raises(IndexError, match="they have no names"):
        make("outputs")[:, "rain"]


def test_outputs_are_chosen_by_name(dist):
    np.testing.assert_array_equal(dist[:, "rain"].mean(), dist.mean()[:, 1])
    assert dist[:, "rain"].output_names == ("rain",)
    some = dist[1:3, ["temperature", "wind"]]
    np.testing.assert_allclose(some.cov(), dist[1:3, [2, 0]].cov())
    assert some.output_names == ("temperature", "wind")
    assert dist[:, 1:].output_names == ("rain", "temperature")
    assert dist[:, [True, False, True]].output_names == ("wind", "temperature")
    with pytest.raises(IndexError, match=r"'snow' is no output: \['wind', 'rain', 'temperature'\]"):
        dist[:, "snow"]


@pytest.mark.parametrize("key", [["rain", "rain"], [1, 0, 1]])
def test_an_output_is_chosen_once(dist, key):
    """Twice, it would have no joint density and one column of a frame."""
    with pytest.raises(IndexError, match="chooses an output twice"):
        dist[:, key]


def test_names_outlive_what_keeps_outputs(dist):
    for other in (
        dist[2:], dist[0], dist.affine(1.0, [1.0, 2.0, 3.0]), concat([dist, dist[:1]]),
        mix([dist, dist]),
    ):  # fmt: skip
        assert other.output_names == tuple(NAMES)
    assert concat([dist, dist.with_output_names(None)]).output_names is None
    single = NormalMixture([0.0, 0.0], [[0.0, 1.0]], 1.0).with_output_names("y")
    assert single.merged(1).output_names == ("y",)
    for other in (CountMixture(single), MonotoneTransformed(single, np.exp, np.log)):
        assert other.output_names == ("y",)
        assert other.with_output_names("z")[:1].output_names == ("z",)


def test_frame_and_html_show_names(dist):
    pytest.importorskip("pandas")
    assert dist.to_frame().columns.get_level_values(0).unique().tolist() == NAMES
    np.testing.assert_array_equal(dist.to_frame()["rain"]["mean"], dist.mean()[:, 1])
    assert "rain" in dist._repr_html_()


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "b"], "abc"])
def test_wrong_names_are_refused(make, names):
    with pytest.raises(ValueError, match="3 different strings"):
        make("outputs").with_output_names(names)


def test_values_of_columns_in_another_order_are_refused(dist):
    """They have the names of the outputs: a sure mistake. Other names say nothing."""
    frames = pytest.importorskip("pandas")
    y = frames.DataFrame(dist.mean(), columns=NAMES)
    np.testing.assert_array_equal(dist.cdf(y), dist.cdf(dist.mean()))
    np.testing.assert_array_equal(dist.joint_logpdf(y), dist.joint_logpdf(dist.mean()))
    dist.cdf(y.set_axis(["a", "b", "c"], axis=1))
    for method in (dist.cdf, dist.logpdf, dist.crps, dist.joint_logpdf):
        with pytest.raises(ValueError, match=r"[yY] has the columns .*, and those of"):
            method(y[NAMES[::-1]])


def test_outputs_in_another_order_are_not_joined(dist):
    other = dist[:, NAMES[::-1]]
    for join in (mix, concat):
        with pytest.raises(ValueError, match=r"distribution 1 has the columns \['temperature'"):
            join([dist, other])


def test_masked_values_are_missing(dist):
    y = dist.mean()
    mask = np.zeros(y.shape, dtype=bool)
    mask[:, 1] = True
    far = np.ma.masked_array(np.where(mask, 1e9, y), mask)
    partial = np.where(mask, np.nan, y)
    np.testing.assert_array_equal(dist.joint_logpdf(far), dist.joint_logpdf(partial))
    np.testing.assert_array_equal(dist.logpdf(far), dist.logpdf(partial))
