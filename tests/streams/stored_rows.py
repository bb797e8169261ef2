"""A table on disk: what the tests of streams share."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ["a", "b", "c"]


class Stored(NamedTuple):
    """Rows as arrays, as a data frame, and as a folder of two Parquet files."""

    X: np.ndarray
    y: np.ndarray
    frame: pd.DataFrame
    folder: Path


class Sliced:
    """What zarr and h5py have: a shape, a dtype and slices. Never more than `most` rows at once."""

    def __init__(self, values: np.ndarray, most: int = 100) -> None:
        self._values = values
        self._most = most
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __getitem__(self, rows: slice) -> np.ndarray:
        assert rows.stop - rows.start <= self._most
        return self._values[rows]

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise AssertionError("read as a whole")


def write(frame: pd.DataFrame, path: Path, **kwargs: Any) -> Path:
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, **kwargs)
    return path
