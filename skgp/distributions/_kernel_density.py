"""Kernel density estimates of samples, as normal mixtures."""

import numpy as np
import numpy.typing as npt

from skgp.distributions._normal_mixture import NormalMixture


def kernel_density(samples: npt.ArrayLike) -> NormalMixture:
    """Normal densities around samples, of a width by Silverman's rule.

    The standard deviation in each of P outputs is that of the samples, times
    (S (P + 2) / 4)^(-1 / (P + 4)).

    Parameters
    ----------
    samples : array-like of shape (n, S), with P outputs (n, P, S)
        Samples of n distributions, in the order of `rvs`.

    Returns
    -------
    NormalMixture
        With S components in each of n rows.

    Raises
    ------
    ValueError
        If the shape does not fit, a sample is not finite, or all samples of an output are equal.

    References
    ----------
    B. W. Silverman, Density Estimation for Statistics and Data Analysis, 1986, Eqn 4.14.

    Examples
    --------
    >>> from skgp.distributions import kernel_density
    >>> dist = kernel_density([[-1.0, 0.0, 1.0]])
    >>> dist.std().round(3).tolist()
    [1.179]
    """
    values = np.asarray(samples, dtype=float)
    if values.ndim not in (2, 3) or values.shape[-1] < 2:
        raise ValueError(
            "samples must have shape (n, S), or (n, P, S) with P outputs, and S at least 2, got "
            f"{values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("samples must be finite")
    mean = np.moveaxis(values, -1, 1)
    n_samples = mean.shape[1]
    n_outputs = mean.shape[2] if mean.ndim == 3 else 1
    width = (0.25 * n_samples * (n_outputs + 2.0)) ** (-1.0 / (n_outputs + 4.0))
    std = width * mean.std(axis=1, keepdims=True, ddof=1)
    # Where samples are equal, rounding of their mean may leave a standard deviation above zero.
    if not ((np.ptp(mean, axis=1, keepdims=True) > 0.0) & (std > 0.0)).all():
        raise ValueError("the samples of an output of a row must not all be equal")
    return NormalMixture(np.zeros(n_samples), mean, std)
