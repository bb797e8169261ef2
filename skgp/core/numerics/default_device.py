"""Torch's default device, which a session may have set: fits and predictions leave it aside."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def tensors_on_cpu() -> Iterator[None]:
    """Let torch create tensors on the CPU, from where they are moved by name.

    Where it does so anyway, nothing is entered: inside of a device context each call of torch is
    slower.
    """
    if torch.get_default_device().type == "cpu":
        yield
        return
    with torch.device("cpu"):
        yield


def on_cpu(function: Callable[P, T]) -> Callable[P, T]:
    """The function inside of `tensors_on_cpu`."""

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        with tensors_on_cpu():
            return function(*args, **kwargs)

    return inside


class OnCPU:
    """Base of classes whose public methods and properties work inside of `tensors_on_cpu`.

    Methods `fit` and `partial_fit` have to enter it by themselves.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, value in list(vars(cls).items()):
            if name.startswith("_") or name in ("fit", "partial_fit"):
                continue
            if isinstance(value, FunctionType):
                setattr(cls, name, on_cpu(value))
            elif isinstance(value, property) and value.fget is not None:
                setattr(cls, name, property(on_cpu(value.fget), doc=value.__doc__))
