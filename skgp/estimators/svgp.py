"""Sparse variational GP regression."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import ELBO, gamma_robust
from skgp.estimators._entries import Deviation
from skgp.estimators._fit_groups import KEPT_JITTER, OPTIMUM_OR_EPOCHS
from skgp.estimators._layer_choices import FOUND_INDUCING
from skgp.estimators._model_groups import OBSERVED
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import stack_recipe
from skgp.recipes.features import Warping
from skgp.recipes.losses import DivergenceWeight
from skgp.recipes.optimizers import natural_or_adam
from skgp.recipes.optimum import with_optimum
from skgp.recipes.outputs import LikelihoodName, observations
from skgp.recipes.spec import MANY_INDUCING, MOST_FIXED_INDUCING, InitialValues, StackSpec
from skgp.recipes.tops import orthogonal_top


@family(
    texts={
        "auto_dtype": "float64 for a data set of one batch or one whose optimum is found, and "
        "float32 for a larger one"
    },
    n_inducing=FOUND_INDUCING,
    covariance=Deviation.choice("full", "diagonal", "delta"),
    max_iter=OPTIMUM_OR_EPOCHS,
    likelihood=OBSERVED,
    noise_floor=Deviation(default="1e-5"),
    jitter=Deviation(
        default="1e-6",
        text=f"{KEPT_JITTER}    With an inducing input for each distinct row: a ten-thousandth.\n",
    ),
)
class SVGPRegressor(GPRegressor):
    r"""Sparse variational GP regression, with its MAP, robust and orthogonally decoupled variants.

    The fit maximises the evidence lower bound: of one target on up to 20,000 rows directly, else by
    minibatches (see `max_iter`). The predictive distribution of a row is one normal, and most of
    its variance is noise that is the same for all rows.

    Parameters
    ----------
    $kernel
    n_inducing : int or "auto", default="auto"
        Number M of inducing inputs: points, initialised by k-means, whose function values stand in
        for all rows. More of them follow finer detail; the cost per row grows with M^2. "auto" is
        300. With the optimum of the bound, see `max_iter`, it is the number of distinct inputs up
        to 1,500.
    $likelihood
    $max_iter
    $random_state

    Model
    n_orthogonal : int, default=0
        Number of further inducing inputs that serve the mean alone, in a basis orthogonal to that
        of q(u) (OD-SVGP; Cheng and Boots 2017; Salimbeni et al. 2018). Each costs M per row.
    covariance : {"full", "diagonal", "delta"}, default="full"
        Covariance of q(u). "delta" is a point with log p(u) in the objective (MAP; [2]_, Eqn 3), in
        the whitened variables.
    beta_reg : float, default=1.0
        Weight of the divergence KL(q(u) || p(u)). One gives the evidence lower bound.
    gamma : float, optional
        If given, greater than 1: the gamma-divergence replaces the expected log likelihood, which
        makes the fit robust to outliers (Knoblauch et al. 2019; [2]_, Eqn 9). The papers use 1.01
        to 1.1.
    $n_latents
    $share_kernel
    $input_warping
    $features
    $beginning

    Training
    $minibatch
    $optimizer
    $early_stopping
    $regressor
    $data_parallel

    $fitted_regressor

    See Also
    --------
    PPGPRRegressor : Calibrated where the noise varies with the inputs.
    VFITCRegressor : A variance of its own for what the inducing inputs leave unexplained.

    Notes
    -----
    Let :math:`\mu_f(x)` and :math:`\sigma_f^2(x)` be the mean and the variance of the latent
    function under :math:`q(u)`, and :math:`\sigma^2` the variance of the noise. The fit maximises
    ([1]_; [2]_, Eqn 6)

    .. math::

        \sum_{i=1}^{n} \left[ \log \mathcal{N}\left(y_i \mid \mu_f(x_i), \sigma^2\right)
        - \frac{\sigma_f^2(x_i)}{2 \sigma^2} \right]
        - \beta_{\mathrm{reg}} \, \mathrm{KL}\left(q(u) \| p(u)\right) .

    The predictive density is :math:`\mathcal{N}(y \mid \mu_f(x), \sigma_f^2(x) + \sigma^2)` ([2]_,
    Eqn 11).

    References
    ----------
    .. [1] $big_data
    .. [2] $parametric

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
        n_inducing: int | Literal["auto"] = "auto",
        likelihood: LikelihoodName = "normal",
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        n_orthogonal: int = 0,
        covariance: Literal["full", "diagonal", "delta"] = "full",
        beta_reg: float = 1.0,
        gamma: float | None = None,
        n_latents: int | None = None,
        share_kernel: bool | Literal["auto"] = False,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        prior_mean: Literal["constant", "zero"] = "constant",
        initial_noise: float | None = None,
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        optimizer: Literal["adam", "natgrad"] = "adam",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        warm_start: bool = False,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-5,
        jitter: float = 1e-6,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        compile: bool = False,
        device: str = "cpu",
        checkpoint: Any = None,
        memory: Any = None,
        verbose: int = 0,
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
        spec = replace(
            StackSpec.of(self, observations(self), covariance),
            warping=pick(Warping, self),
            initial_values=pick(InitialValues, self),
            top=partial(orthogonal_top, self.n_orthogonal),
            shares_kernel=self.share_kernel,
        )
        recipe = stack_recipe(self, spec, objective=objective, optimizer=optimizer)
        is_plain = objective is ELBO and self.beta_reg == 1.0 and not self.n_orthogonal
        is_plain = is_plain and self.likelihood == "normal"
        is_whole = self.max_iter == "auto" and not self.early_stopping and self.dtype != "float32"
        if not (is_plain and is_whole and covariance == "full" and self.feature_extractor is None):
            return recipe
        spec = replace(spec, start="few rows", all_inducing=MOST_FIXED_INDUCING)
        short = stack_recipe(self, spec, objective=objective, optimizer=optimizer)
        n_inducing = MANY_INDUCING if self.n_inducing == "auto" else int(self.n_inducing)
        is_standardised = self.normalize_X and self.normalize_y
        return with_optimum(recipe, short, n_inducing, is_standardised=is_standardised)
