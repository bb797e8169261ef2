"""Gradients: recorded where training needs them, whatever mode torch is in."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def recorded_gradients() -> Iterator[None]:
    """Let autograd record, also inside `torch.no_grad` or `torch.inference_mode`.

    Those who fit a model may stand in such a block, for instance in an evaluation loop. It is
    their thread's mode, which comes back at the end. A decorator too.
    """
    with torch.inference_mode(False), torch.enable_grad():
        yield
