"""Gradients: recorded where training needs them, whatever mode torch is in."""

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
