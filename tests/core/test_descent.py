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


def test_refine_lets_other_errors_pass() -> None:
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)

    def loss() -> torch.Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        refine(loss, [x], 1)
