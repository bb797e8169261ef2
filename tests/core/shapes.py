"""Shapes of tensors in signatures, checked at run time with one size for each axis of a call.

The annotations of `skgp.core` name no shapes, so that the package needs no library for them. A test
gives functions those of a table instead, by `checked`.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor

Contracts = Mapping[type, Mapping[str, Mapping[str, Any]]]


def real(axes: str) -> Any:
    """Tensors of floating-point numbers with these axes; `#` marks one that may have the size 1."""
    return Float[Tensor, axes]


def whole(axes: str) -> Any:
    """Tensors of integers with these axes."""
    return Int[Tensor, axes]


class _Parts(type):
    """Classes of the tuples whose parts have given shapes, with axes of the call around them."""

    of: type
    kinds: Callable[[Any], Iterator[tuple[Any, Any]]]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.of) and all(
            isinstance(part, kind) for part, kind in cls.kinds(value)
        )


def fields(of: type, **kinds: Any) -> Any:
    """Named tuples whose fields have these shapes."""

    def parts(value: Any) -> Iterator[tuple[Any, Any]]:
        return ((getattr(value, name), kind) for name, kind in kinds.items())

    shown = ", ".join(f"{name}: {_show(kind)}" for name, kind in kinds.items())
    return _Parts(f"{of.__name__}({shown})", (), {"of": of, "kinds": staticmethod(parts)})


def each(kind: Any) -> Any:
    """Tuples of any length, all parts of which have this shape."""

    def parts(value: Any) -> Iterator[tuple[Any, Any]]:
        return ((part, kind) for part in value)

    return _Parts(f"each {_show(kind)}", (), {"of": tuple, "kinds": staticmethod(parts)})


def _show(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def checked(function: Callable[..., Any], kinds: Mapping[str, Any]) -> Callable[..., Any]:
    """The function with these annotations, of parameters and `return`, in the place of its own."""
    unknown = set(kinds) - {"return"} - set(inspect.signature(function).parameters)
    if unknown:
        raise TypeError(f"{function.__qualname__} has no parameters {sorted(unknown)}")
    assert isinstance(function, FunctionType)
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    functools.update_wrapper(copy, function)
    del copy.__wrapped__  # type: ignore[attr-defined]  # its annotations would be seen instead
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = dict(kinds)
    return jaxtyped(copy, typechecker=beartype)


def family(base: type) -> Iterator[type]:
    """A class and all of its subclasses."""
    yield base
    for subclass in base.__subclasses__():
        yield from family(subclass)


def checked_methods(contracts: Contracts) -> Iterator[tuple[type, str, Any]]:
    """Class, name and checked method, for each class of a family that defines the method itself."""
    for base, methods in contracts.items():
        for name, kinds in methods.items():
            found = {cls: vars(cls)[name] for cls in family(base) if name in vars(cls)}
            if not found:
                raise TypeError(f"{base.__qualname__} has no method {name}")
            for cls, method in found.items():
                if isinstance(method, property):
                    assert method.fget is not None
                    yield cls, name, property(checked(method.fget, kinds))
                else:
                    yield cls, name, checked(method, kinds)
