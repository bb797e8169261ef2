"""Sparse variational GP classification."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import ELBO
from skgp.estimators._classifier import Classifier
from skgp.estimators._entries import Deviation
from skgp.estimators._fit_groups import EPOCHS_OF_CLASSES
from skgp.estimators._layer_choices import SHARED_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import CLASS_EPOCHS, ONE_FUNCTION_EPOCHS, stack_recipe
from skgp.recipes.classes import Classes
from skgp.recipes.features import Warping
from skgp.recipes.spec import StackSpec


@family(
    texts={"auto_epochs": "30", "least_steps": "30", "of_several": "softmax"},
    share_kernel=SHARED_KERNELS,
    max_iter=EPOCHS_OF_CLASSES,
    covariance=Deviation.choice("full", "diagonal", "delta"),
)
class SVGPClassifier(Classifier):
    r"""Sparse variational GP classification.

    The fit maximises the evidence lower bound by minibatches. Its expectations come from
    one-dimensional quadrature, or from samples if likelihood="softmax".

    Parameters
    ----------
    $kernel
    n_inducing : int, default=300
        Number M of inducing inputs: points, initialised by k-means, whose function values stand in
        for all rows. The cost per row and latent function grows with M^2.
    $max_iter
    $early_stopping
    $random_state

    Model
    $share_kernel
    covariance : {"full", "diagonal", "delta"}, default="full"
        Covariance of q(u). "delta" is a point with log p(u) in the objective (MAP), in the
        whitened variables.
    $classes
    beta_reg : float, default=1.0
        Weight of the divergence KL(q(u) || p(u)). One gives the evidence lower bound.
    $input_warping
    $features

    Training
    $minibatch
    $classifier

    $fitted_classifier

    See Also
    --------
    SVGPRegressor : The same layer with a Gaussian likelihood.

    Notes
    -----
    The fit maximises ([1]_; [2]_, Eqn 10)

    .. math::

        \sum_{i=1}^{n} \mathrm{E}_{q(f_i)} \left[ \log p(y_i \mid f_i) \right]
        - \beta_{\mathrm{reg}} \, \mathrm{KL}\left(q(u) \| p(u)\right) .

    References
    ----------
    .. [1] $classification_paper
    .. [2] $doubly_stochastic

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import SVGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.where(np.abs(X[:, 0]) < 1.5, "inner", "outer")
    >>> model = SVGPClassifier(n_inducing=20, max_iter=200, random_state=0).fit(X, y)
    >>> print(model.predict([[0.0], [2.5]]))
    ['inner' 'outer']
    """

    # Parameters that the constructor stores.
    share_kernel: bool | Literal["auto"]

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        n_inducing: int = 300,
        max_iter: int | Literal["auto"] = "auto",
        early_stopping: bool = False,
        random_state: Any = None,
        share_kernel: bool | Literal["auto"] = "auto",
        covariance: Literal["full", "diagonal", "delta"] = "full",
        likelihood: Literal["auto", "probit", "logit", "robust-max", "softmax", "ordinal"] = "auto",
        label_noise: float = 1e-3,
        class_weight: Any = None,
        beta_reg: float = 1.0,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
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
        spec = replace(
            StackSpec.of(self, partial(pick(Classes, self), "softmax"), self.covariance),
            warping=pick(Warping, self),
            shares_kernel=self.share_kernel,
            pulled=True,
        )
        epochs = ONE_FUNCTION_EPOCHS if self._n_latents == 1 else CLASS_EPOCHS
        return stack_recipe(self, spec, objective=ELBO, epochs=epochs)
