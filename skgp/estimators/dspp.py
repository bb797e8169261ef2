"""Deep sigma point processes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from skgp.core.kernels.kernel import LayerKernels
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import PREDICTIVE
from skgp.estimators import _attributes
from skgp.estimators._entries import Deviation, at_least
from skgp.estimators._fit_groups import FOUND_EPOCHS, FOUND_STOPPING, UNTRAINED_JITTER
from skgp.estimators._layer_choices import AUTO_HIDDEN_MEAN, AUTO_INDUCING
from skgp.estimators._model_groups import (
    AUTO_BETA_REG,
    LAYER_KERNELS,
    OBSERVED,
)
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import LONGER_STEPS, SIGMA_POINT_EPOCHS, stack_recipe
from skgp.recipes.features import Warping
from skgp.recipes.hidden import QuadratureName, Sites, hidden_layers
from skgp.recipes.losses import FULL_ROWS, DivergenceWeight
from skgp.recipes.optimizers import adam_by_noise_and_sizes
from skgp.recipes.outputs import LikelihoodName, observations
from skgp.recipes.spec import INITIAL_VAR, InitialValues, StackSpec


@family(
    texts={"auto_epochs": "40", "least_steps": "100", "most_steps": "2,000"},
    kernel=LAYER_KERNELS,
    n_layers=Deviation(constraint=[at_least(2)]),
    covariance=Deviation(default='"diagonal"'),
    n_inducing=AUTO_INDUCING,
    beta_reg=AUTO_BETA_REG,
    max_iter=FOUND_EPOCHS,
    early_stopping=FOUND_STOPPING,
    hidden_mean=AUTO_HIDDEN_MEAN,
    likelihood=OBSERVED,
    noise_floor=Deviation(default="1e-5"),
    jitter=Deviation(text=UNTRAINED_JITTER),
)
class DSPPRegressor(GPRegressor):
    r"""Deep sigma point process regression (DSPP).

    A deep GP whose hidden layers are evaluated at a few nodes, learned or fixed, and whose fit
    maximises the log density of the predictions themselves, without sampling. The predictive
    distribution of a row is a mixture of normals, one for each node: flexible and calibrated.

    Parameters
    ----------
    n_inducing : int, list of int, or "auto", default="auto"
        Number M of inducing inputs of each GP: points, initialised by k-means, whose function
        values stand in for all rows. The cost per row and node grows with M^2. A list has a number
        for each layer of GPs, from the inputs upwards; steps are shorter where the last is larger
        than the first. "auto" is 64 up to one batch of rows, where more overfit, or 150 for
        functions that share them. From one batch up to ten it is three times the square root of the
        number of rows, at most 300. It is 300 for more rows and for streams. With one output, up to
        twenty batches and 20,000 distinct inputs, "auto" adds an untrained model with one sigma
        point, whose top layer has one for each input, or 2,000 beyond 3,000. Predictions mix both
        models, with weights from held-out rows; beyond 3,000 they do so only if the log density of
        these rows gains 0.02 per row over the trained model, because they take longer: 0.2 to 0.5
        ms a row. With a number there is only the trained model.
    $width
    beta_reg : float or "auto", default="auto"
        Weight of the divergences KL(q(u) || p(u)). "auto" is one up to 1,000 rows. For more rows it
        falls in inverse proportion to their number, down to 0.05.
    $early_stopping
    $random_state

    Model
    $kernel
    $n_layers
    $sigma_points
    covariance : {"diagonal", "full"}, default="diagonal"
        Covariance of q(u), in all layers that are trained. An untrained top layer of all inputs
        (see `n_inducing`) has a full one.
    $hidden
    $likelihood
    $n_latents
    $share_kernel
    $input_warping
    $features
    $beginning

    Training
    $max_iter
    $minibatch
    $regressor
    $data_parallel

    Attributes
    ----------
    beta_reg_ : float
        Weight of the divergences in the fit.
    $stacking_weights
    $copy_probability
    quadrature_points_ : array (n_layers - 1, Q, W)
        Standardised nodes of the hidden functions in a prediction.
    quadrature_weights_ : array (Q,)
        Their weights, which are those of the components of a prediction of the trained model.
    $inducing_points
    $attributes

    Raises
    ------
    $raises

    See Also
    --------
    PPGPRRegressor : The same objective for one layer.
    DGPRegressor : The variational bound for the same layers.

    Notes
    -----
    The hidden function :math:`w` has the mean :math:`\mu_w(x)` and the standard deviation
    :math:`\sigma_w(x)`. With Q nodes :math:`\xi^{(q)}` and weights :math:`\omega_q`, the predictive
    density of two layers is the mixture ([1]_, Eqns 20, 22 and 23)

    .. math::

        p(y \mid x) = \sum_{q=1}^{Q} \omega_q \,
        \mathcal{N}\left(y \mid \mu_f(g^{(q)}), \sigma_f^2(g^{(q)}) + \sigma^2\right) ,
        \qquad g_w^{(q)} = \mu_w(x) + \xi_w^{(q)} \sigma_w(x) ,

    and the fit maximises ([1]_, Eqn 21), with the divergences of all layers,

    .. math::

        \sum_{i=1}^{n} \log p(y_i \mid x_i)
        - \beta_{\mathrm{reg}} \sum \mathrm{KL}\left(q(u) \| p(u)\right) .

    With ``quadrature="continuous"`` the density is the integral of the same normal over a mixture
    of S normals, which the paper names as future work ([1]_, section 6):

    .. math::

        \xi \sim \sum_{s=1}^{S} \omega_s \,
        \mathcal{N}\left(c_s, \operatorname{diag}(t_s^2)\right) .

    Each row and training step has one draw from each of the S normals. The log of an average of
    draws is lower in expectation than the log of the integral, so the fit maximises a lower bound
    on the log density. The nodes of a prediction are fixed.

    $averages

    References
    ----------
    .. [1] $sigma_points_paper

    Examples
    --------
    Two branches, which one normal per row cannot tell:

    >>> import numpy as np
    >>> from skgp import DSPPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 1))
    >>> y = np.sign(rng.standard_normal(400)) + X[:, 0] + 0.05 * rng.standard_normal(400)
    >>> model = DSPPRegressor(n_inducing=20, max_iter=600, random_state=0).fit(X, y)
    >>> between, on_one = np.exp(model.predict_dist([[0.0]] * 2).logpdf([0.0, 1.0]))
    >>> bool(between < 0.01), bool(on_one > 1.0)  # the density of two branches
    (True, True)
    """

    def __init__(
        self,
        *,
        n_inducing: int | Sequence[int] | Literal["auto"] = "auto",
        width: int = 3,
        beta_reg: float | Literal["auto"] = "auto",
        early_stopping: bool | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: LayerKernels = "matern52",
        n_layers: int = 2,
        n_sites: int = 10,
        quadrature: QuadratureName = "auto",
        covariance: Literal["full", "diagonal"] = "diagonal",
        hidden_mean: Literal["auto", "linear", "identity", "concatenate"] = "auto",
        topology: Literal["feedforward", "skip-mean", "skip-mean-both", "skip-all"] = "feedforward",
        hidden_noise: bool = False,
        likelihood: LikelihoodName = "normal",
        n_latents: int | None = None,
        share_kernel: bool | Literal["auto"] = False,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        prior_mean: Literal["constant", "zero"] = "constant",
        initial_noise: float | None = None,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
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
        layers = hidden_layers(self, pick(Sites, self), variance=INITIAL_VAR)
        spec = replace(
            StackSpec.of(self, observations(self), self.covariance, layers),
            warping=pick(Warping, self),
            initial_values=pick(InitialValues, self),
            shares_kernel=self.share_kernel,
            start="optimum",
        )
        return stack_recipe(
            self,
            spec,
            objective=PREDICTIVE,
            beta_reg=DivergenceWeight.of(self.beta_reg, FULL_ROWS, least=0.05),
            optimizer=partial(adam_by_noise_and_sizes, self.initial_noise, self.learning_rate_init),
            epochs=replace(SIGMA_POINT_EPOCHS, steady=LONGER_STEPS),
        )

    beta_reg_ = property(_attributes.beta_reg)
    stacking_weights_ = property(_attributes.stacking_weights)
    copy_probability_ = property(_attributes.copy_probability)
    quadrature_points_ = property(_attributes.quadrature_points)
    quadrature_weights_ = property(_attributes.quadrature_weights)
