"""Principal axes against NumPy, and their signs."""

import numpy as np
import pytest
import torch

from skgp.core.numerics.principal import principal_axes


def test_they_are_eigenvectors_with_the_leading_first() -> None:
    root = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 5)))
    scatter = root @ root.mT
    values, axes = principal_axes(scatter)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(scatter.numpy())[::-1], rtol=1e-12)
    np.testing.assert_allclose(scatter @ axes, axes * values, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(axes.mT @ axes, np.eye(5), atol=1e-12)


@pytest.mark.parametrize("r", [0.3, -0.3])
def test_rounding_does_not_decide_about_signs(r: float) -> None:
    """Of two standardised columns LAPACK returns either sign."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(50):
        scatter = torch.tensor([[1.0, r], [r, 1.0]], dtype=torch.float64)
        scatter += torch.diag(torch.from_numpy(1e-15 * rng.standard_normal(2)))
        found.append(principal_axes(scatter)[1])
    along, across = [0.5**0.5, 0.5**0.5], [0.5**0.5, -(0.5**0.5)]
    expected = np.column_stack([along, across] if r > 0.0 else [across, along])
    np.testing.assert_allclose(torch.stack(found), [expected] * 50, atol=1e-12)


def test_the_first_large_entry_is_positive() -> None:
    axis = torch.tensor([0.1, -0.7, 0.7], dtype=torch.float64)
    axis /= axis.norm()
    _, axes = principal_axes(torch.outer(axis, axis))
    np.testing.assert_allclose(axes[:, 0], -axis, atol=1e-12)
