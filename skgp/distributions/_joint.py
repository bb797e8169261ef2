"""Joint (several-output) normal components: factors, log densities, covariances."""

import math

import numpy as np

from skgp._typing import BoolArray, FloatArray
from skgp.distributions._chunks import blocks
from skgp.distributions._density import log_terms, logsumexp


def row_norms(scale_tril: FloatArray) -> FloatArray:
    """Derive the standard deviations from a Cholesky factor of the covariance."""
    unit = np.frexp(np.abs(scale_tril).max(axis=-1))[1]  # against squares out of range
    scaled = np.ldexp(scale_tril, -unit[..., None])
    return np.asarray(np.ldexp(np.sqrt(np.sum(scaled * scaled, axis=-1)), unit))


def lower_factor(root: FloatArray) -> FloatArray:
    """Lower Cholesky factor of root @ root.T, without forming it; `root` of shape (..., P, K >= P).

    The transposed QR decomposition of the root, with signs that make the diagonal positive.
    """
    r = np.linalg.qr(np.swapaxes(root, -1, -2), mode="r")
    sign = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)
    return np.asarray(np.tril(np.swapaxes(sign[..., None] * r, -1, -2)))


def observed_factor(scale_tril: FloatArray, observed: BoolArray) -> FloatArray:
    """Cholesky factor with the unobserved outputs replaced by independent standard normals.

    `scale_tril` (n, S, P, P), `observed` (n, P). The covariance of the observed outputs stays, so
    an unobserved output with residual 0 contributes only its constant log(2 pi) / 2.
    """
    keep = observed[:, None, :, None]
    dummy = np.broadcast_to(np.where(keep, 0.0, np.eye(observed.shape[1])), scale_tril.shape)
    return lower_factor(np.concatenate([np.where(keep, scale_tril, 0.0), dummy], axis=-1))


def component_logpdf(Y: FloatArray, mean: FloatArray, scale_tril: FloatArray) -> FloatArray:
    """Log density (n, S) of each component at `Y` (n, P), NaN entries marginalised exactly."""
    observed = ~np.isnan(Y)
    residual = np.where(observed[:, None, :], Y[:, None, :] - mean, 0.0)
    partial = ~observed.all(axis=1)
    if partial.any():
        scale_tril = scale_tril.copy()
        scale_tril[partial] = observed_factor(scale_tril[partial], observed[partial])
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.linalg.solve(scale_tril, residual[..., None])[..., 0]
        distance = np.sum(z * z, axis=-1)
    # An infinite entry has density 0 whatever the others are.
    infinite = np.any(np.isinf(Y), axis=1, keepdims=True)
    distance = np.where(infinite, np.inf, distance)
    log_det = np.sum(np.log(np.diagonal(scale_tril, axis1=-2, axis2=-1)), axis=-1)
    constant = 0.5 * math.log(2.0 * math.pi) * observed.sum(axis=1)
    return np.asarray(-0.5 * distance - log_det - constant[:, None])


def logpdf(
    Y: FloatArray,
    log_w: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    scale_tril: FloatArray | None,
) -> FloatArray:
    """Log density (n,) of the rows of `Y` (n, P); 0 for a row without an observed output."""
    if scale_tril is None:
        terms = log_terms(Y[:, None], np.zeros(1), mean, std)
        joint = np.sum(np.where(np.isnan(terms), 0.0, terms), axis=2)
    else:
        joint = component_logpdf(Y, mean, scale_tril)
    return np.where(np.isnan(Y).all(axis=1), 0.0, logsumexp(log_w + joint))


def transform_noise(
    noise: FloatArray,
    uniform: FloatArray,
    log_w: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    scale_tril: FloatArray | None,
) -> None:
    """Turn standard normal `noise` (n, P, draws) into samples, in place.

    `uniform` (n, draws) chooses the component of a draw, which is shared by the outputs.
    """
    cumulative = np.cumsum(np.exp(log_w), axis=1)
    cumulative /= cumulative[:, -1:]
    row = np.arange(mean.shape[0])[:, None]
    for draws in blocks(uniform.shape[1], mean.size * mean.shape[2]):
        chosen = np.sum(cumulative[:, None, :-1] <= uniform[:, draws, None], axis=2)
        z = np.swapaxes(noise[..., draws], 1, 2)
        if scale_tril is None:
            scaled = std[row, chosen] * z
        else:
            scaled = np.matmul(scale_tril[row, chosen], z[..., None])[..., 0]
        noise[..., draws] = np.swapaxes(mean[row, chosen] + scaled, 1, 2)


def mixture_cov(
    weights: FloatArray, mean: FloatArray, std: FloatArray, scale_tril: FloatArray | None
) -> FloatArray:
    """Covariance (n, P, P) by the law of total covariance.

    Cov[Y] = sum_s w_s (L_s L_s^T + (mean_s - mean) (mean_s - mean)^T).
    """
    n_rows, _, n_outputs = mean.shape
    root = np.sqrt(weights)[..., None]
    centre = np.sum(weights[..., None] * mean, axis=1, keepdims=True)
    spread = root * (mean - centre)
    cov = np.swapaxes(spread, 1, 2) @ spread
    if scale_tril is None:
        diagonal = np.arange(n_outputs)
        cov[:, diagonal, diagonal] += np.sum(weights[..., None] * std * std, axis=1)
    else:
        factor = np.moveaxis(root[..., None] * scale_tril, 1, 2).reshape(n_rows, n_outputs, -1)
        cov += factor @ np.swapaxes(factor, 1, 2)
    return np.asarray(cov)
