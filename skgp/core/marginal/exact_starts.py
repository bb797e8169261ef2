"""Starts of one GP from exact GPs of few rows."""

import math
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Final, NamedTuple, cast

import torch
from torch import Tensor

from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.sparse import SparseLayer
from skgp.core.marginal.collapsed import collapsed_bound
from skgp.core.marginal.exact import exact_log_marginal
from skgp.core.marginal.left_out import left_out_log_densities
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.numerics.descent import refine
from skgp.core.numerics.linalg import inverse_cholesky
from skgp.core.numerics.weak_prior import log_weak_prior
from skgp.exceptions import NotPositiveDefiniteError

LEAST_NOISE: Final = 1e-6  # variance, relative to that of the targets
_FEW_REFINEMENTS: Final = 20  # after which it is plain which inputs matter
_ROUGH_REFINEMENTS: Final = 30  # after which it is plain whether a function is rough
_REFINEMENTS: Final = 100  # towards an optimum
_MORE_REFINEMENTS: Final = 15  # from an optimum of half of the rows
_SHORT: Final = 0.3  # lengthscales of a second start, relative to the usual ones
_SHORT_NOISE: Final = 0.01  # noise variance that goes with them
_DECISIVE: Final = 5.0  # nats by which an exact GP from there has to be ahead
_CERTAIN: Final = 5.0  # standard errors by which its predictions of left-out rows have to be
_TRIAL_ITERATIONS: Final = 10  # after which two starts of a sparse GP are compared
_CLEAR_LEAD: Final = 0.1  # of the one that is not the usual one, in nats per row


class _Trial(NamedTuple):
    """An exact GP after a few iterations."""

    layer: SparseLayer
    noise_var: Tensor
    log_posterior: float


def start_from_trial(layer: SparseLayer, rows: ObservedRows, noise_var: Tensor) -> Tensor:
    """Move the kernel of one GP of all inputs to where the better of two exact GPs has it.

    These are of the rows, which may be a subsample, and start from the usual values and from short
    lengthscales. Training from there takes fewer iterations, and does not take a rough function for
    noise.

    Parameters
    ----------
    layer : SparseLayer
        Its kernel parameters are changed in place.
    rows : ObservedRows
    noise_var : Tensor of shape (1,)
        Initial value of the noise variance.

    Returns
    -------
    Tensor of shape (1,)
        Noise variance that goes with the kernel.
    """
    if not _has_lengthscales(layer):
        return noise_var
    found, _ = _better_trial(layer, rows, noise_var, _ROUGH_REFINEMENTS)
    layer.kernel.load_state_dict(found.layer.kernel.state_dict())
    return found.noise_var + LEAST_NOISE


def is_rough(layer: SparseLayer, rows: ObservedRows, noise_var: Tensor) -> bool:
    """Whether one GP of all inputs should start from short lengthscales.

    From its usual values a GP may take a function that is rough for noise. Two exact GPs of the
    rows tell, after a few iterations from either. The rows may be a subsample.

    Parameters
    ----------
    layer : SparseLayer
        At its usual values, where it stays.
    rows : ObservedRows
    noise_var : Tensor of shape (1,)
        Initial value of the noise variance.
    """
    if not _has_lengthscales(layer):
        return False
    _, is_short = _better_trial(layer, rows, noise_var, _ROUGH_REFINEMENTS)
    return is_short


@torch.no_grad()
def shorten(layer: SparseLayer, log_noise: Tensor) -> None:
    """Move lengthscales and log noise (W,) to those of a second start."""
    cast(Stationary, layer.kernel).log_lengthscale.add_(math.log(_SHORT))
    log_noise.fill_(math.log(_SHORT_NOISE))


