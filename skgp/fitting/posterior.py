"""The posterior of a fitted model at tensors of rows, in the user's units, with gradients."""

import copy
from typing import Any, cast

import torch
from torch import Tensor

from skgp.core.layers.layer import total_moments
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.fitting.joint import joint_laws
from skgp.fitting.model import Model, rows_per_chunk
from skgp.fitting.tensor_scales import TensorScales


class FunctionPosterior:
    """Moments of the noiseless function f at tensors of rows, with gradients in them.

    What `posterior` of a regressor returns. A later fit leaves it alone, and gradients never reach
    the parameters of the fitted model.

    Parameters
    ----------
    model : Model
        Fitted; copied.
    output_shape : tuple
        (P,), or () for a one-dimensional y.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    is_normal : bool
        Whether f is normal, so that the moments say all: in models of one layer that are no
        mixtures, and of outputs that are linear in its functions.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skgp import SVGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (100, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(100)
    >>> posterior = SVGPRegressor(n_inducing=10, random_state=0).fit(X, y).posterior()
    >>> x = torch.tensor([[0.5], [1.0]], dtype=torch.float64, requires_grad=True)
    >>> mean, std = posterior.mean_and_std(x)
    >>> (slope,) = torch.autograd.grad(mean.sum(), x)
    >>> bool(((slope[:, 0] - torch.cos(x[:, 0])).abs() < 0.2).all())
    True
    """

    def __init__(self, model: Model, output_shape: tuple[int, ...]) -> None:
        model = copy.deepcopy(model).requires_grad_(False)
        self._log_weights = model.log_weights
        self._units = TensorScales(model.x_scale, model.y_scale, self._log_weights)
        self._noise = cast(Gaussian, model.normal_noise)  # where there are laws
        self._predict = model.noiseless_predictor()
        self._laws = list(joint_laws(model)) if model.has_gp_outputs else None
        self._given = model, output_shape
        self._is_flat = not output_shape
        self.n_features_in_ = self._units.n_inputs
        self.is_normal = self._laws is not None and len(self._log_weights) == 1

    def mean_and_std(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of f at each row, those of `predict_latent`.

        Parameters
        ----------
        x : Tensor of shape (..., n, D)
            In the units of X.

        Returns
        -------
        mean, std : Tensor of shape (..., n) or (..., n, P)
            In the units of y, float64.

        Raises
        ------
        ValueError
            If x has another number of columns than the rows of the fit.
        """
        rows = self._units.scaled(x).flatten(0, -2)
        parts = [self._moments(part) for part in rows.split(rows_per_chunk(self._log_weights))]
        mean, var = (torch.cat(chunks) for chunks in zip(*parts, strict=True))
        return (
            self._shaped(self._units.outputs(mean), x),
            self._shaped(var.sqrt() * self._units.y_unit, x),
        )

    def mean_and_cov(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and covariance of f over the rows of each batch, and over the outputs.

        Parameters
        ----------
        x : Tensor of shape (..., n, D)
            In the units of X.

        Returns
        -------
        mean : Tensor of shape (..., n) or (..., n, P)
            In the units of y, float64.
        cov : Tensor of shape (..., n, n) or (..., n, P, n, P)
            In squared units of y. Where hidden functions are sampled, mean and covariance are
            averages over draws of them.

        Raises
        ------
        NotImplementedError
            If the model has no covariance over rows.
        ValueError
            If x has another number of columns than the rows of the fit.
        """
        if self._laws is None:
            raise NotImplementedError(
                "this model has no covariance over rows: a readout, latent covariates or another "
                "likelihood than the normal one stand between its GPs and y"
            )
        groups = self._units.scaled(x)
        groups = groups.reshape(-1, *groups.shape[-2:])
        components = [part for law in self._laws for part in law.components(groups)]
        weight, f_mean, f_cov = (torch.stack(parts) for parts in zip(*components, strict=True))
        means = self._noise.outputs(f_mean)  # (Q, G, n, P)
        mean = torch.einsum("q,qgnp->gnp", weight, means)
        spread = means - mean
        mixing = self._mixing(f_cov)
        cov = torch.einsum("q,pw,qwgij,rw->gipjr", weight, mixing, f_cov, mixing)
        cov = cov + torch.einsum("q,qgip,qgjr->gipjr", weight, spread, spread)
        unit, batch = self._units.y_unit, x.shape[:-2]
        mean = self._units.outputs(mean).reshape(*batch, *mean.shape[1:])
        cov = (cov * unit[:, None, None] * unit).reshape(*batch, *cov.shape[1:])
        return (mean[..., 0], cov[..., 0, :, 0]) if self._is_flat else (mean, cov)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given  # the functions that predict do not pickle

    def __repr__(self) -> str:
        return f"FunctionPosterior(n_features_in_={self.n_features_in_})"

    def _moments(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (B, P) at scaled rows (B, D), in the units of the model."""
        predictive = self._predict(rows)
        weight = predictive.log_weights(self._log_weights).softmax(0)[:, None, None]
        return total_moments(predictive.mean, predictive.var, weight)

    def _shaped(self, values: Tensor, x: Tensor) -> Tensor:
        values = values.unflatten(0, x.shape[:-1])
        return values[..., 0] if self._is_flat else values

    def _mixing(self, f_cov: Tensor) -> Tensor:
        """The mixing matrix (P, W) of the likelihood, the identity if it has none."""
        mixing: Tensor | None = self._noise.mixing
        return torch.eye(f_cov.shape[1]).to(f_cov) if mixing is None else mixing
