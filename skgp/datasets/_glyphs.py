"""Points inside the letters of a text."""

import math
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_scalar

from skgp._typing import BoolArray, FloatArray, RandomState
from skgp._validation import random_generator

_STROKE = 0.18  # width of a stroke; all lengths are in heights of a letter
_GAP = 0.15  # between letters
_CHUNK = 2**12  # points tested at once


def make_glyphs(
    text: str = "DGP",
    n_samples: int = 1000,
    *,
    noise: float = 0.0,
    random_state: RandomState = None,
) -> tuple[FloatArray, FloatArray]:
    """Points uniformly inside the letters of a text: the input runs along it, the outcome up.

    The density of y given x is constant on one to three intervals, whose ends jump with x: a hard
    case for a model that predicts distributions. With the default it is the data set of [1]_
    figures 1 and 12, from another typeface.

    Parameters
    ----------
    text : str, default="DGP"
        One or more of the letters D, G, I, L, O and P.
    n_samples : int, default=1000
        Number of rows.
    noise : float, default=0.0
        Standard deviation of normal noise that is added to y, in heights of a letter.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness; None draws afresh at every call.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
        From 0 to the length of the text: a letter is 0.18 to 0.72 heights wide, "DGP" 2.32.
    y : ndarray of shape (n_samples,)
        Without noise from 0, the foot of the letters, to 1.

    Raises
    ------
    TypeError
        If `text` is no string, `n_samples` no integer or `noise` no number.
    ValueError
        If `text` is empty or has another letter, or a number is negative or not finite.

    References
    ----------
    .. [1] H. Salimbeni, V. Dutordoir, J. Hensman and M. P. Deisenroth, "Deep Gaussian processes
       with importance-weighted variational inference", ICML 2019.

    Examples
    --------
    >>> from skgp.datasets import make_glyphs
    >>> X, y = make_glyphs("DGP", 2000, random_state=0)
    >>> X.shape, y.shape
    ((2000, 1), (2000,))
    >>> bool((y >= 0.0).all() and (y <= 1.0).all())
    True
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=0)
    check_scalar(noise, "noise", Real, min_val=0.0)
    if not math.isfinite(noise):
        raise ValueError(f"noise must be finite, got {noise!r}.")
    contours = _text_outlines(text)
    width = max(contour[:, 0].max() for contour in contours)
    rng = random_generator(random_state)
    points = np.empty((0, 2))
    while len(points) < n_samples:
        proposed = rng.uniform(0.0, (width, 1.0), (_CHUNK, 2))
        points = np.concatenate([points, proposed[_inside(proposed, contours)]])
    X, y = points[:n_samples, :1].copy(), points[:n_samples, 1].copy()
    return X, (y + noise * rng.standard_normal(n_samples) if noise > 0.0 else y)


def _inside(points: FloatArray, contours: list[FloatArray]) -> BoolArray:
    """Whether points (n, 2) lie inside closed contours: a ray to the left crosses an odd number."""
    start = np.concatenate(contours)
    end = np.concatenate([np.roll(contour, -1, axis=0) for contour in contours])
    x, y = points[:, :1], points[:, 1:]
    spans = (start[:, 1] > y) != (end[:, 1] > y)  # (n, edges)
    rise = end[:, 1] - start[:, 1]
    slope = (end[:, 0] - start[:, 0]) / np.where(rise == 0.0, 1.0, rise)  # flat edges span no point
    crosses = spans & (start[:, 0] + slope * (y - start[:, 1]) < x)
    odd: BoolArray = crosses.sum(axis=1) % 2 == 1
    return odd


def _text_outlines(text: str) -> list[FloatArray]:
    """Contours (v, 2) of the letters side by side."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}.")
    letters = _letters()
    unknown = sorted(set(text) - set(letters))
    if unknown or not text:
        raise ValueError(f"text must consist of the letters {''.join(letters)}, got {text!r}.")
    contours: list[FloatArray] = []
    left = 0.0
    for letter in text:
        outlines = [outline + np.array([left, 0.0]) for outline in letters[letter]]
        left = max(outline[:, 0].max() for outline in outlines) + _GAP
        contours += outlines
    return contours


def _letters() -> dict[str, list[FloatArray]]:
    """Contours of each letter, of height 1 and from 0 to the right; an inner one cuts a hole."""
    s = _STROKE
    # Bows: an outer and an inner half ellipse, from below to above.
    d, d_hole = _bow(0.7, 0.5, 0.5), _bow(0.7 - s, 0.5, 0.5 - s)
    p, p_hole = _bow(0.6, 0.71, 0.29), _bow(0.6 - s, 0.71, 0.29 - s)
    # An arc open to the right, closed by the bar of the G.
    outer = _arc(0.36, 0.5, 0.36, 0.5, 45.0, 360.0)
    inner = _arc(0.36, 0.5, 0.36 - s, 0.5 - s, 45.0, 300.0)[::-1]
    bar = [[0.72, 0.5 + 0.5 * s], [0.4, 0.5 + 0.5 * s], [0.4, 0.5 - 0.5 * s],
           [0.72 - s, 0.5 - 0.5 * s]]  # fmt: skip
    ring = [_arc(0.36, 0.5, 0.36 - t, 0.5 - t, 0.0, 355.0) for t in (0.0, s)]
    return {
        "D": [_closed([[0.0, 0.0]], d, [[0.0, 1.0]]), _closed([[s, s]], d_hole, [[s, 1.0 - s]])],
        "G": [_closed(outer, bar, inner)],
        "I": [_closed([[0.0, 0.0], [s, 0.0], [s, 1.0], [0.0, 1.0]])],
        "L": [_closed([[0.0, 0.0], [0.5, 0.0], [0.5, s], [s, s], [s, 1.0], [0.0, 1.0]])],
        "O": ring,
        "P": [
            _closed([[0.0, 0.0], [s, 0.0], [s, 0.42]], p, [[0.0, 1.0]]),
            _closed([[s, 0.42 + s]], p_hole, [[s, 1.0 - s]]),
        ],
    }


def _closed(*parts: FloatArray | list[list[float]]) -> FloatArray:
    """The parts of a contour one after another; its last vertex is joined to its first."""
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


def _arc(
    x: float, y: float, x_radius: float, y_radius: float, start: float, end: float
) -> FloatArray:
    """Vertices (40, 2) on an ellipse about (x, y), counter-clockwise between angles in degrees."""
    angle = np.deg2rad(np.linspace(start, end, 40))
    return np.column_stack([x + x_radius * np.cos(angle), y + y_radius * np.sin(angle)])


def _bow(right: float, y: float, y_radius: float) -> FloatArray:
    """The right half of an ellipse about (0.3, y), up to `right`, from below to above."""
    return _arc(0.3, y, right - 0.3, y_radius, -90.0, 90.0)
