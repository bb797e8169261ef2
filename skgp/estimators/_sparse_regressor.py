"""What SVGP, VFITC and PPGPR share: the model of one layer, built from k-means inducing inputs."""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from skgp.core.initialisation import start_hyperparameters, start_posterior
from skgp.core.kernels import Kernel, make_kernel
from skgp.core.layers import SparseGP, SparseLayer
from skgp.core.likelihoods import Gaussian
from skgp.core.objectives import Objective
from skgp.core.optimizers import Adam, NaturalGradient, Optimizer
from skgp.core.stack import GPStack
from skgp.core.training import Candidate
from skgp.core.variational import Covariance, NaturalPosterior, make_posterior
from skgp.estimators._gp_regressor import INITIAL_NOISE, InducingRegressor, each_gp
from skgp.estimators._minibatch import MinibatchRegressor
from skgp.estimators._model import GPModel
from skgp.estimators._setup import Setup

INITIAL_VAR = 0.1  # of q(v)
_NATURAL_RATE = 0.5  # peak of the natural-gradient steps; 1 forgets all earlier batches


class SparseRegressor(MinibatchRegressor, InducingRegressor):
    """Abstract base: a family adds its objective and, if need be, another layer."""

    # Parameters that every family stores in its constructor.
    covariance: Any
    beta_reg: float
    n_latents: int | None
    optimizer: str

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **InducingRegressor._parameter_constraints,
        **MinibatchRegressor._parameter_constraints,
        "beta_reg": [Interval(Real, 0, None, closed="left")],
        "n_latents": [Interval(Integral, 1, None, closed="left"), None],
        "optimizer": [StrOptions({"adam", "natgrad"})],
    }

    @abstractmethod
    def _objective(self) -> Objective:
        """What the model is trained for."""

    def _build(self, setup: Setup) -> GPModel:
        n_outputs = setup.Y.shape[1]
        n_latents = n_outputs if self.n_latents is None else self.n_latents
        if n_latents > n_outputs:
            raise ValueError(
                f"n_latents={n_latents} exceeds the number of outputs, {n_outputs}: lower it"
            )
        observed = ~setup.Y.isnan()
        filled = setup.Y.nan_to_num()  # scaled targets: zero is the mean
        mixing, latent = None, filled.mT
        if n_outputs > 1:
            mixing = _principal_mixing(filled, n_latents)
            latent = (filled @ torch.linalg.pinv(mixing)).mT
        features, h = self._features(setup)
        kernel = make_kernel(self.kernel, len(latent), h.shape[1], setup.lengthscale(h))
        layer = self._layer(kernel, setup, h).double()
        likelihood = Gaussian(n_outputs, INITIAL_NOISE, self.noise_floor, mixing).double()

        rows = h, latent, setup.weight * observed.any(-1)
        noise_var = start_hyperparameters(layer, *rows, INITIAL_NOISE)
        n_observed = setup.n_data * float(rows[2].sum() / setup.weight.sum())
        start_posterior(layer, *rows, noise_var, n_observed)
        likelihood.start(noise_var if mixing is None else noise_var @ mixing.square())
        return GPModel(GPStack([layer], features), likelihood)

    def _layer(self, kernel: Kernel, setup: Setup, features: Tensor) -> SparseLayer:
        """The layer with its initial inducing inputs among the features (n, F)."""
        Z = each_gp(kernel, setup.centres(features, self.n_inducing))
        posterior = make_posterior(self._covariance(), torch.zeros(Z.shape[:2]), INITIAL_VAR)
        return SparseGP(kernel, Z, posterior, self.jitter)

    def _covariance(self) -> Covariance:
        """Parametrisation of q(u)."""
        return "natural" if self.optimizer == "natgrad" else self.covariance

    def _candidate(self, model: GPModel, n_data: float) -> Candidate[GPModel]:
        objective = self._objective()

        def loss(batch: Any) -> Tensor:
            return model.loss(
                batch,
                objective,
                beta_reg=self.beta_reg,
                weight_decay=self.weight_decay,
                n_data=n_data,
            )

        return Candidate(model, loss, self._make_optimizer(model, n_data))

    def _make_optimizer(self, model: GPModel, n_data: float) -> Optimizer:
        natural = [m for m in model.modules() if isinstance(m, NaturalPosterior)]
        apart = {id(p) for posterior in natural for p in posterior.parameters()}
        others = [p for p in model.parameters() if p.requires_grad and id(p) not in apart]
        adam = Adam(others, self.learning_rate_init)
        if not natural:
            return adam
        # A step of length rho multiplies the old precision by 1 - rho beta_reg.
        rate = _NATURAL_RATE / max(1.0, self.beta_reg)
        return NaturalGradient(natural, rate, n_data, adam)

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.optimizer != "natgrad":
            return
        if not self._objective().is_quadratic:
            model = type(self).__name__ + (" with gamma" if getattr(self, "gamma", None) else "")
            raise ValueError(
                "optimizer='natgrad' needs an objective that is quadratic in u, and that of "
                f"{model} is not: natural-gradient steps could leave q(u) without a covariance; "
                "use optimizer='adam'"
            )
        if self.covariance != "full":
            raise ValueError(
                "optimizer='natgrad' moves a full covariance: use covariance='full' or "
                f"optimizer='adam', got covariance={self.covariance!r}"
            )


def _principal_mixing(Y: Tensor, n_latents: int) -> Tensor:
    """Initial mixing matrix (W, P): the leading principal directions, scaled by their deviations.

    Latent functions of unit variance then reproduce the outputs' covariance.
    """
    eigenvalues, directions = torch.linalg.eigh(Y.mT @ Y / len(Y))
    deviations = eigenvalues[-n_latents:].clamp_min(1e-6).sqrt()
    return (directions[:, -n_latents:] * deviations).mT.flip(0)
