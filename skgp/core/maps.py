"""Arrays of rows that stay on disk: memory maps, and files that become some."""

import math
import mmap
import shutil
import tempfile
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from skgp._typing import Array

LARGE: Final = 2**28  # bytes: arrays on disk that are smaller are read as a whole
_STEP: Final = 2**25  # bytes that are read at once


class MapWriter:
    """A context manager that writes a file in the format npy, from its first row to its last.

    Parameters
    ----------
    path : Path
    shape : tuple of int
        Of the whole array.
    dtype : dtype
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._n_written = 0
        self._file = path.open("wb")
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._file.close()
        if error is None and self._n_written != self._shape[0]:
            raise ValueError(f"{self._n_written} rows came where {self._shape[0]} were announced")

    def append(self, values: Array) -> None:
        """Write the next rows (b, ...)."""
        # Not into a memory map, whose written pages would count as memory of the process.
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self._n_written += len(values)


def is_mapped(X: Any) -> bool:
    """Whether the numbers of an array stand in a file."""
    return _map_below(X) is not None


def read_at_random(X: Array) -> None:
    """Let the system read only the pages of a mapped array that are asked for.

    Otherwise each row of a random batch brings the megabytes behind it into memory.
    """
    pages = _map_below(X)
    if pages is not None and hasattr(pages, "madvise"):  # Windows has none
        pages.madvise(mmap.MADV_RANDOM)


def _map_below(X: Any) -> mmap.mmap | None:
    while isinstance(X, np.ndarray):
        X = X.base
    return X if isinstance(X, mmap.mmap) else None


def kept_on_disk(X: Any) -> Any:
    """A large array on disk, of a library or a dtype that would be copied into memory, as a map.

    Arrays of zarr, h5py and the like, which have a shape, a dtype and slices, are copied piece by
    piece into a temporary file, which goes when the map does; so are memory maps of numbers other
    than float32 and float64. Anything else is returned as it is, and what is small as an array.
    """
    shape, dtype = getattr(X, "shape", ()), getattr(X, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf" or len(shape) != 2:
        return X
    if hasattr(X, "tocsr"):  # sparse ones are refused
        return X
    if math.prod(shape) * dtype.itemsize <= LARGE:
        return X if hasattr(X, "__array__") else np.asarray(X[:])
    is_float = dtype in (np.float32, np.float64)
    if isinstance(X, np.ndarray) and (is_float or not is_mapped(X)):
        return X
    return _written(X, None, tuple(shape), dtype if is_float else np.dtype(np.float64))


def taken(X: Array, index: Array) -> Array:
    """The rows X[index] of an index or mask; those of a large memory map as another one."""
    if not is_mapped(X):
        return X[index]
    index = np.flatnonzero(index) if index.dtype == bool else index
    shape = len(index), *X.shape[1:]
    if math.prod(shape) * X.itemsize <= LARGE:
        return np.asarray(X[index])
    return _written(X, index, shape, X.dtype)


def _written(X: Any, index: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The rows of an index, or all, in a temporary file."""
    folder = Path(tempfile.mkdtemp(prefix="skgp-"))
    path = folder / "X.npy"
    try:
        with MapWriter(path, shape, dtype) as file:
            step = max(1, _STEP // (dtype.itemsize * math.prod(shape[1:])))
            for start in range(0, shape[0], step):
                rows = slice(start, start + step)
                file.append(np.asarray(X[rows if index is None else index[rows]]))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return removed_with(np.load(path, mmap_mode="r"), folder)


def removed_with(mapped: Array, folder: Path) -> Array:
    """A memory map that takes the folder of its file with it when nobody needs it any more."""
    pages: Any = _map_below(mapped)
    weakref.finalize(pages, shutil.rmtree, folder, ignore_errors=True)
    return mapped
