"""Short descents: known minima, and parameters that have no loss."""

import numpy as np
import pytest
import torch

from skgp.core.numerics.descent import refine
from skgp.exceptions import NotPositiveDefiniteError


def rosenbrock(x: torch.Tensor) -> torch.Tensor:
    return (1.0 - x[0]).square() + 100.0 * (x[1] - x[0].square()).square()


def test_refine_finds_a_minimum() -> None:
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    refine(lambda: rosenbrock(x), [x], 100)
    np.testing.assert_allclose(x.detach().numpy(), 1.0, rtol=2e-4)


def test_refine_keeps_the_lowest_loss_before_a_failure() -> None:
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    values: list[float] = []

    def loss() -> torch.Tensor:
        if len(values) == 10:
            raise NotPositiveDefiniteError("no factor")
        value = rosenbrock(x)
        values.append(value.item())
        return value

    refine(loss, [x], 100)
    assert rosenbrock(x).item() == pytest.approx(min(values), rel=1e-2)
    assert min(values) < values[0] - 1.0
    assert len(values) == 10


def test_refine_goes_on_after_parameters_that_have_no_loss() -> None:
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    n_failures = 0

    def loss() -> torch.Tensor:
        nonlocal n_failures
        if x[0] > 0.0 and n_failures < 1:  # as the descent crosses from one side to the other
            n_failures += 1
            raise NotPositiveDefiniteError("no factor")
        return rosenbrock(x)

    refine(loss, [x], 100)
    assert n_failures == 1
    np.testing.assert_allclose(x.detach().numpy(), 1.0, rtol=2e-4)


def test_refine_does_not_try_for_ever() -> None:
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    n_calls = 0

    def loss() -> torch.Tensor:
        nonlocal n_calls
        n_calls += 1
        if x[0] > -1.0:  # where the loss is lower
            raise NotPositiveDefiniteError("no factor")
        return rosenbrock(x)

    refine(loss, [x], 20)
    assert x[0] < -1.0
    assert n_calls < 60


def test_refine_lets_other_errors_pass() -> None:
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)

    def loss() -> torch.Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        refine(loss, [x], 1)
