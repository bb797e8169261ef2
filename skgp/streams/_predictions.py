"""Predictive distributions of more rows than fit into memory, chunk by chunk."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from skgp.compose import predict_dist as of_rows
from skgp.streams import _source


def predict_dist(
    model: Any,
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    preprocessor: Any = None,
    chunk_size: int = 65_536,
) -> Iterator[Any]:
    """Predictive distributions of one chunk of rows after another.

    Parameters
    ----------
    model : fitted estimator
        As in :func:`skgp.predict_dist`: a regressor or classifier, a pipeline or a search, in any
        nesting.
    source : array, data frame, path, list of paths, or pyarrow.dataset.Dataset
        An array of shape (n, D), such as a memory map or one of zarr, a data frame, or what
        `read_rows` takes.
    columns : list of str, optional
        Of the inputs. None stands for those of the source that the preprocessor was fitted on, or
        for those that the model was, on a data frame. Not for an array.
    preprocessor : fitted transformer, optional
        As in `read_rows`. Not for an array.
    chunk_size : int
        Rows of a chunk at most. Row groups of a file may end one before.

    Yields
    ------
    predictive distribution of at most `chunk_size` rows
        The rows of all chunks together are those of the source, in its order.

    Raises
    ------
    TypeError, ValueError, sklearn.exceptions.NotFittedError
        As :func:`skgp.predict_dist` and `read_rows`.
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    if hasattr(source, "shape"):
        if columns is not None or preprocessor is not None:
            raise ValueError("columns and preprocessor are for data with named columns")
        return _of_array(model, source, chunk_size)
    dataset = _source.open_dataset(source)
    fitted_on = _source.fitted_columns(preprocessor)
    names = getattr(model, "feature_names_in_", None)
    if columns is None and fitted_on is not None:
        # It may have seen the target, which new data lack; it refuses them if they lack an input.
        columns = [column for column in fitted_on if column in dataset.schema.names] or fitted_on
    elif columns is None:
        columns = names
    if columns is None:
        raise ValueError("columns is needed: the model does not know the names of its inputs")
    columns = _source.names(columns)
    _source.check_columns(dataset, columns, "columns")
    takes_frames = preprocessor is None and names is not None
    return _of_dataset(model, dataset, columns, preprocessor, takes_frames, chunk_size)


def _of_array(model: Any, X: Any, size: int) -> Iterator[Any]:
    rows = getattr(X, "iloc", X)  # of a data frame by place, whatever its index
    for start in range(0, X.shape[0], size):
        part = rows[start : start + size]
        # The names of columns are checked, and an array of any other library is read.
        yield of_rows(model, part if hasattr(part, "columns") else np.asarray(part))


def _of_dataset(
    model: Any, dataset: Any, columns: list[str], preprocessor: Any, takes_frames: bool, size: int
) -> Iterator[Any]:
    for batch in _source.batches(dataset, columns, size):
        if takes_frames:
            X = _source.frame(batch, columns)
        else:
            # The model may know more digits than float32 has, as of times in seconds.
            X = _source.inputs(batch, columns, preprocessor)
        yield of_rows(model, X)
