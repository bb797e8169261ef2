"""Deep sigma point process classification."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from skgp.core.kernels.kernel import LayerKernels
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import PREDICTIVE
from skgp.estimators import _attributes
from skgp.estimators._classifier import Classifier
from skgp.estimators._entries import Deviation, at_least
from skgp.estimators._fit_groups import FOUND_EPOCHS, FOUND_STOPPING
from skgp.estimators._layer_choices import AUTO_HIDDEN_MEAN, AUTO_INDUCING, SHARED_KERNELS
from skgp.estimators._model_groups import (
    AUTO_BETA_REG,
    LAYER_KERNELS,
)
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.plans import FEW_BATCHES
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import SIGMA_POINT_EPOCHS, stack_recipe
from skgp.recipes.classes import Classes
from skgp.recipes.features import Warping
from skgp.recipes.hidden import QuadratureName, Sites, hidden_layers
from skgp.recipes.losses import FULL_ROWS, DivergenceWeight
from skgp.recipes.spec import INITIAL_VAR, StackSpec


@family(
    texts={
        "auto_epochs": "40",
        "least_steps": "100",
        "most_steps": "2,000",
        "of_several": "robust-max",
    },
    kernel=LAYER_KERNELS,
    n_layers=Deviation(constraint=[at_least(2)]),
    covariance=Deviation(default='"diagonal"'),
    n_inducing=AUTO_INDUCING,
    share_kernel=SHARED_KERNELS,
    beta_reg=AUTO_BETA_REG,
    hidden_mean=AUTO_HIDDEN_MEAN,
    max_iter=FOUND_EPOCHS,
    early_stopping=FOUND_STOPPING,
)
class DSPPClassifier(Classifier):
    r"""Deep sigma point process classification.

    A deep GP whose hidden layers are evaluated at a few nodes, learned or fixed, and whose fit
    maximises the log probability of the labels themselves. The paper does not treat classes; here
    its predictive density has a likelihood of classes.

    Parameters
    ----------
    n_inducing : int, list of int, or "auto", default="auto"
        Number M of inducing inputs of each GP, initialised by k-means; the cost per row and node
        grows with M^2. A list has a number for each layer of GPs, from the inputs upwards. "auto"
        is 64 up to one batch of rows, or 150 for functions that share them. Up to 600 distinct rows
        the top layer has one for each if that begins better on held-out rows. Up to ten batches it
        is three times the square root of the number of rows, at most 300. It is 300 for more rows
        and for streams. Up to 5,000 distinct inputs "auto" adds an untrained GP to the trained
        model (see Notes).
    $width
    beta_reg : float or "auto", default="auto"
        Weight of the divergences KL(q(u) || p(u)). "auto" is one up to 10,000 rows. For more it is
        5, because the nodes then learn, and probabilities would be too certain with one.
    $early_stopping
    $random_state

    Model
    $kernel
    $n_layers
    $sigma_points
    $share_kernel
    covariance : {"diagonal", "full"}, default="diagonal"
        Covariance of q(u), in all layers.
    $classes
    $hidden
    $input_warping
    $features

    Training
    $max_iter
    $minibatch
    $classifier

    Attributes
    ----------
    quadrature_points_ : array (n_layers - 1, Q, W)
        Standardised nodes of the hidden functions in a prediction.
    quadrature_weights_ : array (Q,)
        Their weights.
    beta_reg_ : float
        The weight of the divergences.
    $stacking_weights
    $class_attributes

    Raises
    ------
    $raises

    See Also
    --------
    DGPClassifier : The variational bound for the same layers.
    PPGPRClassifier : The same objective for one layer.

    Notes
    -----
    With nodes :math:`g^{(q)}` of the hidden functions and weights :math:`\omega_q`, as in
    DSPPRegressor ([1]_, Eqns 18 to 23), the fit maximises

    .. math::

        \sum_{i=1}^{n} \log \sum_{q=1}^{Q} \omega_q \,
        \mathrm{E}_{q(f \mid g^{(q)})} \left[ p(y_i \mid f) \right]
        - \beta_{\mathrm{reg}} \sum \mathrm{KL}\left(q(u) \| p(u)\right) .

    $class_averages

    References
    ----------
    .. [1] $sigma_points_paper

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import DSPPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.where(np.abs(X[:, 0]) < 1.5, "inner", "outer")
    >>> model = DSPPClassifier(n_inducing=20, max_iter=400, random_state=0).fit(X, y)
    >>> print(model.predict([[0.0], [2.5]]))
    ['inner' 'outer']
    """

    # Parameters that the constructor stores.
    share_kernel: bool | Literal["auto"]

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
        share_kernel: bool | Literal["auto"] = "auto",
        covariance: Literal["full", "diagonal"] = "diagonal",
        likelihood: Literal["auto", "probit", "logit", "robust-max", "softmax", "ordinal"] = "auto",
        label_noise: float = 1e-3,
        class_weight: Any = None,
        hidden_mean: Literal["auto", "linear", "identity", "concatenate"] = "auto",
        topology: Literal["feedforward", "skip-mean", "skip-mean-both", "skip-all"] = "feedforward",
        hidden_noise: bool = False,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        warm_start: bool = False,
        normalize_X: bool = True,
        jitter: float = 1e-4,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        compile: bool = False,
        device: str = "cpu",
        checkpoint: Any = None,
        memory: Any = None,
        verbose: int = 0,
    ) -> None:
        store_parameters(self, locals())

    def _recipe(self) -> Recipe:
        classes = partial(pick(Classes, self), "robust-max")
        layers = hidden_layers(self, pick(Sites, self), variance=INITIAL_VAR)
        spec = replace(
            StackSpec.of(self, classes, self.covariance, layers),
            warping=pick(Warping, self),
            shares_kernel=self.share_kernel,
            pulled=True,
        )
        return stack_recipe(
            self,
            spec,
            objective=PREDICTIVE,
            beta_reg=DivergenceWeight.of(self.beta_reg, FEW_BATCHES * FULL_ROWS, least=5.0),
            epochs=SIGMA_POINT_EPOCHS,
        )

    quadrature_points_ = property(_attributes.quadrature_points)
    quadrature_weights_ = property(_attributes.quadrature_weights)
    beta_reg_ = property(_attributes.beta_reg)
    stacking_weights_ = property(_attributes.stacking_weights)
