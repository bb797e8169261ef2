"""From JSON and tensors to an estimator, without a call of anything that a file names.

Objects are made by `object.__new__` and get their attributes, so no constructor runs, nor
`__setstate__` or `__reduce__`. The attributes of a class stay what they are: no attribute of an
object may hide a method of its class.
"""

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import gpytorch
import numpy as np
import torch
from torch import Tensor, nn

from skgp._typing import Array
from skgp.estimators._estimator import Estimator
from skgp.exceptions import InvalidFileError
from skgp.files._trusted import Trust
from skgp.files._upgrades import UPGRADES
from skgp.files._writing import NOT_SAVED, NOT_SAVED_PARAMETERS

_DEEPEST: Final = 100  # objects within objects
_MOST_MODULES: Final = 100_000  # counted as often as they appear
_MOST_CHARACTERS: Final = 2**24  # of an array
_NEW: Final = vars(nn.Module()).keys()
_PRIMITIVES: Final = (type(None), bool, int, float, str)
_DEFAULTS: Final = (type(None), bool, int, float)  # of a class, which an object may replace
_METHOD: Final = re.compile(r"_\w+_(param|closure)")  # by which a gpytorch kernel finds priors


class Reader:
    """Turns JSON into values: the inverse of `Writer`, which refuses everything else.

    Parameters
    ----------
    tensors : dict
        Each is used once.
    trust : Trust
    """

    def __init__(self, tensors: Mapping[str, Tensor], trust: Trust) -> None:
        self._tensors = dict(tensors)
        self._trust = trust
        self._finished: list[tuple[Tensor | nn.Module, int]] = []  # with the modules that it has
        self._n_modules = 0
        self._depth = 0
        self._module: nn.Module | None = None  # whose attributes are being read

    def estimator(self, data: Any) -> Estimator:
        """The estimator.

        Raises
        ------
        InvalidFileError
            For anything that `Writer` does not write.
        """
        name, state = _fields(data, "class", "state")
        cls = self._known(name, self._trust.estimator)
        estimator = _made(cls)
        parameters = inspect.signature(cls).parameters
        attributes = self._attributes(cls, state)
        for name, value in attributes.items():
            if name not in parameters and not (name.startswith("_") or name.endswith("_")):
                raise InvalidFileError(f"{cls.__name__} has no parameter {name}")
            if name in NOT_SAVED or (name in NOT_SAVED_PARAMETERS and value is not None):
                raise InvalidFileError(f"a file may not set {name}")
        if self._tensors:
            raise InvalidFileError(f"nothing names the tensors {sorted(self._tensors)[:5]}")
        # A later version may have more parameters than the file.
        defaults = {name: parameter.default for name, parameter in parameters.items()}
        vars(estimator).update(defaults | attributes)
        return estimator

    def _value(self, data: Any) -> Any:
        if type(data) in _PRIMITIVES:
            return data
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidFileError(f"objects lie more than {_DEEPEST} deep in each other")
        value: Any = self._list(data) if isinstance(data, list) else self._of_kind(data)
        self._depth -= 1
        return value

    def _of_kind(self, data: Any) -> Any:
        readers: dict[str, Callable[[Any], Any]] = {
            "array": self._array,
            "dict": self._dict,
            "float": _special,
            "function": lambda name: self._known(name, self._trust.function),
            "method": self._method,
            "module": self._of_module,
            "object": self._object,
            "objects": self._objects,
            "parameter": self._parameter,
            "random_state": self._random_state,
            "ref": self._ref,
            "scalar": lambda data: _typed(self._value(data), np.ndarray)[()],
            "size": lambda data: torch.Size(_integers(data)),
            "strings": self._strings,
            "tensor": self._tensor,
            "tuple": lambda data: tuple(self._list(data)),
        }
        if len(data) != 1 or (kind := next(iter(data))) not in readers:
            raise InvalidFileError(f"there is no kind of value with the keys {sorted(data)[:5]}")
        return readers[kind](data[kind])

    # --------------------------------------------------------- containers

    def _list(self, data: Any) -> list[Any]:
        return [self._value(item) for item in _typed(data, list)]

    def _dict(self, data: Any) -> dict[Any, Any]:
        pairs = self._list(data)
        if not all(type(pair) is list and len(pair) == 2 for pair in pairs):
            raise InvalidFileError("a dictionary is no list of pairs")
        if not all(isinstance(key, (*_PRIMITIVES, np.generic)) for key, _ in pairs):
            raise InvalidFileError("a dictionary has a key that is neither a string nor a number")
        found = dict(pairs)
        if len(found) != len(pairs):
            raise InvalidFileError("a dictionary has a key twice")
        return found

    # ---------------------------------------------------- arrays, tensors

    def _objects(self, data: Any) -> Array:
        shape, values = _fields(data, "shape", "values")
        items = self._list(values)
        if math.prod(_integers(shape)) != len(items):
            raise InvalidFileError(f"an array of shape {shape} has {len(items)} entries")
        if any(type(item) not in _PRIMITIVES for item in items):
            raise InvalidFileError("an array has entries that are neither strings nor numbers")
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(shape)

    def _strings(self, data: Any) -> Array:
        array = self._objects(data)
        if any(type(item) is not str for item in array.flat):
            raise InvalidFileError("an array of strings has entries that are none")
        # Each string gets the room of the longest.
        if array.size * max(map(len, array.flat), default=0) > _MOST_CHARACTERS:
            raise InvalidFileError("an array of strings is too large")
        return array.astype(np.str_)

    def _array(self, data: Any) -> Array:
        tensor = self._stored(*_fields(data, "name", "order"))
        if tensor.dtype is torch.bfloat16 or tensor.is_complex():
            raise InvalidFileError(f"an array has the type {tensor.dtype}")
        return tensor.numpy()

    def _stored(self, name: Any, order: Any) -> Tensor:
        tensor = self._tensors.pop(_typed(name, str), None)
        if tensor is None:
            raise InvalidFileError(f"there is no tensor {name}, or it is used twice")
        if sorted(_integers(order)) != list(range(tensor.dim())):
            raise InvalidFileError(f"tensor {name} has no axes {order}")
        # A clone lies where torch would put a new tensor: products may depend on the address. And
        # its truth values are 0 and 1, whatever the bytes in the file are.
        return tensor.clone().permute([order.index(axis) for axis in range(len(order))])

    def _tensor(self, data: Any) -> Tensor:
        return self._finish(self._stored(*_fields(data, "name", "order")), 0)

    def _parameter(self, data: Any) -> Tensor:
        name, order, requires_grad = _fields(data, "name", "order", "requires_grad")
        tensor = self._stored(name, order)
        if requires_grad and not tensor.is_floating_point():
            raise InvalidFileError(f"parameter {name} has the type {tensor.dtype}")
        return self._finish(nn.Parameter(tensor, _typed(requires_grad, bool)), 0)

    def _random_state(self, data: Any) -> np.random.RandomState:
        keys, position, has_gauss, gauss = self._list(data)
        # NumPy reads beyond the array at a position beyond its end.
        sound = isinstance(keys, np.ndarray) and keys.dtype == np.uint32 and keys.shape == (624,)
        sound = sound and type(position) is int and 0 <= position <= 624 and type(gauss) is float
        if not sound or has_gauss not in (0, 1):
            raise InvalidFileError("a random_state is no state of NumPy's generator")
        state = np.random.RandomState(0)
        state.set_state(("MT19937", keys, position, has_gauss, gauss))
        return state

    # --------------------------------------------------- objects, modules

    def _known(self, name: Any, among: Callable[[str], Any]) -> Any:
        found = among(_typed(name, str))
        if found is None:
            raise InvalidFileError(
                f"{name} is not among the classes and functions that may stand here: if you trust "
                "it and the file, pass it as in load(path, classes=[...])"
            )
        return found

    def _attributes(self, cls: type, data: Any) -> dict[str, Any]:
        """Attributes of an object, none of which hides what its class defines."""
        for name in _typed(data, dict):
            default = inspect.getattr_static(cls, name, None)
            of_module = issubclass(cls, nn.Module) and hasattr(nn.Module, name)
            hides = type(default) not in _DEFAULTS or of_module
            if name.startswith("__") or hides:
                raise InvalidFileError(f"{cls.__name__} may not have an attribute {name!r}")
        return {name: self._value(value) for name, value in data.items()}

    def _object(self, data: Any) -> Any:
        name, state = _fields(data, "class", "state")
        cls = self._known(name, self._trust.value)
        if issubclass(cls, tuple) or dataclasses.is_dataclass(cls):
            # A later version may have more fields than the file.
            defaults = getattr(cls, "_field_defaults", {})
            values = defaults | {
                key: self._value(value) for key, value in _typed(state, dict).items()
            }
            values = UPGRADES.get(name, dict)(values)
            _fields(values, *inspect.signature(cls).parameters)
        else:
            values = self._attributes(cls, state)
        if issubclass(cls, tuple):
            return tuple.__new__(cls, [values[name] for name in inspect.signature(cls).parameters])
        made = _made(cls)
        vars(made).update(values)
        return made

    def _method(self, name: Any) -> Any:
        """A bound method of the module whose attributes are being read."""
        if not isinstance(self._module, gpytorch.Module) or not _METHOD.fullmatch(str(name)):
            raise InvalidFileError(f"a method {name!r} may not stand here")
        if not inspect.isfunction(inspect.getattr_static(type(self._module), name, None)):
            raise InvalidFileError(f"{type(self._module).__name__} has no method {name}")
        return getattr(self._module, name)

    def _of_module(self, data: Any) -> nn.Module:
        name, training, parameters, buffers, not_persistent, modules, attributes = _fields(
            data,
            *("class", "training", "parameters", "buffers", "not_persistent"),
            *("modules", "attributes"),
        )
        cls = self._known(name, self._trust.module)
        outer, n_before = self._module, self._n_modules
        self._module = module = _made(cls)
        (gpytorch.Module if issubclass(cls, gpytorch.Module) else nn.Module).__init__(module)
        vars(module)["training"] = _typed(training, bool)
        for found, part, kind in (
            (module._parameters, parameters, nn.Parameter),
            (module._buffers, buffers, Tensor),
            (module._modules, modules, nn.Module),
        ):
            for key, item in _typed(part, dict).items():
                value = self._value(item)
                found[key] = None if value is None else _typed(value, kind)
        module._non_persistent_buffers_set.update(set(not_persistent) & module._buffers.keys())
        if reserved := _NEW & _typed(attributes, dict).keys():
            raise InvalidFileError(f"{name} may not have attributes {sorted(reserved)}")
        vars(module).update(self._attributes(cls, attributes))
        self._module = outer
        self._count(1)
        return self._finish(module, self._n_modules - n_before)

    def _ref(self, number: Any) -> Any:
        if not 0 <= _typed(number, int) < len(self._finished):
            raise InvalidFileError(f"there is no tensor or module number {number}")
        value, n_modules = self._finished[number]
        self._count(n_modules)
        return value

    def _finish(self, value: Any, n_modules: int) -> Any:
        self._finished.append((value, n_modules))
        return value

    def _count(self, n_modules: int) -> None:
        """Modules that hold each other again and again would take forever to walk through."""
        self._n_modules += n_modules
        if self._n_modules > _MOST_MODULES:
            raise InvalidFileError(f"there are more than {_MOST_MODULES} modules")


def _made(cls: type) -> Any:
    """An object without attributes, whose constructor has not run."""
    try:
        return object.__new__(cls)
    except TypeError as error:  # an abstract class, or one of C
        raise InvalidFileError(f"an object of {cls.__name__} cannot be made: {error}") from error


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidFileError(f"a {type(value).__name__} stands in the place of {kind.__name__}")
    return value


def _fields(data: Any, *names: str) -> list[Any]:
    """The values of an object of JSON that has exactly these keys."""
    if sorted(_typed(data, dict)) != sorted(names):
        raise InvalidFileError(f"an object has the keys {sorted(data)[:10]}, not {sorted(names)}")
    return [data[name] for name in names]


def _integers(data: Any) -> Iterable[int]:
    for item in _typed(data, list):
        if _typed(item, int) < 0:
            raise InvalidFileError("a size or an axis is negative")
    return list(data)


def _special(text: Any) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise InvalidFileError(f"{text!r} is no float")
    return float(text)
