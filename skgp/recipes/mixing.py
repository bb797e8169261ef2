"""The mixing matrix with which several outputs start."""

from typing import Final

import torch
from torch import Tensor

from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.setup import Setup
from skgp.recipes.rough_gps import bound_of_functions

_LEAST_VAR: Final = 1e-6  # of a direction, targets being scaled


def principal_mixing(Y: Tensor, weight: Tensor, n_latents: int) -> Tensor:
    """Matrix (P, W) of the leading principal directions, scaled by their standard deviations.

    Latent functions of unit variance then reproduce the covariance of outputs (n, P), whose rows
    have weights (n,).
    """
    eigenvalues, directions = torch.linalg.eigh((Y.mT * weight) @ Y / weight.sum())
    std = eigenvalues[-n_latents:].clamp_min(_LEAST_VAR).sqrt()
    return (directions[:, -n_latents:] * std).flip(1)


def likely_mixing(setup: Setup, Y: Tensor, n_latents: int) -> Tensor:
    """Principal directions, or the identity if GPs of the outputs themselves explain more.

    Directions of outputs that have little in common are arbitrary, and functions along them depend
    on the inputs as no output does. Training turns them back too slowly. So the two are compared by
    the densities of the outputs under rough GPs, where that of y = M f is the one of f over det M.
    """
    principal = principal_mixing(Y, setup.observed_weight, n_latents)
    if n_latents < Y.shape[1]:
        return principal
    latent = torch.linalg.solve(principal, Y.mT)
    try:
        of_outputs = bound_of_functions(setup, setup.x, Y.mT, n_latents).sum()
        of_latent = bound_of_functions(setup, setup.x, latent, n_latents).sum()
    except NotPositiveDefiniteError:  # which a model with a larger jitter need not have
        return principal
    if of_outputs < of_latent - torch.linalg.slogdet(principal).logabsdet:
        return principal
    return torch.eye(n_latents, dtype=Y.dtype)
