"""Element-wise functions: both forms of each, and what becomes of a compiler that fails."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from skgp.core.kernels.kernel import set_passes
from skgp.core.kernels.stationary import Stationary
from skgp.core.numerics import elementwise
from skgp.core.numerics.elementwise import (
    EAGER,
    FUSED,
    Function,
    Passes,
    diagonal_moments,
    diagonal_slopes,
    full_moments,
    full_slopes,
    matern52,
    rbf,
)
from skgp.exceptions import CompilationWarning


def arguments(function: Function, n_gps: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    block = normal(n_gps, 7, 11)
    if function.__name__ not in {
        "diagonal_moments",
        "diagonal_slopes",
        "full_moments",
        "full_slopes",
    }:
        return ((9.0 * block.square() - 0.1) * (-1.0 if function is rbf else 1.0),)
    if function is full_slopes:
        rows = normal(n_gps, 11), normal(n_gps, 11)
        return block, normal(n_gps, 7), *rows, normal(n_gps, 7, 11)
    matrices = (block, normal(n_gps, 7, 11)) if "full" in function.__name__ else (block,)
    vectors = (normal(n_gps, 7),) if "full" in function.__name__ else (normal(n_gps, 7),) * 2
    if "slopes" in function.__name__:
        return (*matrices, *vectors, *(normal(n_gps, 11) for _ in range(3)))
    return (*matrices, *vectors)


def assert_close_forms(form: Callable[..., Any], function: Function, dtype: torch.dtype) -> None:
    for n_gps in (1, 3):
        # Kernels overwrite what they get.
        actual = form(*(t.clone() for t in arguments(function, n_gps, dtype)))
        desired = function(*(t.clone() for t in arguments(function, n_gps, dtype)))
        for a, b in zip(actual, desired, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("function", FUSED)
def test_fused_forms_are_the_same_functions(function: Function) -> None:
    assert_close_forms(FUSED[function], function, torch.float64)


@pytest.mark.slow  # half a minute of a compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled_functions_are_the_same(dtype: torch.dtype) -> None:
    passes = Passes(compiled=True)
    for function in FUSED:
        assert_close_forms(lambda *ts, f=function: passes(f, *ts), function, dtype)
    assert passes.compiled


def moments(A: Tensor, mu: Tensor, S: Tensor) -> tuple[Tensor, ...]:
    """Naive ones, with S (W, M, M)."""
    mean, explained = torch.einsum("wm,wmn->wn", mu, A), torch.einsum("wmn,wmn->wn", A, A)
    return mean, explained, torch.einsum("wmn,wmk,wkn->wn", A, S, A)


def test_moments_and_slopes() -> None:
    """Against naive sums, and gradients that autograd makes of them."""
    A, mu, s, *grads = arguments(diagonal_slopes, 2, torch.float64)
    s = s.square()
    root = torch.randn(2, 7, 7, dtype=A.dtype)
    S = root @ root.mT
    leaves = [t.clone().requires_grad_() for t in (A, mu, s)]
    for found, results, slopes in (
        (
            diagonal_moments(A, mu, s),
            moments(leaves[0], leaves[1], leaves[2].diag_embed()),
            diagonal_slopes(A, mu, s, *grads),
        ),
        (
            full_moments(A, root.mT @ A, mu),
            moments(leaves[0], leaves[1], S),
            full_slopes(A, mu, *grads[:2], 2.0 * S @ A * grads[2].unsqueeze(-2)),
        ),
    ):
        desired = torch.autograd.grad(results, leaves[: len(slopes)], grads)
        for a, b in zip((*found, *slopes), (*results, *desired), strict=True):
            torch.testing.assert_close(a, b)


def test_a_compiler_that_fails_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(function: Function, **options: Any) -> Function:
        def compiled(*tensors: Tensor) -> tuple[Tensor, ...]:
            raise RuntimeError("no C++ compiler")

        return compiled

    monkeypatch.setattr(elementwise.torch, "compile", failing)
    passes, (t,) = Passes(compiled=True), arguments(matern52, 1, torch.float64)
    with pytest.warns(CompilationWarning, match=r"RuntimeError.*compile=False"):
        k, h = passes(matern52, t.clone())
    assert not passes.compiled
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = passes(matern52, t.clone())
    for results in (k, h), again:
        for a, b in zip(results, matern52(t.clone()), strict=True):
            assert torch.equal(a, b)


def test_an_error_of_the_function_itself_is_raised() -> None:
    with pytest.raises(TypeError):
        Passes(compiled=False)(matern52)


def test_copies_of_a_kernel_are_eager() -> None:
    kernel = Stationary("matern52", 2, 3, 1.0)
    assert kernel.passes is EAGER
    set_passes(torch.nn.Sequential(kernel), Passes(compiled=True))
    assert kernel.passes.compiled
    for twin in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert twin.passes is EAGER
    twin = pickle.loads(pickle.dumps(kernel.passes))
    assert twin.compiled
    assert repr(twin) == "Passes(compiled=True)"
