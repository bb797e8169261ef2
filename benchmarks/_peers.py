"""GPyTorch's own implementation of the models that skgp is timed against."""

from abc import ABC, abstractmethod

import gpytorch
import torch
from gpytorch import variational
from gpytorch.models import deep_gps
from gpytorch.models.deep_gps.dspp import DSPP, DSPPLayer
from torch import Tensor


def scaled(kernel: str, n_features: int, batch: torch.Size) -> gpytorch.kernels.Kernel:
    """Kernel of this name with ARD and a variance, one for each entry of the batch."""
    kernels = gpytorch.kernels
    sizes = {"ard_num_dims": n_features, "batch_shape": batch}
    base = kernels.RBFKernel(**sizes) if kernel == "rbf" else kernels.MaternKernel(2.5, **sizes)
    return kernels.ScaleKernel(base, batch_shape=batch)


class PeerGP(gpytorch.models.ApproximateGP):
    """One-layer sparse GP as GPyTorch's users write it, with ARD.

    Parameters
    ----------
    Z : Tensor of shape (M, D)
    covariance : {"full", "diagonal", "delta", "decoupled"}
    kernel : {"matern52", "rbf"}
    """

    def __init__(self, Z: Tensor, covariance: str, kernel: str = "matern52") -> None:
        n_inducing, n_features = Z.shape
        if covariance == "decoupled":
            distribution = variational.MeanFieldVariationalDistribution(n_inducing)
            strategy = variational.BatchDecoupledVariationalStrategy(self, Z, distribution)
        else:
            family = {
                "full": variational.CholeskyVariationalDistribution,
                "diagonal": variational.MeanFieldVariationalDistribution,
                "delta": variational.DeltaVariationalDistribution,
            }[covariance]
            strategy = variational.VariationalStrategy(self, Z, family(n_inducing))
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = scaled(kernel, n_features, torch.Size())

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Hidden:
    """What the layers of a deep model share: a kernel with ARD, a linear mean below the top.

    Parameters
    ----------
    Z : Tensor of shape (M, D)
    covariance : {"full", "diagonal"}
    width : int, optional
        Functions of the layer; the top layer has one, and no dimension for it.
    kernel : {"matern52", "rbf"}
    **nodes
        Further arguments of the layer.
    """

    def __init__(
        self,
        Z: Tensor,
        covariance: str,
        width: int | None,
        kernel: str = "matern52",
        **nodes: int,
    ) -> None:
        n_inducing, n_features = Z.shape
        batch = torch.Size([] if width is None else [width])
        family = {
            "full": variational.CholeskyVariationalDistribution,
            "diagonal": variational.MeanFieldVariationalDistribution,
        }[covariance]
        distribution = family(n_inducing, batch_shape=batch)
        Z = Z.expand(*batch, n_inducing, n_features).clone()
        strategy = variational.VariationalStrategy(self, Z, distribution)
        super().__init__(strategy, n_features, width, **nodes)
        self.mean_module = (
            gpytorch.means.ConstantMean()
            if width is None
            else gpytorch.means.LinearMean(n_features, batch_shape=batch)
        )
        self.covar_module = scaled(kernel, n_features, batch)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class DGPLayer(Hidden, deep_gps.DeepGPLayer):
    """Layer of a `PeerDGP`."""


class SigmaPointLayer(Hidden, DSPPLayer):
    """Layer of a `PeerDSPP`."""


class PeerDGP(deep_gps.DeepGP):
    """Deep GP of two layers or more, of which the hidden ones have the same width."""

    def __init__(self, Z: Tensor, width: int, n_layers: int = 2, kernel: str = "matern52") -> None:
        super().__init__()
        inner = [torch.randn(len(Z), width) for _ in range(n_layers - 1)]
        widths = [width] * (n_layers - 1) + [None]
        self.layers = torch.nn.ModuleList(
            DGPLayer(points, "full", functions, kernel)
            for points, functions in zip([Z, *inner], widths, strict=True)
        )

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        for layer in self.layers:
            x = layer(x)
        return x


