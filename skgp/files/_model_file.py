"""`save` and `load`."""

import os
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from skgp.estimators._estimator import Estimator
from skgp.exceptions import InvalidFileError
from skgp.files._container import pack, unpack
from skgp.files._reading import Reader
from skgp.files._trusted import Trust
from skgp.files._writing import Writer
from skgp.fitting.whole_files import put_whole


def save(estimator: Any, path: str | PathLike[str]) -> None:
    """Write an estimator into a file that can be loaded without trusting it.

    Parameters
    ----------
    estimator : estimator of skgp, fitted or not
        Its callbacks, its metadata requests, its `memory` and its `checkpoint` are not saved.
    path : str or path-like
        A file there is replaced in one step: if that fails, it stays as it was.

    Raises
    ------
    TypeError
        If it is no estimator of skgp itself, but a pipeline or a search, say.
    ValueError
        If it holds something that no file can: a function without a name, hooks of a module.
    ImportError
        If safetensors is not installed.
    OSError
        If the file cannot be written.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"save takes an estimator of skgp, not {type(estimator).__name__}: {_remedy(estimator)}"
        )
    writer = Writer()
    content = pack(writer.estimator(estimator), writer.tensors)
    _read(content, Trust(writer.foreign))  # what cannot be read is not written
    file = Path(path).resolve()  # of a link that the link leads to
    if file.exists() and not file.is_file():  # a pipe, say
        file.write_bytes(content)
    else:
        put_whole(content, file, file.with_name(f"{file.name}.{os.getpid()}.tmp"))


def _remedy(estimator: Any) -> str:
    """What of another object can be saved."""
    steps = "of a pipeline step by step, those of scikit-learn with skops"
    if hasattr(estimator, "best_estimator_"):
        remedy, inner = "save its best_estimator_", estimator.best_estimator_
    elif hasattr(estimator, "estimators_"):
        remedy, inner = "save its estimators_ one by one", estimator.estimators_[0]
    else:
        return f"save what it fits, {steps}"
    return remedy if isinstance(inner, Estimator) else f"{remedy}, {steps}"


def load(path: str | PathLike[str], *, classes: Sequence[type | Callable[..., Any]] = ()) -> Any:
    """The estimator in a file that `save` has written. Nothing in the file is run.

    Parameters
    ----------
    path : str or path-like
    classes : sequence of classes and functions, default=()
        Your own that the file may name: kernels, modules, feature extractors. Those of skgp, and
        common kernels of gpytorch and modules of torch, need not be passed.

    Returns
    -------
    estimator
        Its predictions have the same bits as those of the saved one, and its training goes on in
        the same way. Its tensors are on the CPU.

    Raises
    ------
    InvalidFileError
        If the file is damaged, has been changed, is of a newer version, or names a class that is
        not in `classes`.
    ImportError
        If safetensors is not installed.
    """
    return _read(Path(path).read_bytes(), Trust(classes))


def _read(content: bytes, trust: Trust) -> Estimator:
    try:
        structure, tensors = unpack(content)
        return Reader(tensors, trust).estimator(structure)
    except (ImportError, InvalidFileError):
        raise
    except Exception as error:  # of any type: the file may hold anything
        raise InvalidFileError(f"the file does not describe an estimator: {error}") from error
