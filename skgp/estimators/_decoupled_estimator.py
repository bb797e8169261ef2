"""What PPGPR estimators share: the log predictive density, inducing inputs of the mean's own."""

from numbers import Integral
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from skgp.core.kernels import Kernel
from skgp.core.layers import DecoupledGP, SparseLayer
from skgp.core.objectives import PREDICTIVE, Objective
from skgp.core.variational import DeltaPosterior, DiagonalPosterior
from skgp.estimators._gp_estimator import each_gp
from skgp.estimators._setup import Setup
from skgp.estimators._stack_estimator import INITIAL_VAR, StackEstimator


class DecoupledEstimator(StackEstimator):
    """Abstract base of one-layer models trained for their predictive distribution."""

    # Parameters that every family stores in its constructor.
    n_inducing_mean: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StackEstimator._parameter_constraints,
        "covariance": [StrOptions({"decoupled", "full", "diagonal", "delta"})],
        "n_inducing_mean": [Interval(Integral, 1, None, closed="left")],
    }

    def _objective(self) -> Objective:
        return PREDICTIVE

    def _layer(self, kernel: Kernel, setup: Setup, features: Tensor, n_gps: int) -> SparseLayer:
        if self.covariance != "decoupled":
            return super()._layer(kernel, setup, features, n_gps)
        Z_mean = each_gp(kernel, setup.centres(features, self.n_inducing_mean))
        Z = each_gp(kernel, setup.centres(features, self.n_inducing))
        mean_posterior = DeltaPosterior(torch.zeros(Z_mean.shape[:2], dtype=torch.float32))
        posterior = DiagonalPosterior(torch.zeros(Z.shape[:2], dtype=torch.float32), INITIAL_VAR)
        return DecoupledGP(kernel, Z_mean, Z, mean_posterior, posterior, self.jitter)
