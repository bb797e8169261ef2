"""Sparse variational GP regression."""

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from skgp.core.features import FeatureExtractor
from skgp.core.kernels import Kernel, KernelLike
from skgp.core.layers import OrthogonalGP, SparseLayer
from skgp.core.objectives import ELBO, Objective, gamma_robust
from skgp.core.variational import make_posterior
from skgp.estimators._documentation import documented
from skgp.estimators._gp_estimator import each_gp
from skgp.estimators._parameters import store_parameters
from skgp.estimators._setup import Setup
from skgp.estimators._sparse_regressor import SparseRegressor
from skgp.estimators._stack_estimator import INITIAL_VAR


@documented(rate="0.03", auto_dtype="float64 for a table of one batch and float32 for a larger one")
class SVGPRegressor(SparseRegressor):
    """Sparse variational GP regression, with its MAP, robust and orthogonally decoupled variants.

    Maximises the evidence lower bound by minibatches (Hensman et al. 2013; parametric GP paper,
    Eqn 6): sum_i [log N(y_i | f_mean, noise) - f_var / (2 noise)] - beta_reg KL(q(u) || p(u)). The
    predictive distribution of a row is one normal, N(f_mean, f_var + noise) (Eqn 11).

    Parameters
    ----------
    $kernel
    n_inducing : int, default=300
        Number M of inducing inputs, started by k-means; cost grows with M^2 per row.
    n_orthogonal : int, default=0
        Number of further inducing inputs that serve the mean alone, in a basis orthogonal to that
        of q(u) (OD-SVGP; Cheng and Boots 2017; Salimbeni et al. 2018); each costs M per row.
    covariance : {"full", "diagonal", "delta"}, default="full"
        Covariance of q(u). "delta" is a point with log p(u) in the objective (MAP; parametric GP
        paper, Eqn 3), in the whitened variables.
    beta_reg : float, default=1.0
        Weight of the divergence KL(q(u) || p(u)). One gives the evidence lower bound.
    gamma : float, optional
        If given, greater than 1: the gamma-divergence takes the place of the expected log
        likelihood, which damps the pull of outliers (Knoblauch et al. 2019; parametric GP paper,
        Eqn 9). The papers use 1.01 to 1.1.
    $n_latents
    $features
    $minibatch
    $optimizer
    $stopping
    $restarts
    $scaling
    $running

    Attributes
    ----------
    $inducing_points
    $attributes

    Raises
    ------
    $raises

    See Also
    --------
    PPGPRRegressor : Calibrated where the noise varies with the inputs.
    VFITCRegressor : A variance of its own for what the inducing inputs leave unexplained.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import SVGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> model = SVGPRegressor(n_inducing=20, max_iter=200, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> print(f"{mean[0]:.1f} +- {std[0]:.1f}")
    0.5 +- 0.1
    """

    n_orthogonal: int
    gamma: float | None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseRegressor._parameter_constraints,
        "covariance": [StrOptions({"full", "diagonal", "delta"})],
        "n_orthogonal": [Interval(Integral, 0, None, closed="left")],
        "gamma": [Interval(Real, 1, None, closed="neither"), None],
    }

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        n_inducing: int = 300,
        n_orthogonal: int = 0,
        covariance: Literal["full", "diagonal", "delta"] = "full",
        beta_reg: float = 1.0,
        gamma: float | None = None,
        n_latents: int | None = None,
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        optimizer: Literal["adam", "natgrad"] = "adam",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
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
        return ELBO if self.gamma is None else gamma_robust(self.gamma)

    def _layer(self, kernel: Kernel, setup: Setup, features: Tensor, n_gps: int) -> SparseLayer:
        Z = setup.centres(features, self.n_inducing)
        joint = setup.centres(features, self.n_inducing + self.n_orthogonal)
        n_orthogonal = len(joint) - len(Z)  # fewer than asked for if there are few distinct rows
        if n_orthogonal == 0:
            return super()._layer(kernel, setup, features, n_gps)
        # The mean's own basis is to be where that of q(u) is not.
        farthest = torch.cdist(joint, Z).amin(1).topk(n_orthogonal).indices
        Z, Z_mean = each_gp(kernel, Z), each_gp(kernel, joint[farthest])
        mu = torch.zeros(Z.shape[:2], dtype=torch.float32)
        posterior = make_posterior(self._covariance(), mu, INITIAL_VAR)
        return OrthogonalGP(kernel, Z_mean, Z, posterior, self.jitter)
