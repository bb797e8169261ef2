"""What sparse and deep regressors share: a Gaussian likelihood of one or several outputs."""

from numbers import Integral
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor

from skgp.core.likelihoods import Gaussian
from skgp.estimators._gp_estimator import INITIAL_NOISE
from skgp.estimators._gp_regressor import GPRegressor
from skgp.estimators._minibatch_regressor import MinibatchRegressor
from skgp.estimators._model import GPModel
from skgp.estimators._setup import Setup
from skgp.estimators._stack_estimator import Outputs, StackEstimator


class StackRegressor(StackEstimator, MinibatchRegressor, GPRegressor):
    """Abstract base: a family adds its objective and, if need be, hidden layers or another top."""

    # Parameters that every family stores in its constructor.
    n_latents: int | None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StackEstimator._parameter_constraints,
        **MinibatchRegressor._parameter_constraints,
        **GPRegressor._parameter_constraints,
        "n_latents": [Interval(Integral, 1, None, closed="left"), None],
    }

    def _outputs(self, setup: Setup) -> Outputs:
        """How the latent functions become outputs: mixed by a matrix of the likelihood."""
        Y = setup.Y.nan_to_num()  # scaled targets: zero is the mean
        n_outputs = Y.shape[1]
        n_latents = self._n_latents(n_outputs)
        mixing, latent = None, Y.mT
        if n_outputs > 1:
            mixing = principal_mixing(Y, setup.observed_weight, n_latents)
            latent = (Y @ torch.linalg.pinv(mixing)).mT
        likelihood = Gaussian(n_outputs, INITIAL_NOISE, self.noise_floor, mixing).double()

        def start(noise_var: Tensor) -> None:
            likelihood.start(noise_var if mixing is None else noise_var @ mixing.square())

        return Outputs(latent, start, lambda stack, x, nodes: GPModel(stack, likelihood, nodes))

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
