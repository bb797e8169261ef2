"""Fitted estimators as models of BoTorch, for its acquisition functions; needs the extra `bo`."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior, Posterior
from botorch.posteriors.ensemble import EnsemblePosterior
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from torch import Tensor

__all__ = ["EstimatorModel"]


class EstimatorModel(Model):
    """A fitted regressor as a model of BoTorch.

    Acquisition functions maximise: fit the estimator on -y to look for a minimum. Inputs and
    outputs are in the user's units, and tensors in float64. The estimator may be fitted again; the
    model keeps what it was made from.

    The posterior is that of the noiseless function f. For models of one layer it is normal. Deep
    models, and mixtures such as a `PPGPRRegressor` of few rows, have an ensemble of draws of
    functions from their posterior, which are the same in every call.

    Parameters
    ----------
    estimator : fitted regressor
        With the methods `posterior` and `sample_functions`, of GP layers alone.
    n_samples : int
        Number of functions in the ensemble.
    random_state : int, RandomState or None
        Of these functions.

    Raises
    ------
    NotImplementedError
        If the estimator has a readout, latent covariates or a likelihood other than the normal one,
        or is deep with a kernel whose spectral density is unknown.
    """

    def __init__(self, estimator: Any, *, n_samples: int = 128, random_state: Any = 0) -> None:
        super().__init__()
        self._of_rows = estimator.posterior()
        self._functions: Any = None
        if not self._of_rows.is_normal:
            self._functions = estimator.sample_functions(n_samples, random_state)
        self._noise = torch.from_numpy(np.atleast_1d(estimator.noise_variance_))
        self._outputs = torch.arange(int(estimator.n_outputs_))

    @property
    def num_outputs(self) -> int:
        """Number P of outputs."""
        return len(self._outputs)

    @property
    def batch_shape(self) -> torch.Size:
        """Of the model itself, which is one."""
        return torch.Size()

    def subset_output(self, idcs: list[int]) -> Self:
        """The same model of some of the outputs.

        Parameters
        ----------
        idcs : list of int
            Negative ones count from the end.

        Returns
        -------
        EstimatorModel
            It shares all else with this one.

        Raises
        ------
        IndexError
            If there is no such output.
        """
        model = copy.copy(self)
        model._outputs = self._outputs[list(idcs)]
        return model

    def posterior(
        self,
        X: Tensor,
        output_indices: Sequence[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Posterior:
        """Posterior of f at rows that are joint within a batch.

        Parameters
        ----------
        X : Tensor of shape (..., q, D)
        output_indices : sequence of int, optional
            The outputs that are asked for, negative ones from the end; all if None.
        observation_noise : bool
            Whether the noise of y is added; in models of one layer.
        posterior_transform : botorch PosteriorTransform, optional

        Returns
        -------
        GPyTorchPosterior or EnsemblePosterior
            Of the transform, if there is one.

        Raises
        ------
        IndexError
            If there is no such output.
        UnsupportedError
            If noise is asked for of a deep model, or given as a tensor.
        """
        if isinstance(observation_noise, Tensor):
            raise UnsupportedError("the noise is that of the estimator: give True or False")
        chosen = self._outputs
        if output_indices is not None:
            chosen = chosen[list(output_indices)]
        if self._functions is None:
            posterior = self._normal(X, chosen, observation_noise)
        elif observation_noise:
            raise UnsupportedError("the functions of a deep model have no observation noise")
        else:
            posterior = self._ensemble(X, chosen)
        return posterior if posterior_transform is None else posterior_transform(posterior, X=X)

    def _normal(self, X: Tensor, chosen: Tensor, noisy: bool) -> GPyTorchPosterior:
        mean, cov = self._of_rows.mean_and_cov(X)
        if mean.dim() < X.dim():  # y was one-dimensional
            mean, cov = mean.unsqueeze(-1), cov.unsqueeze(-2).unsqueeze(-1)
        mean = mean.index_select(-1, chosen)
        cov = cov.index_select(-3, chosen).index_select(-1, chosen).flatten(-2).flatten(-3, -2)
        if noisy:  # rows outside, outputs inside
            cov = cov + torch.diag_embed(self._noise[chosen].repeat(X.shape[-2]))
        if len(chosen) == 1:
            return GPyTorchPosterior(MultivariateNormal(mean.squeeze(-1), cov))
        return GPyTorchPosterior(MultitaskMultivariateNormal(mean, cov))

    def _ensemble(self, X: Tensor, chosen: Tensor) -> EnsemblePosterior:
        values = self._functions.evaluate(X)  # (..., q, S) or (..., q, P, S)
        if values.dim() == X.dim():
            values = values.unsqueeze(-2)
        return EnsemblePosterior(values.index_select(-2, chosen).movedim(-1, -3))
