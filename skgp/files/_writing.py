"""From an estimator to what JSON can express, and tensors."""

import math
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from skgp._typing import Array
from skgp.core.layers.kept import Kept
from skgp.estimators._estimator import Estimator
from skgp.files._trusted import NAMES, name_of

# Of this session: objects of scikit-learn, and folders of this machine.
NOT_SAVED: Final = frozenset({"_metadata_request", "_skl_callbacks"})
NOT_SAVED_PARAMETERS: Final = frozenset({"checkpoint", "memory"})

_PLAIN: Final = (type(None), bool, int, str)
_NEW: Final = vars(nn.Module())  # what every torch module has
_HOOKS_OF_GPYTORCH: Final = "_load_state_dict_pre_hooks"  # its base class adds them again


class Writer:
    """Turns values into JSON.

    Numbers, strings, None and lists are themselves; anything else is an object of one key, its
    kind. Attributes of all objects are written, and `__reduce__` and its like are not asked.

    Attributes
    ----------
    tensors : dict
        Contiguous ones by name, to which the JSON refers.
    foreign : set
        Classes and functions that only a user can trust.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.foreign: set[Any] = set()
        self._numbers: dict[int, int] = {}  # of modules and tensors, in the order of their ends
        self._kept: list[Any] = []  # so that no two have the same id
        self._module: nn.Module | None = None  # whose attributes are being written

    def estimator(self, estimator: Estimator) -> Any:
        """An estimator with its parameters and fitted attributes."""
        state = {key: v for key, v in vars(estimator).items() if key not in NOT_SAVED}
        state |= dict.fromkeys(NOT_SAVED_PARAMETERS & state.keys())
        return {"class": self._name(type(estimator)), "state": self._state(state)}

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return [self._value(item) for item in value]
        if kind is torch.Size:
            return {"size": list(value)}
        if kind is tuple:
            return {"tuple": [self._value(item) for item in value]}
        if kind is dict:
            return {"dict": [[self._value(key), self._value(v)] for key, v in value.items()]}
        if kind is np.ndarray:
            return self._array(value)
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value))}
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            return {"function": self._name(value)}
        if isinstance(value, MethodType) and value.__self__ is self._module:
            return {"method": value.__name__}
        if isinstance(value, np.random.RandomState):
            return {"random_state": [self._value(part) for part in _parts(value)]}
        if isinstance(value, Tensor | nn.Module):
            return self._once(value)
        return self._object(value)

    def _state(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._value(value) for name, value in attributes.items()}

    def _name(self, value: Any) -> str:
        name = name_of(value)
        if value not in NAMES:
            if "<" in name:
                raise ValueError(f"{name} has no name of its own: define it at the top of a module")
            self.foreign.add(value)
        return name

    def _object(self, value: Any) -> Any:
        """An object of a class without surprises: its state is its attributes."""
        cls = type(value)
        if hasattr(value, "_asdict"):
            attributes = value._asdict()
        elif hasattr(value, "__dict__") and cls.__module__ != "builtins":
            attributes = vars(value)
        else:
            raise ValueError(f"an object of the class {cls.__name__} cannot be saved")
        return {"object": {"class": self._name(cls), "state": self._state(attributes)}}

    # ---------------------------------------------------- arrays, tensors

    def _array(self, array: Array) -> Any:
        if array.dtype.kind in "UO":
            values = array.ravel().tolist()
            if not all(isinstance(v, (*_PLAIN, float)) for v in values):
                raise ValueError("an array of objects other than strings and numbers is not saved")
            kind = "strings" if array.dtype.kind == "U" else "objects"
            return {kind: {"shape": array.shape, "values": [self._value(v) for v in values]}}
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise ValueError(f"an array of {array.dtype} cannot be saved")
        native = array.astype(array.dtype.newbyteorder("="), order="K")
        return {"array": self._stored(torch.from_numpy(np.asarray(native)))}

    def _stored(self, tensor: Tensor) -> dict[str, Any]:
        """The name of a tensor's numbers, and the order of its axes in memory.

        A product of matrices may depend in its last bits on that order.
        """
        strided = tensor.layout is torch.strided and not tensor.is_quantized
        if not strided or tensor.device.type == "meta":
            raise ValueError(f"a tensor of {tensor.layout} on {tensor.device} cannot be saved")
        order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        name = f"t{len(self.tensors)}"
        permuted = tensor.detach().permute(order).cpu()
        self.tensors[name] = permuted.clone(memory_format=torch.contiguous_format)
        return {"name": name, "order": order}

    # ------------------------------------------------------------- modules

    def _once(self, value: Tensor | nn.Module) -> Any:
        """A tensor or module, or the number of one that has been written."""
        if id(value) in self._numbers:
            return {"ref": self._numbers[id(value)]}
        written = self._tensor(value) if isinstance(value, Tensor) else self._of_module(value)
        self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)
        return written

    def _tensor(self, tensor: Tensor) -> Any:
        if type(tensor) not in (Tensor, nn.Parameter):
            raise ValueError(f"a tensor of the class {type(tensor).__name__} cannot be saved")
        if type(tensor) is Tensor:
            return {"tensor": self._stored(tensor)}
        return {"parameter": {**self._stored(tensor), "requires_grad": tensor.requires_grad}}

    def _of_module(self, module: nn.Module) -> Any:
        named = vars(module).copy().items()  # predictions in other threads keep factors there
        attributes = {n: v for n, v in named if n not in _NEW and not isinstance(v, Kept)}
        hooks = [name for name in _NEW if name.endswith("_hooks") and vars(module)[name]]
        if hooks and (hooks != [_HOOKS_OF_GPYTORCH] or "_priors" not in attributes):
            raise ValueError(f"{type(module).__name__} has hooks, which cannot be saved")
        outer, self._module = self._module, module
        written = {
            "class": self._name(type(module)),
            "training": module.training,
            "parameters": self._state(module._parameters),
            "buffers": self._state(module._buffers),
            "not_persistent": sorted(module._non_persistent_buffers_set),
            "modules": self._state(module._modules),
            "attributes": self._state(attributes),
        }
        self._module = outer
        return {"module": written}


def _parts(state: np.random.RandomState) -> tuple[Any, ...]:
    """Of the state of a Mersenne twister; no other generator is saved."""
    parts = state.get_state()
    if not isinstance(parts, tuple):
        raise ValueError("random_state has another generator than MT19937: pass an integer")
    return parts[1:]
