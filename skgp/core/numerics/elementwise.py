"""Element-wise passes over blocks of M x N numbers: pure functions, eager or compiled.

A step is made of products of matrices and of these. Eager functions are written for few passes and
few new blocks. Where a compiler turns a function into one pass there is a second form of it, with
sums in the place of narrow products.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from skgp.exceptions import CompilationWarning

Function = Callable[..., tuple[Tensor, ...]]


@dataclass(eq=False)
class Passes:
    """Calls element-wise functions: as they are, or compiled until the compiler fails.

    Attributes
    ----------
    compiled : bool
    """

    compiled: bool = False
    _functions: dict[Function, Function] = field(init=False, repr=False, default_factory=dict)

    def __call__(self, function: Function, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The results of one of the functions of this module.

        Warns
        -----
        CompilationWarning
            If the compiler fails, once: from then on all functions are eager.
        """
        if not self.compiled:
            return function(*tensors)
        try:
            if function not in self._functions:
                self._functions[function] = torch.compile(FUSED[function], dynamic=True)
            # The compiler looks at gradients, of which inner tensors of a graph warn.
            return self._functions[function](*(tensor.detach() for tensor in tensors))
        except Exception as error:  # of any of the many parts of a compiler
            results = function(*tensors)  # first, for the error may be the function's own
            self.compiled = False
            warnings.warn(
                f"torch.compile failed ({type(error).__name__}), and training goes on without: "
                "install a C++ compiler, or set compile=False",
                CompilationWarning,
                stacklevel=2,
            )
            return results

    def __getstate__(self) -> dict[str, Any]:
        return {"compiled": self.compiled, "_functions": {}}  # compiled ones belong to a process


EAGER: Final = Passes()


# --------------------------------- kernels of scaled squared distances t, which are overwritten


def _decay(distance: Tensor, sign: float) -> Tensor:
    """exp(sign * distance), with zero for the lowest numbers, in a new block."""
    # A step multiplies three correlations with each other and with a slope. In float32 the product
    # is denormal from exp(-25) on, and arithmetic with denormal numbers is slow. On many processors
    # torch has a faster exp2 than exp.
    zero = math.log2(torch.finfo(distance.dtype).tiny) / 3.5
    power = distance * (sign * math.log2(math.e))
    return torch.threshold_(power, zero, -math.inf).exp2_()


def rbf(t: Tensor) -> tuple[Tensor, Tensor]:
    """k = exp(-r^2 / 2) and h = k with dk/dr2 = -h / 2, from t = -r^2 / 2."""
    k = _decay(t.clamp_(max=0.0), 1.0)
    return k, k


def matern12(t: Tensor) -> tuple[Tensor, Tensor]:
    """k = exp(-r) and h = k / r with dk/dr2 = -h / 2, from t = r^2.

    The slope has a pole where points coincide: a floor on r keeps it finite.
    """
    r = t.clamp_(min=0.0).sqrt_()
    k = _decay(r, -1.0)
    floor = math.sqrt(torch.finfo(r.dtype).eps)
    return k, torch.div(k, r.clamp_(min=floor), out=r)


def matern32(t: Tensor) -> tuple[Tensor, Tensor]:
    """k = (1 + s) exp(-s) and h = exp(-s) with dk/dr2 = -3/2 h, from t = s^2 = 3 r^2."""
    s = t.clamp_(min=0.0).sqrt_()
    e = _decay(s, -1.0)
    return torch.addcmul(e, s, e, out=s), e


def matern52(t: Tensor) -> tuple[Tensor, Tensor]:
    """k = (1 + s + s^2 / 3) exp(-s), h = (1 + s) exp(-s), dk/dr2 = -5/6 h, from t = s^2 = 5 r^2."""
    s = t.clamp_(min=0.0).sqrt()
    e = _decay(s, -1.0)
    h = torch.addcmul(e, s, e, out=s)
    return torch.addcmul(h, t, e, value=1.0 / 3.0, out=t), h


