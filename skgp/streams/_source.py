"""Columns of an Arrow data set, batch by batch, as arrays."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import shorten
from typing import Any, Final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skgp._typing import Array

_REMEDY: Final = (
    "drop these rows with pyarrow.dataset.Dataset.filter, or pass a fitted preprocessor that fills "
    "them in"
)


def open_dataset(source: Any) -> Any:
    """The Arrow data set of a file, a folder or a list of files, or the one that was passed.

    Raises
    ------
    ImportError
        If pyarrow is missing.
    ValueError
        If the source cannot be read, or files disagree on the type of a column.
    """
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError as error:
        raise ImportError("Arrow data need pyarrow: pip install 'skgp[streams]'") from error
    if isinstance(source, ds.Dataset):  # with a schema that the user has chosen
        return source
    try:
        dataset = ds.dataset(source)
    except (pa.ArrowInvalid, TypeError) as error:
        raise ValueError(
            "source is no Parquet or Arrow file, folder, list of files or pyarrow data set: "
            "pass pyarrow.dataset.dataset(path, format='csv') for other formats, and fit data "
            f"frames as they are ({shorten(str(error), 80, placeholder=' ...')})"
        ) from error
    schema = dataset.schema  # of the first file
    for path, own in _files(dataset).items():
        try:
            schema = pa.unify_schemas([schema, own], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            message = f"{path} disagrees with other files on the type of a column: {error}"
            raise ValueError(message) from error
    return ds.dataset(source, schema=schema)


def names(columns: str | Iterable[str]) -> list[str]:
    """The names of columns, of which one may be passed by itself."""
    return [columns] if isinstance(columns, str) else list(columns)


def check_columns(dataset: Any, columns: Sequence[str], name: str) -> None:
    """Refuse columns that the data set, or some of its files, lack; `name` is the argument's."""
    known = dataset.schema.names
    unknown = [column for column in columns if column not in known]
    if unknown:
        raise ValueError(f"{name}: no column {unknown} in the data, which have {known}")
    files = _files(dataset)
    for column in columns:
        lacking = [path for path, schema in files.items() if column not in schema.names]
        if 0 < len(lacking) < len(files):  # no file has a column that folders are named by
            raise ValueError(f"{name}: {lacking[0]} lacks column {column!r}, which others have")


def without_index(dataset: Any) -> list[str]:
    """Columns but those that hold the index of a data frame, as pandas saves it."""
    schemas = [dataset.schema, *_files(dataset).values()]
    metadata = [schema.pandas_metadata or {} for schema in schemas]
    # A range of numbers stands there as a dict, and is no column.
    index = [name for each in metadata for name in each.get("index_columns", [])]
    return [name for name in dataset.schema.names if name not in index]


def fitted_columns(preprocessor: Any) -> list[str] | None:
    """Columns that a preprocessor, which must be fitted, has seen, if it knows them."""
    if preprocessor is None:
        return None
    check_is_fitted(preprocessor)
    names = getattr(preprocessor, "feature_names_in_", None)
    return None if names is None else list(names)


def _files(dataset: Any) -> dict[str, Any]:
    """The schema of each file; empty for data in memory, and for a filtered data set."""
    try:
        fragments = [f for f in dataset.get_fragments() if hasattr(f, "path")]
    except ValueError:
        return {}
    return {fragment.path: fragment.physical_schema for fragment in fragments}


def batches(dataset: Any, columns: Sequence[str], size: int) -> Iterator[Any]:
    """Record batches of these columns, of one to `size` rows each."""
    import pyarrow as pa

    # Little is read ahead, because each file's next row group is decoded as a whole.
    scanner = dataset.scanner(
        columns=list(dict.fromkeys(columns)),
        batch_size=size,
        batch_readahead=2,
        fragment_readahead=1,
    )
    try:
        yield from (batch for batch in scanner.to_batches() if batch.num_rows)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the data cannot be read as their schema says: {error}") from error
    finally:
        pa.default_memory_pool().release_unused()  # half a gigabyte, which no epoch needs


def inputs(batch: Any, columns: Sequence[str], preprocessor: Any) -> Array:
    """Inputs (b, D) of a batch, float64: its columns, or what a preprocessor makes of them.

    Raises
    ------
    ValueError
        If a column is not numeric, or holds missing or infinite numbers; or if the preprocessor
        needs one that is no input.
    """
    with np.errstate(over="ignore"):  # what the type does not hold is refused below
        if preprocessor is None:
            columns_of = [numbers(batch, column) for column in columns]
            X = np.column_stack(columns_of).astype(np.float64)
        else:
            X = _transformed(preprocessor, frame(batch, columns))
            X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    return within(X, columns, preprocessor)