def start_from_few(layer: SparseLayer, rows: ObservedRows, noise_var: Tensor) -> Tensor:
    """Move the kernel of one GP to where an exact GP of few rows has it, if that is a better start.

    From its usual values a sparse GP of many inputs may lose the signal on the way to an optimum of
    its bound; an exact GP of a random subset finds it, from these values or from shorter
    lengthscales. But a kernel that takes more inducing inputs than there are is no good start: it
    has to be well ahead of the usual values after a few iterations of both.

    Parameters
    ----------
    layer : SparseLayer
        Its kernel parameters are changed in place.
    rows : ObservedRows
    noise_var : Tensor of shape (1,)
        Initial value of the noise variance.

    Returns
    -------
    Tensor of shape (1,)
        Noise variance that goes with the kernel.
    """
    found, _ = _better_trial(layer, rows, noise_var, _FEW_REFINEMENTS)
    with suppress(NotPositiveDefiniteError):
        found_var = found.noise_var + _unexplained(found.layer, rows)
        lead = _bound_after_trial(found.layer, rows, found_var)
        lead = lead - _bound_after_trial(layer, rows, noise_var)
        if lead > _CLEAR_LEAD:
            layer.kernel.load_state_dict(found.layer.kernel.state_dict())
            return found_var
    return noise_var


def start_at_optimum(
    layer: SparseLayer, rows: ObservedRows, noise_var: Tensor, *, is_short: bool
) -> Tensor:
    """Move the kernel of one GP to an optimum of the log marginal likelihood and weak priors.

    The priors are around the layer's values.

    Parameters
    ----------
    layer : SparseLayer
        Its kernel parameters are changed in place.
    rows : ObservedRows
        Distinct ones.
    noise_var : Tensor of shape (1,)
        Initial value of the noise variance.
    is_short : bool
        Whether the search starts from short lengthscales, as a rough function needs, and not from
        the layer's values.

    Returns
    -------
    Tensor of shape (1,)
        Noise variance that goes with the kernel.
    """
    found = _trial(layer, rows, noise_var, _REFINEMENTS, is_short=is_short)
    layer.kernel.load_state_dict(found.layer.kernel.state_dict())
    return found.noise_var + LEAST_NOISE


def go_on(layer: SparseLayer, rows: ObservedRows, noise_var: Tensor) -> Tensor:
    """Move one GP's kernel from an optimum of few rows towards that of more.

    That is an optimum of their log marginal likelihood, with weak priors around the first one. From
    there it takes few iterations.

    Parameters
    ----------
    layer : SparseLayer
        Its kernel parameters are changed in place.
    rows : ObservedRows
    noise_var : Tensor of shape (1,)
        Noise variance that goes with the kernel as it is, at least `LEAST_NOISE`.

    Returns
    -------
    Tensor of shape (1,)
        Noise variance that goes with the kernel.
    """
    log_noise = (noise_var - LEAST_NOISE).clamp(min=LEAST_NOISE * 1e-3).log().requires_grad_()
    parameters = [*free(layer), log_noise]
    first = [parameter.detach().clone() for parameter in parameters]
    refine_exactly(layer, ObservedRows(*merged(*rows[:3])), parameters, first, _MORE_REFINEMENTS)
    return log_noise.detach().exp() + LEAST_NOISE


def refine_exactly(
    layer: SparseLayer,
    rows: ObservedRows,
    parameters: Sequence[Tensor],
    centres: Sequence[Tensor],
    n_iterations: int,
) -> float:
    """Move a GP's parameters, and its log noise, the last, towards the optimum of an exact GP.

    That is an optimum of log marginal likelihood and weak priors around the centres.

    Returns
    -------
    float
        Their sum where it is highest.
    """
    n_counted = rows.weight.sum()

    def loss() -> Tensor:
        noise = parameters[-1].exp() + LEAST_NOISE
        log_marginal = exact_log_marginal(layer, rows, noise).sum() + layer.kernel.log_prior()
        prior = log_weak_prior(torch.cat(moves(parameters, centres)))
        return -(log_marginal + prior) / n_counted

    return -refine(loss, parameters, n_iterations) * float(n_counted)


def free(layer: SparseLayer) -> list[Tensor]:
    """The parameters of its kernel that are not fixed."""
    return [parameter for parameter in layer.kernel.parameters() if parameter.requires_grad]


def moves(parameters: Sequence[Tensor], start: Sequence[Tensor]) -> list[Tensor]:
    """How far each parameter has come."""
    return [(p - q).flatten() for p, q in zip(parameters, start, strict=True)]