# ------------------------------------------- columns of A (W, M, N), with mu (W, M) and s (W, M)


def diagonal_moments(A: Tensor, mu: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """mu^T a, |a|^2 and a^T diag(s) a of each column a, (W, N)."""
    rows = torch.stack([torch.ones_like(s), s], -2) @ A.square()  # (W, 2, N)
    return (mu.unsqueeze(-2) @ A).squeeze(-2), rows[:, 0], rows[:, 1]


def _fused_diagonal_moments(A: Tensor, mu: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    square, mu, s = A.square(), mu.unsqueeze(-1), s.unsqueeze(-1)
    return (mu * A).sum(-2), square.sum(-2), (s * square).sum(-2)


def diagonal_slopes(
    A: Tensor, mu: Tensor, s: Tensor, d_mean: Tensor, d_explained: Tensor, d_q: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `diagonal_moments`, from those in its results.

    dA = mu d_mean^T + 2 A (d_explained + s d_q), d_mu = A d_mean, ds = (A * A) d_q.
    """
    square = A.square()
    ds = (square @ d_q.unsqueeze(-1)).squeeze(-1)
    d_mu = (A @ d_mean.unsqueeze(-1)).squeeze(-1)
    twice, d_q = 2.0 * s.unsqueeze(-1), d_q.unsqueeze(-2)
    slope = torch.addcmul(2.0 * d_explained.unsqueeze(-2), twice, d_q, out=square)
    return slope.mul_(A).addcmul_(mu.unsqueeze(-1), d_mean.unsqueeze(-2)), d_mu, ds


def _fused_diagonal_slopes(
    A: Tensor, mu: Tensor, s: Tensor, d_mean: Tensor, d_explained: Tensor, d_q: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    mu, s = mu.unsqueeze(-1), s.unsqueeze(-1)
    d_mean, d_explained, d_q = (d.unsqueeze(-2) for d in (d_mean, d_explained, d_q))
    dA = mu * d_mean + 2.0 * A * (d_explained + s * d_q)
    return dA, (A * d_mean).sum(-1), (A * A * d_q).sum(-1)


def full_moments(A: Tensor, V: Tensor, mu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """mu^T a, |a|^2 and |v|^2 of each column a, (W, N), with its product v with a root of S."""
    squares = A.square()
    explained = squares.sum(-2)
    q = torch.mul(V, V, out=squares).sum(-2)
    return (mu.unsqueeze(-2) @ A).squeeze(-2), explained, q


def _fused_full_moments(A: Tensor, V: Tensor, mu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (mu.unsqueeze(-1) * A).sum(-2), A.square().sum(-2), V.square().sum(-2)


def full_slopes(
    A: Tensor, mu: Tensor, d_mean: Tensor, d_explained: Tensor, by_q: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of `full_moments`, of which `by_q` (W, M, N) is that in A by way of V.

    It is overwritten: dA = mu d_mean^T + 2 A d_explained + by_q, d_mu = A d_mean.
    """
    dA = by_q.addcmul_(A, (2.0 * d_explained).unsqueeze(-2))
    dA.addcmul_(mu.unsqueeze(-1), d_mean.unsqueeze(-2))
    return dA, (A @ d_mean.unsqueeze(-1)).squeeze(-1)


def _fused_full_slopes(
    A: Tensor, mu: Tensor, d_mean: Tensor, d_explained: Tensor, by_q: Tensor
) -> tuple[Tensor, Tensor]:
    d_mean, d_explained = d_mean.unsqueeze(-2), d_explained.unsqueeze(-2)
    return mu.unsqueeze(-1) * d_mean + 2.0 * A * d_explained + by_q, (A * d_mean).sum(-1)


FUSED: Final[dict[Function, Function]] = {
    rbf: rbf,
    matern12: matern12,
    matern32: matern32,
    matern52: matern52,
    diagonal_moments: _fused_diagonal_moments,
    diagonal_slopes: _fused_diagonal_slopes,
    full_moments: _fused_full_moments,
    full_slopes: _fused_full_slopes,
}
