"""Deep GPs with latent covariates by importance-weighted variational inference."""

from numbers import Integral, Real
from typing import Any, ClassVar, Final, Literal

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from skgp.core.features import FeatureExtractor
from skgp.core.importance import latent_loss
from skgp.core.initialisation import start_directions
from skgp.core.kernels import Kernel, KernelLike
from skgp.core.latent_stack import LatentCovariates, LatentStack
from skgp.core.layers import SparseLayer
from skgp.core.local import Amortized, Free, LocalPosterior
from skgp.core.nodes import Sampled
from skgp.core.objectives import ELBO, Batch, Objective
from skgp.core.projected import ProjectedGP
from skgp.core.variational import make_posterior
from skgp.estimators._model import GPModel
from skgp.estimators._parameters import store_parameters
from skgp.estimators._setup import Setup
from skgp.estimators._sparse_regressor import SparseRegressor
from skgp.estimators._stack_regressor import Hidden

_HIDDEN_VAR: Final = 1e-5  # where the variances of hidden inducing variables start


class IWDGPRegressor(SparseRegressor):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseRegressor._parameter_constraints,
        "architecture": [str],
        "latent_dim": [Interval(Integral, 1, None, closed="left")],
        "width": [Interval(Integral, 1, None, closed="left")],
        "inference": [StrOptions({"iwvi", "vi"})],
        "n_importance": [Interval(Integral, 1, None, closed="left")],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_prediction_samples": [Interval(Integral, 1, None, closed="left")],
        "amortized": ["boolean"],
        "covariance": [StrOptions({"full", "diagonal"})],
    }

    def __init__(
        self,
        *,
        architecture: str = "LV-GP-GP",
        kernel: KernelLike = "rbf",
        latent_dim: int = 1,
        width: int = 5,
        inference: Literal["iwvi", "vi"] = "iwvi",
        n_importance: int = 5,
        n_samples: int = 1,
        n_prediction_samples: int = 128,
        amortized: bool = True,
        n_inducing: int = 128,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        n_latents: int | None = None,
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        optimizer: Literal["natgrad", "adam"] = "natgrad",
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 512,
        learning_rate_init: float = 0.01,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-6,
        jitter: float = 1e-4,
        warm_start: bool = False,
        memory: Any = None,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())

    def _objective(self) -> Objective:
        return ELBO

    def _layer(self, kernel: Kernel, setup: Setup, features: Tensor) -> SparseLayer:
        layer = super()._layer(kernel, setup, features[:, : self._n_observed])
        return layer

    def _hidden(self, setup: Setup, x: Tensor) -> Hidden:
        blocks: list[Any] = []
        widths = []
        generator = torch.Generator().manual_seed(setup.seed)
        h = x
        n_x = x.shape[1]
        for number, part in enumerate(self.architecture.split("-")[:-1], start=1):
            if part == "LV":
                posterior = self._local(setup, x, generator).double()
                known = torch.cat([x, setup.Y.nan_to_num(), 1.0 - setup.Y.isnan().double()], -1)
                with torch.no_grad():
                    w = posterior(known, torch.arange(len(x))).mean
                blocks.append(LatentCovariates(posterior, self.latent_dim))
                widths.append(self.latent_dim)
                h = torch.cat([h, w], -1)
            else:
                kernel = self._make_kernel(setup, h, 1, number)
                Z = self._inducing(setup, x, h, generator)
                W = min(self.width, n_x)
                P = torch.zeros(W, h.shape[1], dtype=x.dtype)
                P[:, :n_x] = start_directions(x, setup.weight)[:, :W].mT
                q = make_posterior(self.covariance, torch.zeros(W, Z.shape[1]), _HIDDEN_VAR)
                blocks.append(ProjectedGP(kernel, Z, q, P, self.jitter).double())
                widths.append(W)
        if not blocks:
            return super()._hidden(setup, x)
        nodes = Sampled(widths, self.n_samples, self.n_prediction_samples, setup.seed)
        self._gen = generator
        return Hidden(len(blocks), lambda top, features: LatentStack(blocks, top, features), nodes, h)

    def _layer(self, kernel: Kernel, setup: Setup, features: Tensor) -> SparseLayer:
        layer = super()._layer(kernel, setup, features[:, : setup.x.shape[1]])
        n = features.shape[1] - setup.x.shape[1]
        if n:
            Z = layer.Z.data
            layer.Z.data = torch.cat([Z, torch.randn(*Z.shape[:2], n, generator=self._gen).to(Z)], -1)
        return layer

    def _inducing(self, setup, x, h, generator):
        Z = setup.centres(x, self.n_inducing)
        extra = torch.randn(len(Z), h.shape[1] - x.shape[1], generator=generator).to(Z)
        return torch.cat([Z, extra], -1).unsqueeze(0)

    def _local(self, setup: Setup, x: Tensor, generator) -> LocalPosterior:
        if self.amortized:
            return Amortized(x.shape[1] + 2 * setup.Y.shape[1], self.latent_dim, generator)
        return Free(int(setup.n_data), self.latent_dim, generator)

    def _loss(self, model: GPModel, batch: Batch, n_data: float) -> Tensor:
        if not isinstance(model.stack, LatentStack):
            return super()._loss(model, batch, n_data)
        return latent_loss(
            model.stack,
            model.likelihood,
            batch,
            model.nodes.generator(),
            n_samples=self.n_samples,
            n_importance=self.n_importance if self.inference == "iwvi" else None,
            beta_reg=self.beta_reg,
            n_data=n_data,
        )
