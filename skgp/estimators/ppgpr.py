"""Parametric predictive GP regression."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import PREDICTIVE, gamma_predictive, renyi_divergence
from skgp.estimators import _attributes
from skgp.estimators._entries import Deviation, at_least
from skgp.estimators._fit_groups import FOUND_EPOCHS, FOUND_STOPPING, UNTRAINED_JITTER
from skgp.estimators._layer_choices import FOUND_INDUCING, NEURAL_MEAN
from skgp.estimators._model_groups import AUTO_BETA_REG, OBSERVED
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import LONGER_STEPS, PREDICTIVE_EPOCHS, stack_recipe
from skgp.recipes.features import Warping
from skgp.recipes.losses import FULL_ROWS, DivergenceWeight
from skgp.recipes.optimizers import adam_by_noise, natural_or_adam
from skgp.recipes.outputs import LikelihoodName, observations
from skgp.recipes.spec import ALL_INDUCING, InitialValues, StackSpec, sparse_top
from skgp.recipes.tops import decoupled_if_long, decoupled_top


@family(
    n_inducing=FOUND_INDUCING,
    covariance=Deviation.choice("auto", "decoupled", "full", "diagonal", "delta", default="auto"),
    beta_reg=AUTO_BETA_REG,
    max_iter=FOUND_EPOCHS,
    early_stopping=FOUND_STOPPING,
    learning_rate_init=Deviation(default="0.02"),
    likelihood=OBSERVED,
    n_inducing_mean=Deviation(constraint=[at_least(0)]),
    prior_mean=NEURAL_MEAN,
    noise_floor=Deviation(default="1e-5"),
    jitter=Deviation(text=UNTRAINED_JITTER),
)
class PPGPRRegressor(GPRegressor):
    r"""Parametric predictive GP regression (PPGPR).

    The fit maximises the log density of the predictions themselves. The variance of the latent
    function then learns noise that depends on the inputs, and predictions tend to be calibrated.
    The predictive distribution of a row is one normal, or, of up to one batch of rows, a mixture of
    normals (see Notes).

    Parameters
    ----------
    n_inducing : int or "auto", default="auto"
        Number M of inducing inputs: points, initialised by k-means, whose function values stand in
        for all rows. More of them follow finer detail; the cost per row grows with M^2. With
        covariance="decoupled" these serve the variance. "auto" is 300, but with one output and up
        to 600 distinct inputs the number of these. Up to 20,000 distinct inputs (and twenty
        batches) "auto" adds an untrained model, which has all of them, or 2,000 beyond 3,000.
        Predictions mix both models, with weights from held-out rows; beyond 3,000 they do so only
        if the log density of these rows gains 0.02 per row over the trained model, because they
        take longer: 0.2 to 0.5 ms a row. With a number there is only the trained model.
    covariance : {"auto", "decoupled", "full", "diagonal", "delta"}, default="auto"
        Covariance of q(u). "decoupled" (PPGPR-MFD) is diagonal, and mean and variance have
        separate inducing inputs. "delta" is a point with the regulariser -log p(u). "auto" is
        "full" up to one batch of rows, and "decoupled" for more rows and for streams.
    beta_reg : float or "auto", default="auto"
        Weight of the divergence KL(q(u) || p(u)). "auto" is one up to 1,000 rows. For more rows it
        falls in inverse proportion to their number, down to 0.2.
    $early_stopping
    $random_state

    Model
    $kernel
    n_inducing_mean : int, default=1000
        Number of inducing inputs of the mean if covariance="decoupled": they cost M per row. With 0
        the mean is the prior mean alone, which prior_mean="network" makes flexible ([1]_, section
        6), and covariance="auto" is "decoupled".
    gamma : float, optional
        If given, greater than 1: the gamma score of the predictive density replaces its log
        ([1]_, section 3.4), so that outliers pull less. 1.01 to 1.1 are usual; where many targets
        of a region are outliers, it takes 1.3. The larger, the narrower are the predictions.
    renyi_order : float, optional
        If given, positive: the order a of the Renyi divergence of q(u) from p(u), which then
        replaces the KL divergence ([1]_, section 3.4). Less than one constrains q(u) less, more
        than one constrains it more; one is the KL divergence. Above one it is finite only while the
        variances of q(u) stay below a / (a - 1) times those of p(u), and a fit that leaves that
        region starts anew with shorter steps. It has no effect if covariance="delta".
    $likelihood
    $n_latents
    $share_kernel
    $input_warping
    $features
    $beginning

    Training
    $max_iter
    $minibatch
    $optimizer
    $regressor
    $data_parallel

    Attributes
    ----------
    beta_reg_ : float
        Weight of the divergence in the fit.
    $stacking_weights
    $copy_probability
    $inducing_points
    $attributes

    Raises
    ------
    $raises

    See Also
    --------
    SVGPRegressor : The usual objective, a bound on the evidence.

    Notes
    -----
    Let :math:`\mu_f(x)` and :math:`\sigma_f^2(x)` be the mean and the variance of the latent
    function under :math:`q(u)`, and :math:`\sigma^2` the variance of the noise. The fit maximises
    ([1]_, Eqns 17 and 18)

    .. math::

        \sum_{i=1}^{n} \log \mathcal{N}\left(y_i \mid \mu_f(x_i), \sigma_f^2(x_i) + \sigma^2\right)
        - \beta_{\mathrm{reg}} \, \mathrm{KL}\left(q(u) \| p(u)\right) ,

    whose terms are the log predictive densities ([1]_, Eqn 11). The evidence lower bound of
    `SVGPRegressor` divides the squared error by :math:`\sigma^2` alone, this objective by
    :math:`\sigma_f^2(x_i) + \sigma^2` ([1]_, Eqns 19 to 21). It is not quadratic in u, so
    optimizer="natgrad" is refused.

    Only the weights of the mean have an optimum in closed form. After training on several batches
    with `n_inducing="auto"`, one output and covariance="decoupled", they move there, or to where
    rows with large variances count for more, if held-out rows prefer it.

    With `gamma` the terms are, for the predictive density :math:`p_i` of row i ([2]_),

    .. math::

        \frac{\gamma}{\gamma - 1} \left[ \frac{p_i(y_i)^{\gamma - 1}}
        {\left(\int p_i(y)^\gamma \, dy\right)^{(\gamma - 1) / \gamma}} - 1 \right] ,

    joint over the outputs of a row. With `renyi_order` the divergence is, for the whitened
    :math:`q = \mathcal{N}(m, S)` and :math:`C = a I + (1 - a) S` ([3]_, Eqn 10 along each
    eigenvector of S),

    .. math::

        \frac{1}{a - 1} \log \int q(u)^a \, p(u)^{1 - a} \, du
        = \frac{1}{2} \left[ a \, m^\top C^{-1} m + \frac{\log |C|}{1 - a} - \log |S| \right] .

    $averages

    References
    ----------
    .. [1] $parametric
    .. [2] $generalized
    .. [3] T. van Erven and P. Harremoes, "Renyi divergence and Kullback-Leibler divergence", IEEE
        Transactions on Information Theory 2014. https://arxiv.org/abs/1206.2459

    Examples
    --------
    Noise that grows with x:

    >>> import numpy as np
    >>> from skgp import PPGPRRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 3, (500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * X[:, 0] * rng.standard_normal(500)
    >>> model = PPGPRRegressor(n_inducing=20, n_inducing_mean=20, random_state=0)
    >>> dist = model.fit(X, y).predict_dist([[1.0], [2.0]])
    >>> print(dist.std().round(1))
    [0.1 0.2]
    """

    # Parameters that the constructor stores.
    beta_reg: float | Literal["auto"]
    covariance: str
    gamma: float | None
    n_inducing_mean: int
    renyi_order: float | None

    _changeable: ClassVar[frozenset[str]] = GPRegressor._changeable | {"renyi_order"}

    def __init__(
        self,
        *,
        n_inducing: int | Literal["auto"] = "auto",
        covariance: Literal["auto", "decoupled", "full", "diagonal", "delta"] = "auto",
        beta_reg: float | Literal["auto"] = "auto",
        early_stopping: bool | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: KernelLike = "matern52",
        n_inducing_mean: int = 1000,
        gamma: float | None = None,
        renyi_order: float | None = None,
        likelihood: LikelihoodName = "normal",
        n_latents: int | None = None,
        share_kernel: bool | Literal["auto"] = False,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        prior_mean: Literal["constant", "zero", "network"] = "constant",
        initial_noise: float | None = None,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.02,
        optimizer: Literal["adam", "natgrad"] = "adam",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        warm_start: bool = False,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-5,
        jitter: float = 1e-4,
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
        beta_reg = DivergenceWeight.of(self.beta_reg, FULL_ROWS, least=0.2)
        objective = PREDICTIVE if self.gamma is None else gamma_predictive(self.gamma)
        if self.renyi_order is not None:
            order = float(self.renyi_order)
            objective = objective._replace(regulariser=partial(renyi_divergence, order=order))
        make_adam = partial(adam_by_noise, self.initial_noise)
        covariance, optimizer = natural_or_adam(self, objective, beta_reg, make_adam=make_adam)
        if self.share_kernel and self.covariance == "decoupled":
            raise ValueError(
                f"share_kernel={self.share_kernel!r} is for one set of inducing inputs, and "
                "covariance='decoupled' has two: leave one of them out"
            )
        decoupled = partial(decoupled_top, self.n_inducing_mean)
        has_basis = self.n_inducing_mean > 0
        if_long = partial(decoupled_if_long, self.n_inducing_mean)
        tops = {"auto": if_long if has_basis else decoupled, "decoupled": decoupled}
        covariance = "full" if self.covariance == "auto" else covariance
        spec = replace(
            StackSpec.of(self, observations(self), covariance),
            warping=pick(Warping, self),
            initial_values=pick(InitialValues, self),
            top=tops.get(self.covariance, sparse_top),
            shares_kernel=self.share_kernel,
            start="optimum" if has_basis else "given",
            all_inducing=ALL_INDUCING,
        )
        return stack_recipe(
            self,
            spec,
            objective=objective,
            beta_reg=beta_reg,
            optimizer=optimizer,
            epochs=replace(PREDICTIVE_EPOCHS, steady=LONGER_STEPS),
        )

    beta_reg_ = property(_attributes.beta_reg)
    stacking_weights_ = property(_attributes.stacking_weights)
    copy_probability_ = property(_attributes.copy_probability)
