"""Points inside letters, against areas and a second way to tell the inside."""

import numpy as np
import pytest
from matplotlib.path import Path
from scipy import stats

from skgp.datasets import make_glyphs
from skgp.datasets._glyphs import _inside, _letters, _text_outlines

# Strokes of width 0.18; half and full ellipses by their radii.
AREAS = {
    "D": 0.3 + np.pi / 2 * 0.4 * 0.5 - (0.12 * 0.64 + np.pi / 2 * 0.22 * 0.32),
    "I": 0.18,
    "L": 0.18 + 0.32 * 0.18,
    "O": np.pi * (0.36 * 0.5 - 0.18 * 0.32),
    "P": 0.18 + 0.12 * 0.58 + np.pi / 2 * 0.3 * 0.29 - (0.12 * 0.22 + np.pi / 2 * 0.12 * 0.11),
}


@pytest.mark.parametrize("letter", AREAS)
def test_points_are_uniform_in_the_letter(letter: str) -> None:
    """The share of a bounding box that a letter fills is its area over that of the box."""
    points = np.random.default_rng(0).uniform(0.0, 1.0, (200_000, 2))
    share = _inside(points, _letters()[letter]).mean()
    # Chords instead of arcs of 40 vertices lose less than a thousandth of the area.
    error = 4 * (AREAS[letter] * (1 - AREAS[letter]) / len(points)) ** 0.5
    assert abs(share - AREAS[letter]) < error + 1e-3


def test_inside_agrees_with_another_rule() -> None:
    """Matplotlib fills by winding numbers: the holes are outlines taken out of the outlines."""
    points = np.random.default_rng(0).uniform(0.0, (2.4, 1.0), (5000, 2))
    expected = np.zeros(len(points), dtype=int)
    for contour in _text_outlines("DGP"):
        expected += Path(contour).contains_points(points)
    np.testing.assert_array_equal(_inside(points, _text_outlines("DGP")), expected == 1)


def test_density_is_constant_between_the_ends() -> None:
    X, y = make_glyphs("DGP", 40_000, random_state=0)
    x = X[:, 0]
    assert (X.shape, y.shape) == ((40_000, 1), (40_000,))
    assert 0.0 <= x.min() < 0.01
    assert 2.31 < x.max() <= 2.32
    # The stems of D (x from 0) and of P (from 0.7 + 0.15 + 0.72 + 0.15 = 1.72) are full.
    for left in (0.0, 1.72):
        stem = (left < x) & (x < left + 0.18)
        assert stats.kstest(y[stem], "uniform").pvalue > 0.01
        assert stats.kstest(x[stem], stats.uniform(left, 0.18).cdf).pvalue > 0.01
    # Through the hole of the D there are two pieces of equal length, 0.18 at x = 0.3.
    hole = y[(0.2 < x) & (x < 0.3)]
    assert ((hole < 0.18) | (hole > 0.82)).all()
    assert abs((hole > 0.5).mean() - 0.5) < 4 * 0.5 / len(hole) ** 0.5
    # The G has three strokes above each other to the left of its opening, and none between letters.
    three = y[(0.85 + 0.41 < x) & (x < 0.85 + 0.45)]
    assert {int(3 * value) for value in three} == {0, 1, 2}
    assert abs(((three > 0.40) & (three < 0.60)).mean() - 0.18 / (3 * 0.18)) < 0.06
    assert not ((0.71 < x) & (x < 0.84)).any()


def test_rows_are_asked_for_and_repeatable() -> None:
    assert make_glyphs(n_samples=0)[0].shape == (0, 1)
    _, y = make_glyphs("O", 9001, random_state=3)
    again = make_glyphs("O", 9001, random_state=3)
    assert len(y) == 9001
    assert y.tolist() == again[1].tolist()
    assert y.tolist() != make_glyphs("O", 9001, random_state=4)[1].tolist()


def test_noise_is_added_to_the_outcome() -> None:
    X, y = make_glyphs("G", 20_000, random_state=0)
    X_noisy, y_noisy = make_glyphs("G", 20_000, noise=0.3, random_state=0)
    np.testing.assert_array_equal(X_noisy, X)
    assert stats.kstest((y_noisy - y) / 0.3, "norm").pvalue > 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "DGX"}, "text must consist of the letters DGILOP, got 'DGX'"),
        ({"text": ""}, "text must consist of the letters"),
        ({"noise": -0.1}, "noise == -0.1, must be >= 0"),
        ({"noise": float("inf")}, "noise must be finite"),
        ({"n_samples": -1}, "n_samples == -1, must be >= 0"),
    ],
)
def test_arguments_are_checked(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_glyphs(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"text": None}, "text must be a string"), ({"noise": "a"}, "noise must be an instance of")],
)
def test_types_are_checked(options: dict, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make_glyphs(**options)
