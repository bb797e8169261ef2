"""The mixing matrix with which several outputs start."""

import torch
from torch import Tensor

from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.setup import Setup
from skgp.recipes.rough_gps import bound_of_functions


def likely_mixing(setup: Setup, Y: Tensor, principal: Tensor) -> Tensor:
    """Principal directions (P, W), or the identity if GPs of the outputs (n, P) explain more.

    Directions of outputs that have little in common are arbitrary, and functions along them depend
    on the inputs as no output does. Training turns them back too slowly. So the two are compared by
    the densities of the outputs under rough GPs, where that of y = M f is the one of f over det M.
    """
    n_outputs, n_latents = principal.shape
    if n_latents < n_outputs:
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
