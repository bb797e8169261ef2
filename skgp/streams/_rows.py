"""Rows of a data set, written once into memory maps, from which any number of epochs read."""

import json
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from skgp._typing import Array
from skgp.core.maps import MapWriter, removed_with
from skgp.streams import _source

_CHUNK: Final = 65_536  # rows
_ROUNDED: Final = 0.01  # rounding error, in standard deviations of a chunk, that is worth a warning
_INDEX: Final = "rows.json"  # written last, so that a folder that has it is complete


@dataclass(frozen=True)
class Rows:
    """Rows on disk, as `fit` takes them.

    Attributes
    ----------
    X : array of shape (n, D), float32
        Inputs; a memory map.
    y : array of shape (n,) or (n, P)
        Targets: a memory map in float64, with NaN where one of several is missing. Of a column of
        strings, an array of these strings.
    sample_weight : array of shape (n,), float64, or None
        A memory map.
    feature_names : list of str
        Of the D inputs.
    """

    X: Array
    y: Array
    sample_weight: Array | None
    feature_names: list[str]


def read_rows(
    source: Any,
    *,
    target: str | Sequence[str],
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    preprocessor: Any = None,
    folder: str | Path | None = None,
) -> Rows:
    """Rows of Parquet files or another Arrow data set, copied once into memory maps.

    Only a chunk of them is in memory at a time. `fit` then reads the maps batch by batch, as often
    and in whatever order it needs. On disk a row takes 4 bytes for each input, and 8 for each
    target and weight.

    Parameters
    ----------
    source : path, list of paths, or pyarrow.dataset.Dataset
        A Parquet file, a folder of them, or any data set: other formats, partitions by folders and
        filters are arguments of `pyarrow.dataset.dataset` and of its method `filter`.
    target : str or list of str
        Column of the target, or columns of several; numbers, or strings for a classifier. Only
        entries of several targets may be missing.
    columns : list of str, optional
        Those of the inputs. None stands for those that the preprocessor was fitted on; without one,
        for all but a saved index of pandas. The target and the weights are no inputs then.
    sample_weight : str, optional
        Column of the weights of the rows.
    preprocessor : fitted transformer, optional
        Makes numbers of the inputs, chunk by chunk, from a pandas data frame of `columns`; for
        instance a `ColumnTransformer` that encodes categories. Without one all columns have to be
        numeric. Fit it before, on a sample or on all that it must know. It may have seen the
        target, but must not need it.
    folder : path, optional
        New or empty; the maps stay there, for `open_rows`. None is a temporary folder in the place
        that `tempfile.gettempdir` names, which goes when nobody holds `X` any more.

    Returns
    -------
    Rows

    Raises
    ------
    ImportError
        If pyarrow is missing, or pandas, which the preprocessor needs.
    ValueError
        If a column is unknown, not numeric, or misses numbers; if files disagree on one; if the
        preprocessor needs one that is no input; if there are no rows; or if `folder` is not empty.
    sklearn.exceptions.NotFittedError
        If the preprocessor is not fitted.
    """
    dataset = _source.open_dataset(source)
    outputs = _source.names(target)
    weights = [] if sample_weight is None else [sample_weight]
    known = _source.fitted_columns(preprocessor)
    if columns is None:
        known = _source.without_index(dataset) if known is None else known
        columns = [column for column in known if column not in (*outputs, *weights)]
    columns = _source.names(columns)
    for name, chosen in (("target", outputs), ("columns", columns)):
        if not chosen:
            raise ValueError(f"{name} has to name a column of the data")
    for name, chosen in (("target", outputs), ("columns", columns), ("sample_weight", weights)):
        _source.check_columns(dataset, chosen, name)
    place = Path(tempfile.mkdtemp(prefix="skgp-") if folder is None else folder)
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise ValueError(f"folder {place} is not empty: name another one, or open_rows(folder)")
    try:
        _write(place, dataset, columns, outputs, isinstance(target, str), weights, preprocessor)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    rows = open_rows(place)
    if folder is None:
        removed_with(rows.X, place)
    return rows


