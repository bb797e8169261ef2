"""What the stacks with several outputs share: latent functions that are mixed."""

from numbers import Integral
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor

from skgp.estimators._gaussian_estimator import GaussianEstimator
from skgp.estimators._model import GPModel
from skgp.estimators._stack_estimator import StackEstimator


class CoregionalisedEstimator(StackEstimator, GaussianEstimator):
    """Abstract base: P outputs with Gaussian noise are made of L latent functions."""

    # Parameters that every family stores in its constructor.
    n_latents: int | None

    model_: GPModel

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StackEstimator._parameter_constraints,
        **GaussianEstimator._parameter_constraints,
        "n_latents": [Interval(Integral, 1, None, closed="left"), None],
    }

    def _fitted_model(self) -> GPModel:
        super()._fitted_model()
        return self.model_

    def _n_latents(self, n_outputs: int) -> int:
        """Number of latent functions, refused if it exceeds that of the outputs."""
        n_latents = self._default_latents(n_outputs) if self.n_latents is None else self.n_latents
        if n_latents > n_outputs:
            raise ValueError(
                f"n_latents={n_latents} exceeds the number of outputs, {n_outputs}: lower it"
            )
        return n_latents

    def _default_latents(self, n_outputs: int) -> int:
        """What n_latents=None means."""
        return n_outputs


def principal_mixing(Y: Tensor, weight: Tensor, n_latents: int) -> Tensor:
    """Initial mixing matrix (W, P): the leading principal directions, scaled by their deviations.

    Latent functions of unit variance then reproduce the covariance of outputs (n, P), whose rows
    have weights (n,).
    """
    eigenvalues, directions = torch.linalg.eigh((Y.mT * weight) @ Y / weight.sum())
    deviations = eigenvalues[-n_latents:].clamp_min(1e-6).sqrt()
    return (directions[:, -n_latents:] * deviations).mT.flip(0)
