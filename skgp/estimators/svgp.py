"""Sparse variational GP regression."""

from functools import partial
from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import ELBO, gamma_robust
from skgp.estimators._entries import Deviation
from skgp.estimators._fit_groups import OPTIMUM_OR_EPOCHS
from skgp.estimators._layer_choices import OWN_KERNELS
from skgp.estimators._model_groups import OBSERVED
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import stack_recipe
from skgp.recipes.collapsed import with_optimum
from skgp.recipes.losses import DivergenceWeight
from skgp.recipes.optimizers import natural_or_adam
from skgp.recipes.outputs import LikelihoodName, observations
from skgp.recipes.stack import no_start
from skgp.recipes.tops import orthogonal_top
from skgp.recipes.warping import Warping


@family(
    texts={
        "auto_dtype": "float64 for a table of one batch or one whose optimum is found, and float32 "
        "for a larger one"
    },
    covariance=Deviation.choice("full", "diagonal", "delta"),
    share_kernel=OWN_KERNELS,
    max_iter=OPTIMUM_OR_EPOCHS,
    likelihood=OBSERVED,
)
class SVGPRegressor(GPRegressor):
    """Sparse variational GP regression, with its MAP, robust and orthogonally decoupled variants.

    Maximises the evidence lower bound by minibatches (Hensman et al. 2013; parametric GP paper,
    Eqn 6): sum_i [log N(y_i | f_mean, noise) - f_var / (2 noise)] - beta_reg KL(q(u) || p(u)). The
    predictive distribution of a row is one normal, N(f_mean, f_var + noise) (Eqn 11).

    Parameters
    ----------
    $kernel
    n_inducing : int, default=300
        Number M of inducing inputs, started by k-means; cost grows with M^2 per row.
    $share_kernel
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
    $likelihood
    $n_latents
    $input_warping
    $features
    $minibatch
    $optimizer
    $regressor
    $data_parallel

    $fitted_regressor

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

    # Parameters that the constructor stores.
    beta_reg: float
    gamma: float | None
    likelihood: LikelihoodName
    n_orthogonal: int
    share_kernel: bool | Literal["auto"]

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        n_inducing: int = 300,
        share_kernel: bool | Literal["auto"] = False,
        n_orthogonal: int = 0,
        covariance: Literal["full", "diagonal", "delta"] = "full",
        beta_reg: float = 1.0,
        gamma: float | None = None,
        likelihood: LikelihoodName = "normal",
        n_latents: int | None = None,
        input_warping: bool | Literal["auto"] = "auto",
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
        compile: bool = False,
        warm_start: bool = False,
        checkpoint: Any = None,
        memory: Any = None,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
        data_parallel: bool = False,
    ) -> None:
        store_parameters(self, locals())

    def _recipe(self) -> Recipe:
        if self.share_kernel and self.n_orthogonal:
            raise ValueError(
                f"share_kernel={self.share_kernel!r} is for one set of inducing inputs, and "
                f"n_orthogonal={self.n_orthogonal} adds further ones: leave one of them out"
            )
        objective = ELBO if self.gamma is None else gamma_robust(self.gamma)
        beta_reg = DivergenceWeight(self.beta_reg)
        covariance, optimizer = natural_or_adam(self, objective, beta_reg)
        recipe = partial(
            stack_recipe,
            self,
            objective=objective,
            outputs=observations(self),
            warping=pick(Warping, self),
            top=partial(orthogonal_top, self.n_orthogonal),
            covariance=covariance,
            shares_kernel=self.share_kernel,
            optimizer=optimizer,
        )
        is_plain = objective is ELBO and self.beta_reg == 1.0 and not self.n_orthogonal
        is_plain = is_plain and self.likelihood == "normal"
        is_whole = self.max_iter == "auto" and not self.early_stopping and self.dtype != "float32"
        if not (is_plain and is_whole and covariance == "full" and self.feature_extractor is None):
            return recipe()
        is_standardised = self.normalize_X and self.normalize_y
        return with_optimum(recipe(), recipe(start=no_start), is_standardised=is_standardised)
