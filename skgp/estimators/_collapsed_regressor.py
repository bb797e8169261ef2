"""What FITC and the exact GP share: a marginal likelihood of all rows, maximised by L-BFGS."""

import copy
from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar, Self

import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.features import half_squared_norm
from skgp.core.initialisation import start_hyperparameters
from skgp.core.kernels import make_kernel
from skgp.core.layers import SparseGP
from skgp.core.likelihoods import Gaussian
from skgp.core.optimizers import LBFGS
from skgp.core.rows import ObservedRows
from skgp.core.training import Candidate, Plan, constant
from skgp.core.variational import FullPosterior
from skgp.estimators._gp_estimator import INITIAL_NOISE, each_gp
from skgp.estimators._gp_regressor import GPRegressor
from skgp.estimators._model import GPModel
from skgp.estimators._setup import Setup
from skgp.estimators._table import Table

_TRIAL_ITERATIONS = 5  # after which restarts are compared


class CollapsedModel(GPModel):
    """Abstract base: one independent GP for each output, u integrated out."""

    @abstractmethod
    def log_marginal(self, rows: ObservedRows) -> Tensor:
        """Log marginal likelihoods (P,) of the outputs, in nats."""

    @abstractmethod
    def condition(self, rows: ObservedRows) -> None:
        """Compute what predictions need of the training rows."""

    def collapsed_loss(self, batch: Batch, weight_decay: float, n_data: float) -> Tensor:
        """Training loss of all rows, nats per row, with the penalty of a deep kernel's weights."""
        rows = self._observed(batch, n_data)
        log_density = self.log_marginal(rows).sum() + self.stack.log_prior()
        return weight_decay * half_squared_norm(self.stack.features) - log_density / n_data

    @torch.no_grad()
    def conditioned(self, table: Table) -> Self:
        model = copy.deepcopy(self)
        batch = table.batch(torch.arange(len(table)))
        model.condition(model._observed(batch, table.n_data))
        return model

    def _observed(self, batch: Batch, n_data: float) -> ObservedRows:
        like = self.likelihood.noise_var
        y, mask = batch.targets
        weight = torch.full((len(y),), n_data / len(y), dtype=like.dtype, device=like.device)
        if batch.weight is not None:
            weight = weight * batch.weight.to(like)
        x = self.stack.features(batch.x.to(like))
        return ObservedRows(x, y.to(like).mT, weight, None if mask is None else mask.to(like).mT)


class CollapsedRegressor(GPRegressor):
    """Abstract base of the regressors that see all rows in every step."""

    max_iter: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GPRegressor._parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def _start(
        self, setup: Setup, n_inducing: int, jitter: float
    ) -> tuple[torch.nn.Module | None, SparseGP, Gaussian]:
        """Network, sparse layer and likelihood where the collapsed bound is high."""
        n_outputs = setup.Y.shape[1]
        features, h = self._features(setup)
        kernel = make_kernel(self.kernel, n_outputs, h.shape[1], setup.lengthscale(h))
        Z = each_gp(kernel, setup.centres(h, n_inducing))
        posterior = FullPosterior(torch.zeros(Z.shape[:2], dtype=torch.float32), 1.0)
        layer = SparseGP(kernel, Z, posterior, jitter).double()
        likelihood = Gaussian(n_outputs, INITIAL_NOISE, self.noise_floor).double()
        few, weight = setup.few()
        y = setup.Y[few].nan_to_num().mT  # scaled targets: zero is the mean
        likelihood.start(start_hyperparameters(layer, h[few], y, weight, INITIAL_NOISE))
        return features, layer, likelihood

    def _candidate(self, model: CollapsedModel, n_data: float) -> Candidate[CollapsedModel]:
        def loss(batch: Batch) -> Tensor:
            return model.collapsed_loss(batch, self.weight_decay, n_data)

        return Candidate(model, loss, LBFGS([p for p in model.parameters() if p.requires_grad]))

    def _plan(self, n: int) -> Plan:
        return Plan(
            max_iter=self.max_iter,
            batch_size=n,
            schedule=constant,
            n_trial_epochs=_TRIAL_ITERATIONS,
            n_iter_no_change=self.n_iter_no_change if self.early_stopping else None,
            tol=self.tol,
        )

    def _auto_dtype(self, n: int) -> str:
        return "float64"  # a line search cannot work with a loss that rounding makes rough
