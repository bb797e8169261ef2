"""Components of a normal mixture: their checks, joining and conversion to torch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skgp._typing import FloatArray
from skgp.distributions._density import logsumexp
from skgp.distributions._joint import row_norms

if TYPE_CHECKING:
    import torch


class Components(NamedTuple):
    """Components of a `NormalMixture`; S components of n rows, with P outputs if there are several.

    Attributes
    ----------
    weights : ndarray of shape (n, S)
        Probabilities; each row sums to one.
    mean, std : ndarrays of shape (n, S) or (n, S, P)
        Moments, in the units of the target.
    scale_tril : ndarray of shape (n, S, P, P) or None
        Lower Cholesky factors of the covariances over outputs; None if these are diagonal.
    """

    weights: FloatArray
    mean: FloatArray
    std: FloatArray
    scale_tril: FloatArray | None


def check_log_weights(log_weights: npt.ArrayLike, n_rows: int, n_components: int) -> FloatArray:
    """Normalised log weights, shape (1, S) if the rows share them, else (n, S)."""
    log_w = np.array(log_weights, dtype=np.float64)
    if log_w.shape == (n_components,):
        log_w = log_w[None]
    elif log_w.shape != (n_rows, n_components):
        raise ValueError(
            f"log_weights must have shape ({n_components},) or ({n_rows}, {n_components}) to fit "
            f"mean, got {log_w.shape}"
        )
    if np.isnan(log_w).any() or np.isposinf(log_w).any():
        raise ValueError("log_weights must be finite or -inf")
    total = logsumexp(log_w)
    if np.isneginf(total).any():
        raise ValueError("log_weights must not be -inf for every component of a row")
    return np.asarray(log_w - total[:, None])


def check_mean(mean: npt.ArrayLike) -> FloatArray:
    """Copy of the means, shape (n, S) or (n, S, P)."""
    values = np.array(mean, dtype=np.float64, order="C")  # sums round alike whatever came in
    if values.ndim not in (2, 3) or 0 in values.shape[1:]:
        raise ValueError(
            "mean must have shape (n, S), or (n, S, P) with P outputs, with at least one component "
            f"and one output; got {values.shape}. NormalMixture.normal takes means without "
            "components"
        )
    if not np.isfinite(values).all():
        raise ValueError("mean must be finite")
    return values


def check_std(std: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Copy of the standard deviations, of the shape of the means; axes of length 1 are repeated."""
    values = np.array(std, dtype=np.float64, order="C")
    fits = values.ndim == len(shape) and all(
        have in (1, want) for have, want in zip(values.shape, shape, strict=True)
    )
    if values.ndim > 0 and not fits:
        raise ValueError(f"std must be a scalar or fit the shape {shape} of mean, got "
                         f"{values.shape}")  # fmt: skip
    if not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError("std must be positive and finite")
    return np.broadcast_to(values, shape)


