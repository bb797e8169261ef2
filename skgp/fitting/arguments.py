"""Checks of single arguments and parameters, beyond scikit-learn's own."""

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, Final

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import check_array

from skgp._validation import refuse_times, unmasked
from skgp.core.kernels.names import NAMES, kernel_name
from skgp.core.maps import kept_on_disk
from skgp.core.training.ranks import ALONE, ProcessGroup, Ranks

LEAST_WEIGHT: Final = 1e-15  # of a row or of a class, and the largest is its reciprocal

_MOST_NAMED: Final = 10  # columns in a message
_TEXT: Final = "could not convert string"
# What scikit-learn says of values that are no finite numbers, and what to do in which argument.
_COMPLEX: Final = "Complex data not supported"
_REMEDIES: Final[dict[str, dict[str, str]]] = {
    _TEXT: {
        "X": "encode it, by OneHotEncoder(sparse_output=False) in a pipeline for instance",
        "y": "pass numbers, or take a classifier for labels",
    },
    "contains NaN": {"X": "fill it in, by SimpleImputer() in a pipeline, or drop the rows"},
    "contains infinity": {"X": "replace it, or drop the rows"},
    _COMPLEX: {},
}


class KernelNames(StrOptions):
    """Names of kernels, in any spelling; messages list them in order and say what else there is."""

    def __init__(self) -> None:
        super().__init__(set(NAMES))

    def is_satisfied_by(self, val: Any) -> bool:
        return isinstance(val, str) and kernel_name(val) is not None

    def __str__(self) -> str:
        names = ", ".join(map(repr, NAMES))
        others = "others: pass gpytorch.kernels.PeriodicKernel() or the like"
        return f"a str among {{{names}}} ({others})"


@contextmanager
def reading(name: str, values: Any = None) -> Iterator[None]:
    """Name the argument that NumPy, torch or a library of tables cannot turn into numbers.

    Parameters
    ----------
    name : str
        Of the argument.
    values : array-like, optional
        The argument itself, if its columns that hold text, NaN or infinity are to be named.

    Raises
    ------
    ValueError, TypeError
        In the place of errors of other types. What scikit-learn says of text, NaN and infinity
        gets the columns and a remedy; its other errors pass.
    """
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        fault = next((fault for fault in _REMEDIES if fault in str(error)), None)
        if fault is not None:
            raise ValueError(_located(error, fault, name, values)) from error
        if type(error) in (ValueError, TypeError):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} cannot be read as an array of numbers: {error}") from error


def _located(error: Exception, fault: str, name: str, values: Any) -> str:
    """The first sentence of an error, the columns at fault, and what to do."""
    columns = _columns_with(fault, values)
    more = ", ..." * (len(columns) > _MOST_NAMED)
    named = ", ".join(map(repr, columns[:_MOST_NAMED])) + more
    where = f" in column(s) [{named}]" if columns else ""
    argument = name.split("_")[0]  # without the suffix of validation rows
    remedy = _REMEDIES[fault].get(argument, "pass finite numbers")
    said = str(error).split("\n")[0].rstrip(".")
    if fault == _COMPLEX:
        return f"{said}: {name} holds complex numbers; pass real and imaginary parts as columns"
    if fault == _TEXT:
        return f"{name} holds text{where}: {said}; {remedy}"
    return f"{said}{where}: {remedy}"


def _columns_with(fault: str, values: Any) -> list[Any]:
    """Names or numbers of the columns of a table of which scikit-learn says this."""
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        columns = {name: values[name] for name in values.columns}
    else:
        array = np.asarray(values)
        columns = dict(enumerate(array.T)) if array.ndim == 2 else {}
    found = []
    for column, entries in columns.items():
        try:
            check_array(entries, dtype=np.float64, ensure_2d=False, input_name="column")
        except (ValueError, TypeError) as error:
            found += [column] * (fault in str(error))
    return found


def inputs_to_check(X: Any, name: str) -> Any:
    """Dense inputs without times or a mask; those that are large and on disk stay there."""
    refuse_sparse(X, name)
    refuse_times(X, name)
    return kept_on_disk(unmasked(X, name))


def refuse_sparse(X: Any, name: str) -> None:
    """Refuse sparse inputs and say what makes dense ones."""
    if issparse(X):
        raise TypeError(
            f"Sparse data was passed for {name}, but dense data is required: pass "
            f"{name}.toarray(), or let the step before return a dense array, as "
            "OneHotEncoder(sparse_output=False) does"
        )


def check_class_weight(class_weight: Mapping[Any, Any]) -> None:
    """Refuse weights of classes, by label, that no row can have, and name the class."""
    for label, weight in class_weight.items():
        number: Any = weight if isinstance(weight, Real) else math.nan
        if not LEAST_WEIGHT <= number <= 1 / LEAST_WEIGHT:
            raise ValueError(
                f"class_weight of class {label!r} must be a positive number between "
                f"{LEAST_WEIGHT:g} and {1 / LEAST_WEIGHT:g}, got {weight!r}: to do without a "
                "class, drop its rows"
            )


def check_no_booleans(
    estimator: str, parameters: Mapping[str, Any], constraints: Mapping[str, list[Any]]
) -> None:
    """Refuse True and False where a number is meant; to Python they are numbers.

    Parameters
    ----------
    estimator : str
        Name of the class.
    parameters, constraints : mapping
        From names of constructor parameters to their values, and to what scikit-learn checks.

    Raises
    ------
    InvalidParameterError
        A ValueError and a TypeError that names the parameter.
    """
    for name, value in parameters.items():
        numeric = any(isinstance(kind, Interval) for kind in constraints[name])
        if isinstance(value, bool) and numeric and "boolean" not in constraints[name]:
            raise InvalidParameterError(
                f"The {name!r} parameter of {estimator} must be a number. Got {value!r} instead."
            )


def check_sizes(name: str, sizes: Any, what: str = "widths of the layers") -> list[int]:
    """Numbers of layers, refused with the name of the parameter unless they are positive."""
    sizes = list(sizes)
    if not sizes or not all(_is_size(s) for s in sizes):
        raise ValueError(
            f"{name} as a list must hold the {what}, at least one and all positive integers, got "
            f"{sizes}"
        )
    return [int(s) for s in sizes]


def _is_size(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) > 0


def processes(params: Mapping[str, Any], device: torch.device) -> Ranks:
    """The processes that are to train an estimator with these parameters together."""
    if not params.get("data_parallel", False):
        return ALONE
    if not isinstance(params["random_state"], Integral):
        raise ValueError(
            "data_parallel=True needs an integer for random_state, the same in all processes, got "
            f"{params['random_state']!r}"
        )
    return ProcessGroup(device)


def kept(value: Any) -> Any:
    """A value of a parameter that later changes in place leave alone; its entries are the same."""
    return copy.copy(value) if isinstance(value, list | dict | np.ndarray) else value


def check_unchanged(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse parameters with other values than before, by name; `what` is what goes on."""
    changed = [name for name, old in before.items() if not _is_same(old, now[name])]
    if changed:
        raise ValueError(
            f"{what} goes on with the fitted model, which cannot change {', '.join(changed)}: "
            "set back what it was fitted with, or fit a new estimator"
        )


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are equal; modules and functions only if identical."""
    are_sequences = [isinstance(value, list | tuple | np.ndarray) for value in (a, b)]
    if all(are_sequences):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return a is b or (not any(are_sequences) and bool(a == b))
