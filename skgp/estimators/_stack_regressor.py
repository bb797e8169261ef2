"""What sparse and deep regressors share: a Gaussian likelihood of one or several outputs."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from skgp.core.likelihoods import Gaussian
from skgp.estimators._coregionalised_estimator import (
    CoregionalisedEstimator,
    principal_mixing,
)
from skgp.estimators._gp_estimator import INITIAL_NOISE
from skgp.estimators._gp_regressor import GPRegressor
from skgp.estimators._minibatch_regressor import MinibatchRegressor
from skgp.estimators._model import GPModel
from skgp.estimators._setup import Setup
from skgp.estimators._stack_estimator import Outputs


class StackRegressor(CoregionalisedEstimator, MinibatchRegressor, GPRegressor):
    """Abstract base: a family adds its objective and, if need be, hidden layers or another top."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CoregionalisedEstimator._parameter_constraints,
        **MinibatchRegressor._parameter_constraints,
        **GPRegressor._parameter_constraints,
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