def merged(x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct pairs of x (n, D) and y (W, n) in sorted order, with the sums of their weights.

    Weights are (n,) or (W, n).
    """
    pairs, row = torch.unique(torch.cat([x, y.mT], -1), dim=0, return_inverse=True)
    sums = weight.new_zeros(*weight.shape[:-1], len(pairs)).index_add_(-1, row, weight)
    return pairs[:, : x.shape[1]], pairs[:, x.shape[1] :].mT, sums


def _better_trial(
    layer: SparseLayer, rows: ObservedRows, noise_var: Tensor, n_iterations: int
) -> tuple[_Trial, bool]:
    """An exact GP from the usual values, or from shorter lengthscales if that is far ahead.

    The flag says whether it is. Weak priors are around the usual values in both.
    """
    x, y, weight = merged(*rows[:3])
    is_seen = weight > 0.0
    rows = ObservedRows(x[is_seen], y[:, is_seen], weight[is_seen])
    usual = _trial(layer, rows, noise_var, n_iterations, is_short=False)
    if _has_lengthscales(layer):
        short = _trial(layer, rows, noise_var, n_iterations, is_short=True)
        if _is_far_ahead(short, usual, rows):
            return short, True
    return usual, False


def _is_far_ahead(trial: _Trial, other: _Trial, rows: ObservedRows) -> bool:
    """Whether one exact GP has a far better posterior, and surely predicts left-out rows better.

    The likelihood alone may take heteroscedastic noise for a rough function. But then few of the
    left-out rows are predicted better, and the standard error is large.
    """
    if not trial.log_posterior > other.log_posterior + _DECISIVE:
        return False
    try:
        of_trial, of_other = (
            left_out_log_densities(each.layer, rows, each.noise_var + LEAST_NOISE)
            for each in (trial, other)
        )
    except NotPositiveDefiniteError:
        return False
    leads, weight = of_trial - of_other, rows.weight
    lead = weight @ leads
    error = (weight * (leads - lead / weight.sum())).norm()
    return bool(lead > _CERTAIN * error)


def _trial(
    layer: SparseLayer, rows: ObservedRows, noise_var: Tensor, n_iterations: int, *, is_short: bool
) -> _Trial:
    """An exact GP from the layer's values, or from shorter lengthscales.

    A prior that pulls lengthscales together is left out of the search from short ones, and added
    to its result: with it, no search finds a kernel in which only a few inputs matter.
    """
    layer, log_noise = deepcopy(layer), noise_var.log().requires_grad_()
    parameters = [*free(layer), log_noise]
    usual = [parameter.detach().clone() for parameter in parameters]
    kernel = cast(Stationary, layer.kernel)
    pulled = is_short and kernel.pulled
    if is_short:
        shorten(layer, log_noise)
    if pulled:
        kernel.pulled = False
    log_posterior = refine_exactly(layer, rows, parameters, usual, n_iterations)
    if pulled:
        kernel.pulled = True
        log_posterior += float(torch.as_tensor(kernel.log_prior()).detach())
    return _Trial(layer, log_noise.detach().exp(), log_posterior)


def _has_lengthscales(layer: SparseLayer) -> bool:
    """Whether there are lengthscales to learn, as a kernel of the user may not have."""
    kernel = layer.kernel
    return isinstance(kernel, Stationary) and kernel.log_lengthscale.requires_grad


def _bound_after_trial(layer: SparseLayer, rows: ObservedRows, noise_var: Tensor) -> Tensor:
    """The bound (1,) after a few iterations, in nats per row; the layer stays."""
    layer, log_noise = deepcopy(layer), noise_var.log().requires_grad_()

    def bound() -> Tensor:
        noise = log_noise.exp() + LEAST_NOISE
        given = rows.x, rows.y, rows.weight, noise, layer.jitter
        return collapsed_bound(layer.kernel, layer.Z.detach(), *given) / rows.weight.sum()

    refine(lambda: -bound().sum(), [*free(layer), log_noise], _TRIAL_ITERATIONS)
    return bound().detach()


@torch.no_grad()
def _unexplained(layer: SparseLayer, rows: ObservedRows) -> Tensor:
    """Mean prior variance (1,) at the rows that the inducing variables do not explain.

    The least noise variance is added to it.
    """
    L_inv = inverse_cholesky(layer.kernel.Kuu(layer.Z), layer.jitter)
    explained = (L_inv @ layer.kernel.Kuf(layer.Z, rows.x)).square().sum(-2) @ rows.weight
    share = (1.0 - explained / rows.weight.sum()).clamp(min=0.0)
    return layer.kernel.variance * share + LEAST_NOISE