def check_scale_tril(scale_tril: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Copy of the Cholesky factors, shape (n, S, P, P), for means of shape (n, S, P)."""
    if len(shape) != 3:
        raise ValueError("scale_tril needs several outputs: mean of shape (n, S, P)")
    values = np.array(scale_tril, dtype=np.float64, order="C")
    if values.shape != (*shape, shape[-1]):
        raise ValueError(
            f"scale_tril must have shape {(*shape, shape[-1])} to fit mean, got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("scale_tril must be finite")
    if np.triu(values, 1).any() or not (np.diagonal(values, axis1=-2, axis2=-1) > 0.0).all():
        raise ValueError("scale_tril must be lower triangular with a positive diagonal")
    return values


def check_std_and_factor(
    std: npt.ArrayLike | None, scale_tril: npt.ArrayLike | None, shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray | None]:
    """Check that standard deviations and factors agree; the former may follow from the latter."""
    if scale_tril is None:
        if std is None:
            raise ValueError("std must be given unless scale_tril is")
        return check_std(std, shape), None
    factor = check_scale_tril(scale_tril, shape)
    norms = row_norms(factor)
    if std is not None and not np.allclose(check_std(std, shape), norms, rtol=1e-6, atol=0.0):
        raise ValueError("std must equal the norms of the rows of scale_tril; pass std=None")
    return norms, factor


def check_parts(
    log_weights: npt.ArrayLike,
    mean: npt.ArrayLike,
    std: npt.ArrayLike | None,
    scale_tril: npt.ArrayLike | None,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None, bool]:
    """Log weights, means and deviations (n, S, P), factors; and whether there was no axis P."""
    centre = check_mean(mean)
    spread, factor = check_std_and_factor(std, scale_tril, centre.shape)
    log_w = check_log_weights(log_weights, *centre.shape[:2])
    if centre.ndim == 2:
        return log_w, centre[..., None], spread[..., None], factor, True
    return log_w, centre, spread, factor, False


def check_affine(value: npt.ArrayLike, name: str, n_outputs: int | None) -> FloatArray:
    """Check for a finite scalar or, with several outputs, one finite number per output."""
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.ndim > 0 and (n_outputs is None or numbers.shape != (n_outputs,)):
        allowed = "a scalar" if n_outputs is None else f"a scalar or of shape ({n_outputs},)"
        raise ValueError(f"{name} must be {allowed}, got shape {numbers.shape}")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite")
    if name == "scale" and (numbers == 0.0).any():
        raise ValueError("scale must not be zero")
    return numbers


def join_components(parts: Sequence[Components]) -> Components:
    """Rows of several sets of components; fewer components are padded by some of weight zero."""
    size = max(part.mean.shape[1] for part in parts)

    def pad(array: FloatArray, mode: Any) -> FloatArray:
        widths = [(0, 0), (0, size - array.shape[1])] + [(0, 0)] * (array.ndim - 2)
        return np.pad(array, widths, mode=mode)

    factors: list[FloatArray] = []
    for part in parts:
        if part.scale_tril is not None:
            factors.append(pad(part.scale_tril, "edge"))
        elif any(other.scale_tril is not None for other in parts):
            diagonal = part.std[..., None] * np.eye(part.std.shape[-1])
            factors.append(pad(diagonal, "edge"))
    return Components(
        weights=np.concatenate([pad(part.weights, "constant") for part in parts]),
        mean=np.concatenate([pad(part.mean, "edge") for part in parts]),
        std=np.concatenate([pad(part.std, "edge") for part in parts]),
        scale_tril=np.concatenate(factors) if factors else None,
    )


def torch_distribution(components: Components) -> "torch.distributions.Distribution":
    """Build the torch.distributions object of batch shape (n,) and event shape () or (P,)."""
    import torch
    from torch import distributions as td

    def tensor(array: FloatArray) -> torch.Tensor:
        return torch.from_numpy(array.copy())

    weights, mean, std, scale_tril = components
    if weights.shape[1] == 1:
        mean, std = mean[:, 0], std[:, 0]
        scale_tril = None if scale_tril is None else scale_tril[:, 0]
    part: td.Distribution
    if scale_tril is not None:
        # Checked already; torch's own check fails when there are no rows.
        factor = tensor(scale_tril)
        part = td.MultivariateNormal(tensor(mean), scale_tril=factor, validate_args=False)
    else:
        part = td.Normal(tensor(mean), tensor(std))
        if components.mean.ndim == 3:
            part = td.Independent(part, 1)
    if weights.shape[1] == 1:
        return part
    with np.errstate(divide="ignore"):
        # As probabilities torch would raise them to its smallest one, 2e-16.
        log_w = tensor(np.log(weights))
    return td.MixtureSameFamily(td.Categorical(logits=log_w, validate_args=False), part)


def one_component(
    mean: npt.ArrayLike, std: npt.ArrayLike | None, scale_tril: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
    """The arguments of `NormalMixture.normal` with an axis of one component.

    Raises
    ------
    ValueError
        If `mean` has neither one nor two dimensions.
    """
    centre = np.asarray(mean, dtype=np.float64)
    if centre.ndim not in (1, 2):
        raise ValueError(f"mean must have shape (n,) or (n, P), got {centre.shape}")
    spread = None if std is None else np.asarray(std, dtype=np.float64)
    if spread is not None and spread.ndim > 0:
        spread = spread[:, None]
    factor = None if scale_tril is None else np.asarray(scale_tril, dtype=np.float64)
    if factor is not None and factor.ndim > 0:
        factor = factor[:, None]
    return centre[:, None], spread, factor


def affine(
    mean: FloatArray,
    std: FloatArray,
    scale_tril: FloatArray | None,
    shift: FloatArray,
    factor: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Means, deviations and factors of shift + factor * Y.

    Raises
    ------
    ValueError
        If they leave the range of float64.
    """
    with np.errstate(over="ignore"):
        mean, std = shift + factor * mean, np.abs(factor) * std
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0.0).all()):
        raise ValueError("loc and scale take the distribution out of the range of float64")
    if scale_tril is not None:
        # D L L^T D has the lower factor D L sign(D), whose diagonal is positive again.
        rows = np.broadcast_to(factor, mean.shape[2:])
        scale_tril = rows[:, None] * scale_tril * np.sign(rows)
    return mean, std, scale_tril


def cells(
    log_w: FloatArray, mean: FloatArray, std: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log weights, means and deviations (cells, S) of the outputs of rows.

    Parameters
    ----------
    log_w : array of shape (n, S)
    mean, std : arrays of shape (n, S, P)
    """
    _, n_components, n_outputs = mean.shape
    log_w = np.repeat(log_w, n_outputs, axis=0)
    mean = np.swapaxes(mean, 1, 2).reshape(-1, n_components)
    std = np.swapaxes(std, 1, 2).reshape(-1, n_components)
    excluded = np.isneginf(log_w)
    if excluded.any():
        # A copy of the heaviest component in the place of one that has no weight: whatever
        # depends on the range of the components then ignores it.
        heaviest = np.argmax(log_w, axis=1)[:, None]
        mean = np.where(excluded, np.take_along_axis(mean, heaviest, axis=1), mean)
        std = np.where(excluded, np.take_along_axis(std, heaviest, axis=1), std)
    return log_w, mean, std
