"""Which fit is which: the files of a checkpoint, by parameters and rows."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import numpy as np
import sklearn
import torch
from joblib.hashing import NumpyHasher
from sklearn.base import BaseEstimator
from sklearn.utils import check_scalar
from torch import Tensor, nn

from skgp._typing import Array
from skgp._version import __version__
from skgp.core.layers.kept import Kept
from skgp.core.training.ranks import Ranks
from skgp.fitting.recording import Recording
from skgp.fitting.rows import Rows

_OF_ONE_FIT: Final = ".ckpt"  # suffix of a file that is named by the user
_CHUNK: Final = 2**16  # rows that are hashed at a time
_WITHOUT_EFFECT: Final = frozenset({"checkpoint", "memory", "verbose"})  # on the fitted model
_PLAIN: Final = (type(None), bool, int, float, str)


@dataclass(frozen=True)
class Checkpoint:
    """Where fits keep their state while they run, and how often.

    Parameters
    ----------
    path : str or path-like
        A folder, in which each fit has a file of its own, found by its parameters and rows. With
        the suffix ".ckpt" it is a file for one fit alone, and refuses any other.
    every : float, default=60.0
        Seconds from one writing to the next.

    Examples
    --------
    >>> from skgp import Checkpoint, SVGPRegressor
    >>> model = SVGPRegressor(checkpoint=Checkpoint("runs", every=300), random_state=0)
    """

    path: str | PathLike[str]
    every: float = 60.0


def open_recording(
    estimator: BaseEstimator,
    rows: Rows,
    held_out: Rows | None,
    fitted: nn.Module | None,
    ranks: Ranks,
) -> Recording:
    """What records a fit of an estimator with the parameter `checkpoint`.

    Parameters
    ----------
    estimator : estimator
    rows : Rows
        Of training.
    held_out : Rows or None
        Of validation.
    fitted : Module or None
        The model that the fit goes on from.
    ranks : Ranks
        The processes of the fit, of which each has files of its own.

    Raises
    ------
    ValueError
        If the fit cannot be told from others, or if the file belongs to another one.
    """
    parameters = estimator.get_params(deep=False)
    given = parameters["checkpoint"]
    checkpoint = given if isinstance(given, Checkpoint) else Checkpoint(given)
    check_scalar(checkpoint.every, "every of checkpoint", Real, min_val=0)
    if parameters["random_state"] is None:
        raise ValueError(
            "checkpoint needs a fit that can be repeated, and random_state=None makes each fit "
            "another one: pass random_state=0, say"
        )
    own = _hash_of_rows(rows), _hash_of_rows(held_out), _text("model", fitted)
    of_rows, of_held_out, of_fitted = map(" ".join, np.stack(ranks.gathered(np.array(own)), 1))
    fit = {
        "the class": type(estimator).__qualname__,
        **{n: _text(n, v) for n, v in parameters.items() if n not in _WITHOUT_EFFECT},
        "the rows": of_rows,
        "the validation rows": of_held_out,
        "the model that the fit goes on from": of_fitted,
        "the number of processes": str(ranks.n),
    }
    packages = {"skgp": __version__, "numpy": np.__version__, "torch": str(torch.__version__)}
    fit |= {**packages, "scikit-learn": sklearn.__version__}
    path = Path(checkpoint.path)
    if path.suffix != _OF_ONE_FIT:
        name = hashlib.sha256(json.dumps(fit, sort_keys=True).encode()).hexdigest()[:16]
        path = path / f"{type(estimator).__name__}-{name}{_OF_ONE_FIT}"
    return Recording(path, checkpoint.every, fit, ranks)


def _text(name: str, value: Any) -> str:
    """A value as a text, or as a hash of its contents."""
    if type(value) in _PLAIN:
        return repr(value)
    try:
        return f"#{_Hasher().hash(value)}"
    except Exception as error:  # of many types: a user's object may do anything
        raise ValueError(
            f"checkpoint cannot tell {name}={value!r} from other values ({error}): define classes "
            "and functions at the top of a module"
        ) from error


class _Hasher(NumpyHasher):
    """Hashes contents; torch's own pickles hold addresses, and numbers of hooks."""

    def memoize(self, obj: Any) -> None:
        if not isinstance(obj, tuple):  # equal ones are the same, whether or not they are one
            super().memoize(obj)

    def save(self, obj: Any) -> None:
        if isinstance(obj, Tensor):
            obj = ["tensor", obj.requires_grad, obj.detach().cpu().numpy()]
        elif isinstance(obj, nn.Module):
            named = vars(obj).copy().items()  # predictions in other threads keep factors there
            attributes = {
                name: value
                for name, value in named
                if not (name.endswith("_hooks") or isinstance(value, Kept))
            }
            obj = ["module", *_named(type(obj)), attributes]
        elif isinstance(obj, FunctionType) and _can_be_named(obj):
            obj = ["function", *_named(obj), obj.__defaults__, obj.__kwdefaults__]
        elif isinstance(obj, type) and issubclass(obj, nn.Module) and _can_be_named(obj):
            obj = ["class", *_named(obj)]
        super().save(obj)


def _can_be_named(obj: Any) -> bool:
    """Whether a function or class stands at the top of a module; pickle refuses the others."""
    return "<" not in obj.__qualname__


def _named(obj: Any) -> list[Any]:
    """A function or class by its name and by what it does, which may change under that name."""
    functions = [obj] if isinstance(obj, FunctionType) else vars(obj).values()
    codes = [_instructions(f.__code__) for f in functions if isinstance(f, FunctionType)]
    return [obj.__module__, obj.__qualname__, codes]


def _instructions(code: CodeType) -> list[Any]:
    """What a function does, without where it stands."""
    return [code.co_code, [_constant(value) for value in code.co_consts], code.co_names]


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _instructions(value)
    # The order of a set of strings is another one in each process.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def _hash_of_rows(rows: Rows | None) -> str:
    if rows is None:
        return "None"
    digest = hashlib.sha256()
    for array in (rows.X, rows.y, rows.weight, rows.known_noise):
        digest.update(b"None" if array is None else f"{array.dtype.str}{array.shape}".encode())
        for part in _parts(array):
            digest.update(part.data)
    return f"#{digest.hexdigest()}"


def _parts(array: Array | None) -> Iterator[Array]:
    """Consecutive rows, contiguous in memory."""
    for first in range(0, 0 if array is None else len(array), _CHUNK):
        assert array is not None
        yield np.ascontiguousarray(array[first : first + _CHUNK])
