"""Moments of gradients, and steps of Adam by them, beside torch's own class."""

import copy

import pytest
import torch
from torch import nn

from skgp.core.numerics.adam import Moments


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = (3, 2), (4,), ()
    dtypes = torch.float64, torch.float32, torch.float64
    return [
        nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype))
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]


def set_gradients(moved: list[nn.Parameter], step: int) -> None:
    """The second has none in every third step, and the third none at all before the fifth."""
    generator = torch.Generator().manual_seed(step)
    for p in moved:
        p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)
    if step % 3 == 0:
        moved[1].grad = None
    if step < 5:
        moved[2].grad = None


def test_steps_are_those_of_torch_also_from_a_state() -> None:
    ours, theirs = parameters(), parameters()
    betas = 0.8, 0.95
    moments = Moments(ours, betas)
    reference = torch.optim.Adam(theirs, betas=betas, fused=True)
    for step in range(120):
        if step in (2, 60):
            state, moments = copy.deepcopy(moments.state_dict()), Moments(ours, betas)
            moments.load_state_dict(state)
        rate = 0.1 / (1 + step)
        for group in reference.param_groups:
            group["lr"] = rate
        set_gradients(ours, step)
        set_gradients(theirs, step)
        moments.step(rate)
        reference.step()
        assert all(map(torch.equal, ours, theirs))


def test_the_moments_of_more_parameters_are_refused() -> None:
    many = parameters()
    set_gradients(many, 7)
    moments = Moments(many)
    moments.step(0.1)
    few = parameters()[:2]
    with pytest.raises(ValueError, match="another model"):
        Moments(few).load_state_dict(moments.state_dict())


def test_no_gradients_no_step() -> None:
    ours = parameters()
    Moments(ours).step(0.1)
    assert all(map(torch.equal, ours, parameters()))
