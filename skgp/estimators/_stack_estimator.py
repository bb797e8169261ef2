"""What sparse and deep estimators share: assembly of the model, its loss and its optimiser."""

from abc import abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.features import check_batch, half_squared_norm
from skgp.core.initialisation import start_hyperparameters, start_posterior
from skgp.core.kernels import Kernel, KernelLike, make_kernel
from skgp.core.layers import Layer, SparseGP, SparseLayer
from skgp.core.nodes import NodeRule, Trivial
from skgp.core.objectives import Objective, loss
from skgp.core.optimizers import Adam, Optimizer
from skgp.core.stack import GPStack, Stack
from skgp.core.training import Candidate
from skgp.core.variational import Covariance, make_posterior
from skgp.estimators._gp_estimator import INITIAL_NOISE, InducingEstimator, each_gp
from skgp.estimators._minibatch import MinibatchEstimator
from skgp.estimators._model import StackModel
from skgp.estimators._setup import Setup

INITIAL_VAR = 0.1  # of q(v)


class Hidden(NamedTuple):
    """Hidden layers, and what the top layer sees of the setup's rows.

    Attributes
    ----------
    n_layers : int
        Hidden layers of any kind.
    stack : callable (top layer, feature extractor or None) -> Stack
    nodes : NodeRule
    h : Tensor of shape (n, F)
        Inputs of the top layer's kernel at the initial parameters.
    """

    n_layers: int
    stack: Callable[[Layer, nn.Module | None], Stack]
    nodes: NodeRule
    h: Tensor


class Outputs(NamedTuple):
    """How the latent functions of the top layer become outputs, and where they start.

    Attributes
    ----------
    latent : Tensor of shape (W, n)
        What each latent function is at the setup's rows, if it is fitted to them.
    start : callable noise variances (W,)
        Called with those of the fits.
    model : callable (layers, features (n, F) of the setup's rows, rule) -> StackModel
        With what stands between the layers and the likelihood.
    """

    latent: Tensor
    start: Callable[[Tensor], None]
    model: Callable[[Stack, Tensor, NodeRule], StackModel]


class StackEstimator(MinibatchEstimator, InducingEstimator):
    """Abstract base: a family adds its objective and, if need be, hidden layers or another top."""

    # Parameters that every family stores in its constructor.
    covariance: Any
    beta_reg: float | str  # a family may have a name for a rule

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **InducingEstimator._parameter_constraints,
        **MinibatchEstimator._parameter_constraints,
        "beta_reg": [Interval(Real, 0, 1e15, closed="both")],
    }

    @abstractmethod
    def _objective(self) -> Objective:
        """What the model is trained for."""

    def _build(self, setup: Setup) -> StackModel:
        outputs = self._outputs(setup)
        features, x = self._features(setup)
        hidden = self._hidden(setup, x)
        h = hidden.h
        kernel = self._make_kernel(setup, h, len(outputs.latent), 1 + hidden.n_layers)
        layer = self._layer(kernel, setup, h, len(outputs.latent)).double()

        # A top layer that is fitted to the first guess of hidden layers keeps them from moving, and
        # on a long table that costs more than it saves.
        if not hidden.n_layers or len(x) <= self.batch_size:
            few, weight = setup.few()
            rows = h[few], outputs.latent[:, few], weight
            noise_var = start_hyperparameters(layer, *rows, INITIAL_NOISE)
            rows = h, outputs.latent, setup.observed_weight
            n_observed = setup.n_data * float(rows[2].sum() / setup.weight.sum())
            start_posterior(layer, *rows, noise_var, n_observed)
            outputs.start(noise_var)
        return outputs.model(hidden.stack(layer, features), x, hidden.nodes)

    @abstractmethod
    def _outputs(self, setup: Setup) -> Outputs:
        """How the latent functions become outputs."""

    def _hidden(self, setup: Setup, x: Tensor) -> Hidden:
        """Hidden layers between the features x (n, F) and the top layer: none by default."""
        return Hidden(0, lambda top, features: GPStack([top], features), Trivial(), x)

    def _make_kernel(self, setup: Setup, features: Tensor, n_gps: int, number: int) -> Kernel:
        """Kernel of n_gps GPs over features (n, F), for the layer of this number from below."""
        n_kernels = 1 if self._shares_kernel() else n_gps
        parts = n_kernels, features.shape[1], setup.lengthscale(features)
        return make_kernel(self._layer_kernel(number), *parts)

    def _shares_kernel(self) -> bool:
        """Whether the GPs of a layer have one kernel and one set of inducing inputs."""
        return False

    def _layer_kernel(self, number: int) -> KernelLike:
        """What the user passed as kernel of the layer of this number from below."""
        return self.kernel

    def _layer(self, kernel: Kernel, setup: Setup, features: Tensor, n_gps: int) -> SparseLayer:
        """The top layer of n_gps GPs with initial inducing inputs among the features (n, F)."""
        Z = setup.centres(features, self.n_inducing)
        mu = torch.zeros(n_gps, len(Z), dtype=torch.float32)
        return self._sparse_layer(kernel, Z, mu, INITIAL_VAR)

    def _sparse_layer(self, kernel: Kernel, Z: Tensor, mu: Tensor, variance: float) -> SparseLayer:
        """W GPs with inducing inputs that start at Z (M, F), and q(v) around mu (W, M)."""
        posterior = make_posterior(self._covariance(), mu, variance)
        n_sharing = len(mu) if self._shares_kernel() else None
        return SparseGP(kernel, each_gp(kernel, Z), posterior, self.jitter, n_sharing)

    def _covariance(self) -> Covariance:
        """Parametrisation of q(u)."""
        covariance: Covariance = self.covariance
        return covariance

    def _candidate(self, model: StackModel, n_data: float) -> Candidate[StackModel]:
        features = model.stack.features

        def penalised(batch: Batch) -> Tensor:
            check_batch(features, len(batch.x))
            value = self._loss(model, batch, n_data)
            return value + self.weight_decay * half_squared_norm(features)

        return Candidate(model, penalised, self._make_optimizer(model, n_data))

    def _loss(self, model: StackModel, batch: Batch, n_data: float) -> Tensor:
        """Training loss of a batch, nats per row, without the penalty on a deep kernel."""
        nodes = model.nodes(len(batch.x))
        parts = self._objective(), model.stack, model.likelihood, nodes, batch
        return loss(*parts, beta_reg=self._divergence_weight(n_data), n_data=n_data)

    def _divergence_weight(self, n_data: float) -> float:
        """Weight of the divergences of q(u), given the sum of the weights of all rows."""
        return float(self.beta_reg)

    def _make_optimizer(self, model: StackModel, n_data: float) -> Optimizer:
        trained = [p for p in model.parameters() if p.requires_grad]
        return Adam(trained, self.learning_rate_init)
