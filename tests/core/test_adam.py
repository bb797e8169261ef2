"""Moments of gradients, and steps of Adam by them, beside torch's own class."""

import copy

import pytest
import torch
from torch import nn

from skgp.core.numerics.adam import AdamMoments


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
    moments = AdamMoments(ours, betas)
    reference = torch.optim.Adam(theirs, betas=betas, fused=True)
    for step in range(120):
        if step in (2, 60):
            state, moments = copy.deepcopy(moments.state_dict()), AdamMoments(ours, betas)
            moments.load_state_dict(state)
        rate = 0.1 / (1 + step)
        for group in reference.param_groups:
            group["lr"] = rate
        set_gradients(ours, step)
        set_gradients(theirs, step)
        moments.step(rate)
        reference.step()
        assert all(map(torch.equal, ours, theirs))


def test_moments_take_the_dtype_of_the_parameters() -> None:
    """Chunks of a stream may be trained in another one than those before them."""
    one, other = (
        [nn.Parameter(torch.ones(3, dtype=dtype))] for dtype in (torch.float32, torch.float64)
    )
    before, after = AdamMoments(one), AdamMoments(other)
    one[0].grad, other[0].grad = torch.arange(3.0), torch.arange(3.0).double()
    before.step(0.1)
    after.load_state_dict(before.state_dict())
    after.step(0.1)
    assert {name: value.dtype for name, value in after.state_dict()["states"][0].items()} == {
        "step": torch.float32,
        "exp_avg": torch.float64,
        "exp_avg_sq": torch.float64,
    }


def test_a_state_of_torch_goes_on() -> None:
    """As files hold it that were written before there was one of our own."""
    ours, theirs = parameters(), parameters()
    reference = torch.optim.Adam(theirs, fused=True, lr=0.1)
    for step in range(5, 8):
        set_gradients(theirs, step)
        reference.step()
    with torch.no_grad():
        for p, q in zip(ours, theirs, strict=True):
            p.copy_(q)
    moments = AdamMoments(ours)
    moments.load_state_dict(copy.deepcopy({"adam": reference.state_dict(), "steps": 3}))
    set_gradients(ours, 8)
    set_gradients(theirs, 8)
    moments.step(0.1)
    reference.step()
    assert all(map(torch.equal, ours, theirs))


def test_the_moments_of_more_parameters_are_refused() -> None:
    many = parameters()
    set_gradients(many, 7)
    moments = AdamMoments(many)
    moments.step(0.1)
    few = parameters()[:2]
    with pytest.raises(ValueError, match="another model"):
        AdamMoments(few).load_state_dict(moments.state_dict())


def test_no_gradients_no_step() -> None:
    ours = parameters()
    AdamMoments(ours).step(0.1)
    assert all(map(torch.equal, ours, parameters()))