class PeerDSPP(DSPP):
    """Deep sigma point process of two layers; its rule is QR3."""

    def __init__(self, Z: Tensor, width: int, n_sites: int) -> None:
        super().__init__(n_sites)
        top = torch.randn(len(Z), width)
        self.hidden = SigmaPointLayer(Z, "diagonal", width, num_quad_sites=n_sites)
        self.top = SigmaPointLayer(top, "diagonal", None, num_quad_sites=n_sites)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return self.top(self.hidden(x))


class PeerStep(ABC):
    """One training step of a model of GPyTorch.

    Parameters
    ----------
    x : Tensor of shape (B, D)
    y : Tensor of shape (B,)
    model : gpytorch.models.GP
    """

    def __init__(self, x: Tensor, y: Tensor, model: gpytorch.models.GP) -> None:
        self.x, self.y = x, y
        self.model = model.to(x)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood().to(x)
        self.objective = self._objective(10 * len(x))
        parameters = [*self.model.parameters(), *self.likelihood.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=0.01, fused=True)
        self.model.train()

    @abstractmethod
    def _objective(self, num_data: int) -> gpytorch.mlls.MarginalLogLikelihood:
        """What the model is trained for."""

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        loss = -self.objective(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def predict(self, x: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of y at x (N, D), in chunks of rows."""
        self.model.eval()
        rows = (part.to(self.x) for part in x.split(chunk))
        parts = [self._moments(self.likelihood(self.model(part))) for part in rows]
        means, stds = zip(*parts, strict=True)
        return torch.cat(means), torch.cat(stds)

    def _moments(self, dist: gpytorch.distributions.MultivariateNormal) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (B,) of a prediction."""
        return dist.mean, dist.stddev


class SparseStep(PeerStep):
    """One training step of a `PeerGP`, for the ELBO (SVGP)."""

    def _objective(self, num_data: int) -> gpytorch.mlls.MarginalLogLikelihood:
        return gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data)


class PredictiveStep(PeerStep):
    """One training step of a `PeerGP`, for the predictive density (PPGPR)."""

    def _objective(self, num_data: int) -> gpytorch.mlls.MarginalLogLikelihood:
        return gpytorch.mlls.PredictiveLogLikelihood(self.likelihood, self.model, num_data)


class DGPStep(PeerStep):
    """One training step of a `PeerDGP`, whose predictions have more samples than its steps."""

    n_prediction_samples = 32

    def __init__(
        self, x: Tensor, y: Tensor, model: gpytorch.models.GP, n_samples: int = 10
    ) -> None:
        super().__init__(x, y, model)
        self.n_samples = n_samples

    def _objective(self, num_data: int) -> gpytorch.mlls.MarginalLogLikelihood:
        return gpytorch.mlls.DeepApproximateMLL(
            gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data)
        )

    def __call__(self) -> None:
        with gpytorch.settings.num_likelihood_samples(self.n_samples):
            super().__call__()

    def predict(self, x: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
        with gpytorch.settings.num_likelihood_samples(self.n_prediction_samples):
            return super().predict(x, chunk)

    def _moments(self, dist: gpytorch.distributions.MultivariateNormal) -> tuple[Tensor, Tensor]:
        return mixture_moments(dist.mean.new_zeros(len(dist.mean)).softmax(0), dist)


class DSPPStep(PeerStep):
    """One training step of a `PeerDSPP`."""

    def _objective(self, num_data: int) -> gpytorch.mlls.MarginalLogLikelihood:
        return gpytorch.mlls.DeepPredictiveLogLikelihood(
            self.likelihood, self.model, num_data, beta=0.05
        )

    def _moments(self, dist: gpytorch.distributions.MultivariateNormal) -> tuple[Tensor, Tensor]:
        return mixture_moments(self.model.quad_weights.exp(), dist)


def mixture_moments(
    weights: Tensor, dist: gpytorch.distributions.MultivariateNormal
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (B,) of a mixture with weights (Q,)."""
    mean = weights @ dist.mean
    var = weights @ (dist.variance + dist.mean.square()) - mean.square()
    return mean, var.sqrt()