def _transformed(preprocessor: Any, table: Any) -> Any:
    """What a preprocessor makes of a data frame, which may lack columns that it was fitted on."""
    try:
        return preprocessor.transform(table)
    except (KeyError, ValueError) as error:
        seen = getattr(preprocessor, "feature_names_in_", ())
        lacking = [name for name in seen if name not in table]
        if not lacking:
            raise
        raise ValueError(
            f"preprocessor has seen {lacking}, which are not among the inputs, and fails without "
            f"them ({error}): fit it on the inputs alone, or name all that it needs in columns"
        ) from error


def within(X: Array, columns: Sequence[str], preprocessor: Any) -> Array:
    """The same inputs (b, D), if all are finite in their type.

    Raises
    ------
    ValueError
        If some are not; the message names the column.
    """
    faults = (~np.isfinite(X)).sum(axis=0)
    if faults.any():
        j = int(faults.argmax())
        where = f"column {columns[j]!r}" if preprocessor is None else f"output {j} of preprocessor"
        raise ValueError(
            f"{where} is missing, or beyond {X.dtype}, in {faults[j]} of {len(X)} rows of a chunk: "
            f"{_REMEDY}"
        )
    return X


def targets(batch: Any, columns: Sequence[str]) -> Array:
    """Targets (b, P) of a batch, float64; NaN where one of several is missing."""
    y = np.column_stack([numbers(batch, column) for column in columns])
    if len(columns) == 1:
        _refuse_missing("target", columns[0], int(np.isnan(y).sum()), len(y))
    return y


def weights(batch: Any, column: str) -> Array:
    """Weights (b,) of the rows of a batch, float64."""
    values = numbers(batch, column)
    _refuse_missing("sample_weight", column, int(np.isnan(values).sum()), len(values))
    return values


def labels(batch: Any, column: str) -> list[str]:
    """A column of strings."""
    values = _plain(batch.column(column))
    _refuse_missing("target", column, values.null_count, len(values))
    return list(values.to_pylist())


def _refuse_missing(name: str, column: str, n_missing: int, n: int) -> None:
    if n_missing:
        raise ValueError(
            f"{name} {column!r} is missing in {n_missing} of {n} rows of a chunk: drop these rows "
            "with pyarrow.dataset.Dataset.filter"
        )


def order_of_labels(batch: Any, column: str) -> list[str]:
    """The ordered categories of a column of strings; none if they have no order."""
    import pyarrow as pa

    values = batch.column(column)
    if not pa.types.is_dictionary(values.type) or not values.type.ordered:
        return []
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return list(values.dictionary.to_pylist())


def has_labels(dataset: Any, column: str) -> bool:
    """Whether a column holds strings."""
    import pyarrow as pa

    kind = dataset.schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def numbers(batch: Any, column: str) -> Array:
    """A column (b,) as float64, NaN where it is null."""
    import pyarrow as pa

    values = _plain(batch.column(column))
    kind, types = values.type, pa.types
    if types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif not (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    ):
        raise ValueError(
            f"column {column!r} has the type {kind}, which is not one of numbers: choose other "
            "columns, or pass a fitted preprocessor, such as a ColumnTransformer, that encodes it"
        )
    try:
        values = values.cast(pa.float64())
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"column {column!r} holds integers that float64 rounds ({error}): choose other "
            "columns, or subtract an offset, of inputs by a preprocessor"
        ) from error
    return np.asarray(values.to_numpy(zero_copy_only=False))


def frame(batch: Any, columns: Sequence[str]) -> Any:
    """A pandas data frame of columns of a batch."""
    import pyarrow as pa

    return pa.table({column: _plain(batch.column(column)) for column in columns}).to_pandas()


def _plain(values: Any) -> Any:
    """An Arrow array by its values; each batch of categories may number them in its own way."""
    import pyarrow as pa

    if not hasattr(values, "dictionary_decode"):
        return values
    if pa.types.is_string_view(values.type.value_type):  # which Arrow cannot decode
        values = values.cast(pa.dictionary(values.type.index_type, pa.string()))
    return values.dictionary_decode()
