"""Arrays that stay on disk."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored_rows import Sliced

from skgp.core import maps
from skgp.core.maps import MapWriter, is_mapped, kept_on_disk, read_at_random, taken
from skgp.fitting.rows import Rows


def table(n: int = 1000, dtype: Any = np.float32) -> np.ndarray:
    return (1000 * np.random.default_rng(0).normal(size=(n, 3))).astype(dtype)


def mapped(X: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: Any) -> Path:
    """Every array is large and read in steps of 100 rows; this folder is for temporary files."""
    monkeypatch.setattr(maps, "LARGE", 0)
    monkeypatch.setattr(maps, "_STEP", 100 * 3 * 4)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    ("dtype", "kept"), [("f4", "f4"), ("f8", "f8"), ("i4", "f8"), (">f4", "f8")]
)
def test_a_large_array_on_disk_becomes_a_map(dtype: str, kept: str, temporary: Path) -> None:
    X = table(dtype=dtype)
    source = Sliced(X)
    result = kept_on_disk(source)
    assert is_mapped(result)
    assert result.dtype == np.dtype(kept)
    np.testing.assert_array_equal(result, X)
    view = result[1:]
    del result
    gc.collect()
    assert len(list(temporary.iterdir())) == 1
    del view
    gc.collect()
    assert not list(temporary.iterdir())


def test_what_is_small_or_in_memory_is_left_alone(tmp_path: Path, monkeypatch: Any) -> None:
    small = Sliced(table())
    assert kept_on_disk(small) is small
    monkeypatch.setattr(maps, "LARGE", 0)
    for X in (table(), table(dtype=int), mapped(table(), tmp_path), [[1.0]], "text", None):
        assert kept_on_disk(X) is X


def test_a_small_array_that_numpy_cannot_read_by_itself() -> None:
    class Plain:
        shape, dtype = (1000, 3), np.dtype("f8")

        def __getitem__(self, rows: slice) -> np.ndarray:
            return table()[rows]

    result = kept_on_disk(Plain())
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, table())


def test_a_map_of_integers_becomes_one_of_floats(temporary: Path, tmp_path: Path) -> None:
    X = table(dtype=np.int16)
    result = kept_on_disk(mapped(X, tmp_path))
    assert is_mapped(result)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, X)


def test_rows_of_a_map_are_a_map(temporary: Path, tmp_path: Path) -> None:
    X = table()
    on_disk = mapped(X, tmp_path)
    index = np.random.default_rng(0).permutation(1000)[:700]
    for chosen in (index, X[:, 0] > 0.0):
        result = taken(on_disk, chosen)
        assert is_mapped(result)
        np.testing.assert_array_equal(result, X[chosen])
        assert not is_mapped(taken(X, chosen))


def test_a_part_of_the_rows_of_a_fit_stays_on_disk(temporary: Path, tmp_path: Path) -> None:
    rows = Rows(mapped(table(), tmp_path), np.arange(1000.0), None)
    part = rows.take(np.arange(0, 1000, 3))
    assert is_mapped(part.X)
    np.testing.assert_array_equal(part.X, table()[::3])


def test_few_rows_of_a_map_are_in_memory(tmp_path: Path) -> None:
    X = table()
    result = taken(mapped(X, tmp_path), np.arange(0, 1000, 2))
    assert not is_mapped(result)
    np.testing.assert_array_equal(result, X[::2])


def test_reading_at_random_changes_no_number(tmp_path: Path) -> None:
    on_disk = np.asarray(mapped(table(), tmp_path))  # a view of the map
    read_at_random(on_disk)
    read_at_random(table())
    np.testing.assert_array_equal(on_disk, table())


def test_a_file_has_the_rows_that_were_announced(tmp_path: Path) -> None:
    X = table()
    with MapWriter(tmp_path / "X.npy", (1000, 3), np.float64) as file:
        file.append(X[:300])
        file.append(X[300:])
    np.testing.assert_array_equal(np.load(tmp_path / "X.npy"), X)
    with (
        pytest.raises(ValueError, match="700 rows came where 1000"),
        MapWriter(tmp_path / "X.npy", (1000, 3), np.float64) as file,
    ):
        file.append(X[300:])


def test_a_source_that_fails_leaves_no_file(temporary: Path) -> None:
    class Broken(Sliced):
        def __getitem__(self, rows: slice) -> np.ndarray:
            if rows.start > 200:
                raise OSError("gone")
            return super().__getitem__(rows)

    with pytest.raises(OSError, match="gone"):
        kept_on_disk(Broken(table()))
    assert not list(temporary.iterdir())
