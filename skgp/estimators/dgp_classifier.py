"""Deep Gaussian process classification."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from skgp.core.kernels.kernel import LayerKernels
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import ELBO, PREDICTIVE
from skgp.estimators._classifier import Classifier
from skgp.estimators._layer_choices import LAYER_INDUCING, SHARED_KERNELS
from skgp.estimators._model_groups import LAYER_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import DEEP_EPOCHS, stack_recipe
from skgp.recipes.classes import Classes
from skgp.recipes.features import Warping
from skgp.recipes.hidden import Samples, hidden_layers
from skgp.recipes.spec import StackSpec


@family(
    texts={"most_steps": "2,000", "of_several": "softmax"},
    kernel=LAYER_KERNELS,
    n_inducing=LAYER_INDUCING,
    share_kernel=SHARED_KERNELS,
)
class DGPClassifier(Classifier):
    r"""Deep GP classification by doubly stochastic variational inference.

    The fit maximises the evidence lower bound. Hidden functions are sampled row by row, and the
    expectation over the top layer is that of SVGPClassifier. A prediction is the mean of the
    probabilities at `n_prediction_samples` fixed nodes of the hidden layers.

    Parameters
    ----------
    n_layers : int, default=2
        Number of GP layers, including the output layer. One layer is SVGPClassifier.
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
        Number of nodes of a prediction: a scrambled Sobol sequence, drawn once in `fit`.
    $share_kernel
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u), in all layers.
    objective : {"elbo", "predictive"}, default="elbo"
        "predictive" maximises the log of the sampled predictive density, which is biased (Jankowiak
        et al., Deep Sigma Point Processes, appendix).
    $classes
    beta_reg : float, default=1.0
        Weight of the divergences KL(q(u) || p(u)). One gives the evidence lower bound.
    $hidden
    $input_warping
    $features

    Training
    $minibatch
    $early_stopping
    $classifier

    $fitted_classifier

    See Also
    --------
    DSPPClassifier : The same layers, trained for the probabilities of the labels.
    SVGPClassifier : One layer.

    Notes
    -----
    The fit maximises ([1]_, Eqn 17), with the divergences of all layers,

    .. math::

        \sum_{i=1}^{n} \mathrm{E}_{q(f_i)} \left[ \log p(y_i \mid f_i) \right]
        - \beta_{\mathrm{reg}} \sum \mathrm{KL}\left(q(u) \| p(u)\right) .

    With the hidden functions :math:`g_s(x)` at S nodes, predictions are ([1]_, Eqn 18)

    .. math::

        p(y \mid x) = \frac{1}{S} \sum_{s=1}^{S} \mathrm{E}_{q(f \mid g_s(x))}
        \left[ p(y \mid f) \right] .

    References
    ----------
    .. [1] $doubly_stochastic

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import DGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.where(np.abs(X[:, 0]) < 1.5, "inner", "outer")
    >>> model = DGPClassifier(n_inducing=20, max_iter=600, random_state=0).fit(X, y)
    >>> print(model.predict([[0.0], [2.5]]))
    ['inner' 'outer']
    """

    # Parameters that the constructor stores.
    objective: str
    share_kernel: bool | Literal["auto"]

    def __init__(
        self,
        *,
        n_layers: int = 2,
        width: int = 3,
        n_inducing: int | Sequence[int] = 300,
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: LayerKernels = "matern52",
        n_samples: int = 10,
        n_prediction_samples: int = 32,
        share_kernel: bool | Literal["auto"] = "auto",
        covariance: Literal["full", "diagonal"] = "full",
        objective: Literal["elbo", "predictive"] = "elbo",
        likelihood: Literal["auto", "probit", "logit", "robust-max", "softmax", "ordinal"] = "auto",
        label_noise: float = 1e-3,
        class_weight: Any = None,
        beta_reg: float = 1.0,
        hidden_mean: Literal["linear", "identity", "concatenate"] = "linear",
        topology: Literal["feedforward", "skip-mean", "skip-mean-both", "skip-all"] = "feedforward",
        hidden_noise: bool = False,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        early_stopping: bool = False,
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
        classes = partial(pick(Classes, self), "softmax")
        layers = hidden_layers(self, pick(Samples, self))
        spec = replace(
            StackSpec.of(self, classes, self.covariance, layers),
            warping=pick(Warping, self),
            shares_kernel=self.share_kernel,
            pulled=True,
        )
        objective = PREDICTIVE if self.objective == "predictive" else ELBO
        return stack_recipe(self, spec, objective=objective, epochs=DEEP_EPOCHS)
