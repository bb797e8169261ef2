"""Deep Gaussian processes by doubly stochastic variational inference."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from skgp.core.kernels.kernel import LayerKernels
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import ELBO, PREDICTIVE, gamma_robust
from skgp.estimators._layer_choices import AUTO_WIDTH, LAYER_INDUCING
from skgp.estimators._model_groups import LAYER_KERNELS, OBSERVED
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import DEEP_EPOCHS, stack_recipe
from skgp.recipes.features import Warping
from skgp.recipes.hidden import Samples, hidden_layers
from skgp.recipes.outputs import LikelihoodName, observations
from skgp.recipes.spec import InitialValues, StackSpec


@family(
    texts={"most_steps": "2,000"},
    kernel=LAYER_KERNELS,
    width=AUTO_WIDTH,
    n_inducing=LAYER_INDUCING,
    likelihood=OBSERVED,
)
class DGPRegressor(GPRegressor):
    r"""Deep GP regression by doubly stochastic variational inference.

    The fit maximises the evidence lower bound. Hidden functions are sampled row by row, and the top
    layer is integrated out in closed form. The predictive distribution of a row is a mixture of
    normals, one for each of `n_prediction_samples` fixed nodes of the hidden layers.

    Parameters
    ----------
    n_layers : int, default=2
        Number of GP layers, including the output layer. One layer is SVGPRegressor.
    $width
    n_inducing : int or list of int, default=300
        Number M of inducing inputs of each GP, initialised by k-means; the cost per row and sample
        grows with M^2. A list has a number for each layer of GPs, from the inputs upwards.
    $max_iter
    $random_state

    Model
    $kernel
    n_samples : int, default=10
        Number of samples of the hidden functions for each row of a training step.
    n_prediction_samples : int, default=32
        Number of components of a prediction. Their nodes are a scrambled Sobol sequence, drawn once
        in `fit`.
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u), in all layers.
    objective : {"elbo", "predictive"}, default="elbo"
        "predictive" maximises the log of the sampled predictive density, which is biased ([2]_,
        appendix).
    beta_reg : float, default=1.0
        Weight of the divergences KL(q(u) || p(u)). One gives the evidence lower bound.
    gamma : float, optional
        If given, greater than 1: the gamma-divergence replaces the expected log likelihood, which
        makes the fit robust to outliers (Knoblauch et al. 2019). The papers use 1.01 to 1.1.
    $hidden
    $likelihood
    $n_latents
    $share_kernel
    $input_warping
    $features
    $beginning

    Training
    $minibatch
    $early_stopping
    $regressor
    $data_parallel

    $fitted_regressor

    See Also
    --------
    DSPPRegressor : The same layers, trained for the density of the predictions.
    SVGPRegressor : One layer.

    Notes
    -----
    The fit maximises ([1]_, Eqn 17; [2]_, Eqn 13), with the divergences of all layers,

    .. math::

        \sum_{i=1}^{n} \mathrm{E}_{q(f_i)} \left[ \log p(y_i \mid f_i) \right]
        - \beta_{\mathrm{reg}} \sum \mathrm{KL}\left(q(u) \| p(u)\right) .

    A sample of a hidden function is :math:`g = \mu_g(x) + \varepsilon \sigma_g(x)` with
    :math:`\varepsilon \sim \mathcal{N}(0, 1)` for each row ([1]_, Eqn 15). With the hidden
    functions :math:`g_s(x)` of the top layer's input at S nodes, the predictive density is ([1]_,
    Eqn 18)

    .. math::

        p(y \mid x) = \frac{1}{S} \sum_{s=1}^{S}
        \mathcal{N}\left(y \mid \mu_f(g_s(x)), \sigma_f^2(g_s(x)) + \sigma^2\right) .

    References
    ----------
    .. [1] $doubly_stochastic
    .. [2] $sigma_points_paper

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import DGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 1))
    >>> y = np.sign(X[:, 0]) + 0.1 * rng.standard_normal(300)
    >>> model = DGPRegressor(n_inducing=20, max_iter=1000, random_state=0).fit(X, y)
    >>> print(model.predict([[-0.5], [0.5]]).round(1))
    [-1.  1.]
    """

    # Parameters that the constructor stores.
    gamma: float | None
    objective: str
    share_kernel: bool | Literal["auto"]

    def __init__(
        self,
        *,
        n_layers: int = 2,
        width: int | Literal["auto"] = "auto",
        n_inducing: int | Sequence[int] = 300,
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: LayerKernels = "matern52",
        n_samples: int = 10,
        n_prediction_samples: int = 32,
        covariance: Literal["full", "diagonal"] = "full",
        objective: Literal["elbo", "predictive"] = "elbo",
        beta_reg: float = 1.0,
        gamma: float | None = None,
        hidden_mean: Literal["linear", "identity", "concatenate"] = "linear",
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
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        warm_start: bool = False,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
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
        objective = PREDICTIVE if self.objective == "predictive" else ELBO
        if self.gamma is not None:
            if self.objective != "elbo":
                raise ValueError(
                    f"gamma={self.gamma} belongs to objective='elbo', got "
                    f"objective={self.objective!r}: set one of the two"
                )
            objective = gamma_robust(self.gamma)
        layers = hidden_layers(self, pick(Samples, self))
        spec = replace(
            StackSpec.of(self, observations(self), self.covariance, layers),
            warping=pick(Warping, self),
            initial_values=pick(InitialValues, self),
            shares_kernel=self.share_kernel,
        )
        return stack_recipe(self, spec, objective=objective, epochs=DEEP_EPOCHS)
