"""GPyTorch's own implementation of the models that skgp is timed against."""

import gpytorch
import torch
from gpytorch import variational
from torch import Tensor


class PeerGP(gpytorch.models.ApproximateGP):
    """One-layer sparse GP as GPyTorch's users write it: Matern 5/2 with ARD.

    Parameters
    ----------
    Z : Tensor of shape (M, D)
    covariance : {"full", "diagonal", "delta", "decoupled"}
    """

    def __init__(self, Z: Tensor, covariance: str) -> None:
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
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=n_features)
        )

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class PeerStep:
    """One training step of a `PeerGP`.

    Parameters
    ----------
    x : Tensor of shape (B, D)
    y : Tensor of shape (B,)
    Z : Tensor of shape (M, D)
    covariance : str
    predictive : bool
        Train for the predictive density (PPGPR) instead of the ELBO (SVGP).
    """

    def __init__(self, x: Tensor, y: Tensor, Z: Tensor, covariance: str, predictive: bool) -> None:
        self.x, self.y = x, y
        self.model = PeerGP(Z, covariance)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        objective = (
            gpytorch.mlls.PredictiveLogLikelihood if predictive else gpytorch.mlls.VariationalELBO
        )
        self.objective = objective(self.likelihood, self.model, num_data=10 * len(x))
        parameters = [*self.model.parameters(), *self.likelihood.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=0.01, fused=True)
        self.model.train()

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        loss = -self.objective(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def predict(self, x: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of y at x (N, D), in chunks of rows."""
        self.model.eval()
        means, stds = [], []
        for part in x.split(chunk):
            dist = self.likelihood(self.model(part))
            means.append(dist.mean)
            stds.append(dist.stddev)
        return torch.cat(means), torch.cat(stds)
