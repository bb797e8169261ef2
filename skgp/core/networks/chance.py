"""Modules that draw from torch's global generator, such as dropout layers and those of users."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from skgp.core.numerics.draws import make_seed, seeded

_KNOWN: Final = ("skgp", "torch")  # kernels of gpytorch may look at their numbers
_QUIET: Final = (*_KNOWN, "gpytorch", "linear_operator")  # what draws there does so once, before
_DRAWING: Final = (_DropoutNd, nn.RReLU)


def is_known(module: nn.Module) -> bool:
    """Whether a module only reads and changes tensors. One of a user may do what it likes."""
    return _is_of(module, _KNOWN)


def _is_of(module: nn.Module, packages: tuple[str, ...]) -> bool:
    has_hooks = bool(module._forward_hooks or module._forward_pre_hooks)
    return type(module).__module__.partition(".")[0] in packages and not has_hooks


def _may_draw(module: nn.Module) -> bool:
    return isinstance(module, _DRAWING) or not _is_of(module, _QUIET)


def chance_of(
    module: nn.Module, seed: int
) -> Callable[[torch.device, int], AbstractContextManager[None]]:
    """A context for each training step of a module, in which the same draws come in each fit.

    The global generator is left as it was, and alone if no module draws from it: other threads may.

    Parameters
    ----------
    module : Module
    seed : int

    Returns
    -------
    callable (device, number of the step) -> context manager
    """
    if not any(map(_may_draw, module.modules())):
        return lambda device, step: nullcontext()
    return lambda device, step: seeded(device, make_seed(seed, "modules", step))
