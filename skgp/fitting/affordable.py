"""Sizes that no memory holds: the parameters that ask for them, by name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from numbers import Integral
from typing import Any, Final

import torch

from skgp.core.numerics import memory

_GIB: Final = 2.0**30
# Bytes that a fit holds for each unit of a parameter, however small the table and the other
# parameters are: about ten numbers, or a layer of modules.
_LEAST_BYTES: Final = {
    "latent_dim": 100,
    "n_components": 100,
    "n_hidden": 100,
    "n_importance": 100,
    "n_layers": 10_000,
    "n_posterior_samples": 100,
    "n_prediction_samples": 100,
    "n_restarts": 10_000,
    "n_samples": 100,
    "n_sites": 100,
    "width": 100,
}
_NETWORKS: Final = ("feature_extractor", "hidden_layer_sizes")  # as widths of layers
_WEIGHT_BYTES: Final = 24  # of a weight, its gradient, its moments and two copies to go back to
_ALSO: Final = ("batch_size", "n_inducing", "n_inducing_mean")  # costly, but no more than the rows
_FAILURES: Final = (
    "allocate memory",
    "out of memory",
    "not enough memory",
    "Storage size calculation overflowed",
)


def check_affordable(parameters: Mapping[str, Any], device: torch.device) -> None:
    """Refuse a parameter that alone takes more memory than there is, before any is allocated.

    `parameters` maps names of constructor parameters to valid values, `device` is that of training.

    Raises
    ------
    MemoryError
        Naming the parameter.
    """
    needed, name = max((_least_bytes(name, value), name) for name, value in parameters.items())
    if needed < _GIB:
        return
    available = memory.available_memory(device)
    if available is not None and needed > available:
        raise MemoryError(
            f"{name}={parameters[name]} needs more than {needed / _GIB:.3g} GiB of memory, and "
            f"there are {available / _GIB:.3g} GiB left: lower it"
        )


def _least_bytes(name: str, value: Any) -> int:
    # A class of modules, which makes a network, has a method `__len__` that is not its own.
    is_list = hasattr(value, "__len__") and not isinstance(value, str) and not callable(value)
    if name in _NETWORKS and is_list:
        widths = [int(width) for width in value if isinstance(width, Integral)]
        return _WEIGHT_BYTES * sum(a * b for a, b in pairwise([1, *widths]))
    known = isinstance(value, Integral) and name in _LEAST_BYTES
    return _LEAST_BYTES[name] * int(value) if known else 0


@contextmanager
def named_allocations(parameters: Mapping[str, Any]) -> Iterator[None]:
    """Turn the failure of an allocator into a MemoryError that says what may be lowered."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if type(error) is MemoryError and error.args:
            raise  # it has a message of our own
        if isinstance(error, RuntimeError) and not any(part in str(error) for part in _FAILURES):
            raise
        sizes = {
            name: value
            for name, value in parameters.items()
            if name in (*_LEAST_BYTES, *_NETWORKS, *_ALSO)
        }
        listed = ", ".join(f"{name}={value!r}" for name, value in sizes.items())
        raise MemoryError(
            f"the fit asks for more memory than there is: lower some of {listed}, or fit fewer rows"
        ) from error
