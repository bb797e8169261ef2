"""Gradients: recorded where training needs them, whatever mode torch is in; of first order."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def recorded_gradients() -> Iterator[None]:
    """Let autograd record, also inside `torch.no_grad` or `torch.inference_mode`.

    A caller may fit a model inside such a block, for instance in an evaluation loop. Its mode is
    restored at the end. It also works as a decorator.
    """
    with torch.inference_mode(False), torch.enable_grad():
        yield


def no_double_backward() -> None:
    """Refuse a double backward in a backward pass that is written by hand.

    It keeps tensors that torch would take for constants, so second derivatives would be wrong.

    Raises
    ------
    NotImplementedError
    """
    if torch.is_grad_enabled():  # only with create_graph=True
        raise NotImplementedError(
            "gradients of models are of first order: there are no second derivatives, nor "
            "create_graph=True; take differences of gradients"
        )
