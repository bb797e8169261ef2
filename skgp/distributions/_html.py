"""Distributions in notebooks: a table of the first rows, with small pictures of their shapes."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skgp._typing import FloatArray

MOST_ROWS = 10
MOST_COLUMNS = 20


class Picture(NamedTuple):
    """A column of small bar charts, one for each row.

    Attributes
    ----------
    title : str
    heights : ndarray of shape (n, b)
        Of the bars, at most 1.
    gap : float
        Between two bars, as a share of the width of one.
    """

    title: str
    heights: FloatArray
    gap: float


def to_html(
    title: str,
    n_rows: int,
    columns: Mapping[Any, npt.NDArray[Any]],
    pictures: Sequence[Picture],
) -> str:
    """A table of some rows out of `n_rows`: pictures, numbers, and what has been left out.

    The bars have the colour of the text, so that they are seen on light and on dark pages.
    """
    shown = dict(list(columns.items())[:MOST_COLUMNS])
    names = [" ".join(map(str, n)) if isinstance(n, tuple) else str(n) for n in shown]
    titles = [picture.title for picture in pictures]
    head = "".join(f"<th>{escape(name)}</th>" for name in ["", *titles, *names])
    rows = []
    for row, values in enumerate(zip(*shown.values(), strict=True)):
        cells = [_bars(picture.heights[row], picture.gap) for picture in pictures]
        cells += [escape(_number(value)) for value in values]
        rows.append(f"<tr><th>{row}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    parts = []
    if len(rows) < n_rows:
        parts.append(f"{len(rows)} of {n_rows} rows")
    if len(shown) < len(columns):
        parts.append(f"{len(shown)} of {len(columns)} columns")
    more = f"<p>first {', '.join(parts)}</p>" if parts else ""
    return (
        f"<div><p>{escape(title)}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{more}</div>"
    )


def _bars(heights: FloatArray, gap: float) -> str:
    bars = "".join(
        f"M{i + 0.5 * gap:g} 1V{1.0 - height:.3g}h{1.0 - gap:g}V1Z"
        for i, height in enumerate(np.clip(heights, 0.0, 1.0))
    )
    return (
        f'<svg width="120" height="22" viewBox="0 0 {len(heights)} 1" preserveAspectRatio="none" '
        f'role="img" aria-label="bars"><path d="{bars}" fill="currentColor"/></svg>'
    )


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