def open_rows(folder: str | Path) -> Rows:
    """The rows that `read_rows` has left in a folder.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Rows

    Raises
    ------
    ValueError
        If the folder holds no rows, or not all of them.
    """
    folder = Path(folder)
    try:
        index = json.loads((folder / _INDEX).read_text())
    except FileNotFoundError as error:
        raise ValueError(f"{folder} holds no rows, or not all of them: call read_rows") from error
    X, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("X", "y"))
    if index["labels"]:
        y = np.array(index["labels"], dtype=object)[y]
    weight = folder / "sample_weight.npy"
    sample_weight = np.load(weight, mmap_mode="r") if weight.exists() else None
    return Rows(X, y, sample_weight, index["feature_names"])


def _write(
    folder: Path,
    dataset: Any,
    columns: list[str],
    outputs: list[str],
    is_single: bool,
    weights: list[str],
    preprocessor: Any,
) -> None:
    """Fill a folder with the rows; `is_single` says whether targets have no axis of outputs."""
    n = dataset.count_rows()
    if not n:
        raise ValueError("the data set has no rows")
    codes: dict[str, int] = {}  # of labels
    order: list[str] = []
    has_labels = is_single and _source.has_labels(dataset, outputs[0])
    with ExitStack() as stack:

        def new(name: str, shape: tuple[int, ...], dtype: Any) -> MapWriter:
            return stack.enter_context(MapWriter(folder / f"{name}.npy", shape, dtype))

        y_shape = (n,) if is_single else (n, len(outputs))
        y_file = new("y", y_shape, np.int32 if has_labels else np.float64)
        weight_file = new("sample_weight", (n,), np.float64) if weights else None
        X_file: MapWriter | None = None
        for batch in _source.batches(dataset, [*columns, *outputs, *weights], _CHUNK):
            exact = _source.inputs(batch, columns, preprocessor)
            with np.errstate(over="ignore"):
                X = _source.within(exact.astype(np.float32), columns, preprocessor)
            if X_file is None:
                X_file = new("X", (n, X.shape[1]), np.float32)
                rounded = np.zeros(X.shape[1], dtype=bool)
            X_file.append(X)
            error = np.abs(X - exact).max(axis=0, initial=0.0)
            rounded |= (error > _ROUNDED * exact.std(axis=0)) & (np.ptp(exact, axis=0) > 0.0)
            if has_labels:
                order = order or _source.order_of_labels(batch, outputs[0])
                of_rows = _source.labels(batch, outputs[0])
                y_file.append(np.array([codes.setdefault(label, len(codes)) for label in of_rows]))
            else:
                y_file.append(_source.targets(batch, outputs).reshape(-1, *y_shape[1:]))
            if weight_file is not None:
                weight_file.append(_source.weights(batch, weights[0]))
    if order != sorted(order):
        warnings.warn(
            f"column {outputs[0]!r} has ordered categories, and classes are sorted: for ordered "
            "classes pass a column of their codes",
            stacklevel=3,
        )
    names = columns if preprocessor is None else _names_out(preprocessor, X.shape[1])
    if rounded.any():
        warnings.warn(
            f"column {names[int(rounded.argmax())]!r} varies in digits that float32 does not hold: "
            "pass a preprocessor that subtracts an offset",
            stacklevel=3,
        )
    index = {"feature_names": names, "labels": list(codes)}
    (folder / _INDEX).write_text(json.dumps(index))


def _names_out(preprocessor: Any, n: int) -> list[str]:
    """Names of the outputs of a preprocessor, numbers where it has none."""
    if hasattr(preprocessor, "get_feature_names_out"):
        return [str(name) for name in preprocessor.get_feature_names_out()]
    return [f"x{j}" for j in range(n)]
