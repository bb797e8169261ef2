"""Deep Gaussian process classification."""

from functools import partial
from typing import Any, Literal

from skgp.core.kernels.kernel import LayerKernels
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import ELBO, PREDICTIVE
from skgp.estimators._classifier import Classifier
from skgp.estimators._model_groups import LAYER_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import deep_recipe
from skgp.recipes.hidden import Samples
from skgp.recipes.outputs import Classes


@family(
    texts={"most_steps": "2,000", "of_several": "softmax"},
    kernel=LAYER_KERNELS,
)
class DGPClassifier(Classifier):
    """Deep GP classification by doubly stochastic variational inference.

    Maximises the evidence lower bound E[log p(y | f)] - beta_reg sum KL over all layers (doubly
    stochastic paper, Eqn 17): hidden functions are sampled, row by row, and the expectation over
    the top layer is that of SVGPClassifier. A prediction is the mean of the probabilities at
    `n_prediction_samples` fixed nodes of the hidden layers (Eqn 18).

    Parameters
    ----------
    $kernel
    n_layers : int, default=2
        Layers of GPs, the top one counted. One layer is SVGPClassifier.
    width : int, default=3
        Functions of each hidden layer.
    n_samples : int, default=10
        Samples of the hidden functions for each row of a training step.
    n_prediction_samples : int, default=32
        Nodes of a prediction: a scrambled Sobol sequence, drawn once in `fit`.
    n_inducing : int, default=300
        Number M of inducing inputs of each GP, started by k-means; cost grows with M^2 per row and
        sample.
    $share_kernel
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u), in all layers.
    objective : {"elbo", "predictive"}, default="elbo"
        "predictive" trains for the log of the sampled predictive density, a biased estimate (deep
        sigma point paper, appendix).
    $classes
    beta_reg : float, default=1.0
        Weight of the divergences KL(q(u) || p(u)). One gives the evidence lower bound.
    $hidden
    $features
    $minibatch
    $classifier

    $fitted_classifier

    See Also
    --------
    DSPPClassifier : The same layers, trained for the probabilities of the labels.
    SVGPClassifier : One layer.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import DGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.where(np.abs(X[:, 0]) < 1.5, "inner", "outer")
    >>> model = DGPClassifier(n_inducing=20, max_iter=1000, random_state=0).fit(X, y)
    >>> print(model.predict([[0.0], [2.5]]))
    ['inner' 'outer']
    """

    # Parameters that the constructor stores.
    objective: str
    share_kernel: bool | Literal["auto"]

    def __init__(
        self,
        *,
        kernel: LayerKernels = "matern52",
        n_layers: int = 2,
        width: int = 3,
        n_samples: int = 10,
        n_prediction_samples: int = 32,
        n_inducing: int = 300,
        share_kernel: bool | Literal["auto"] = "auto",
        covariance: Literal["full", "diagonal"] = "full",
        objective: Literal["elbo", "predictive"] = "elbo",
        likelihood: Literal["auto", "probit", "logit", "robust-max", "softmax", "ordinal"] = "auto",
        label_noise: float = 1e-3,
        class_weight: Any = None,
        beta_reg: float = 1.0,
        hidden_mean: Literal["linear", "identity", "concatenate"] = "linear",
        topology: Literal["feedforward", "skip-mean", "skip-mean-both", "skip-all"] = "feedforward",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        normalize_X: bool = True,
        jitter: float = 1e-4,
        compile: bool = False,
        warm_start: bool = False,
        checkpoint: Any = None,
        memory: Any = None,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())

    def _recipe(self) -> Recipe:
        return deep_recipe(
            self,
            objective=PREDICTIVE if self.objective == "predictive" else ELBO,
            outputs=partial(pick(Classes, self), "softmax"),
            nodes=pick(Samples, self),
            shares_kernel=self.share_kernel,
            pulled=True,
        )
