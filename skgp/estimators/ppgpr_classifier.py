"""Parametric predictive GP classification."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import PREDICTIVE
from skgp.estimators import _attributes
from skgp.estimators._classifier import Classifier
from skgp.estimators._entries import Deviation
from skgp.estimators._fit_groups import FOUND_EPOCHS, FOUND_STOPPING
from skgp.estimators._layer_choices import FOUND_INDUCING
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import PREDICTIVE_EPOCHS, stack_recipe
from skgp.recipes.classes import Classes
from skgp.recipes.features import Warping
from skgp.recipes.spec import StackSpec, sparse_top
from skgp.recipes.tops import decoupled_if_long, decoupled_top


@family(
    texts={"of_several": "robust-max"},
    n_inducing=FOUND_INDUCING,
    covariance=Deviation.choice("auto", "decoupled", "full", "diagonal", "delta", default="auto"),
    max_iter=FOUND_EPOCHS,
    early_stopping=FOUND_STOPPING,
    tol=Deviation(default="0.01"),  # more epochs overfit
    learning_rate_init=Deviation(default="0.02"),
)
class PPGPRClassifier(Classifier):
    r"""Parametric predictive GP classification.

    The fit maximises the log probability of the labels themselves: the objective of PPGPRRegressor
    with a likelihood of classes. The paper treats regression only.

    Parameters
    ----------
    n_inducing : int or "auto", default="auto"
        Number M of inducing inputs, initialised by k-means; the cost per row grows with M^2. With
        covariance="decoupled" these serve the variance. "auto" is 300 or, up to 600 distinct rows,
        one for each if that begins better on held-out rows. Up to 5,000 distinct inputs it adds an
        untrained GP to the trained model (see Notes).
    covariance : {"auto", "decoupled", "full", "diagonal", "delta"}, default="auto"
        Covariance of q(u). "decoupled" (PPGPR-MFD) is diagonal, and mean and variance have
        separate inducing inputs. "delta" is a point with the regulariser -log p(u). "auto" is
        "full" up to one batch of rows and for five classes or more, else "decoupled". Unless
        decoupled, five classes or more share a kernel and inducing inputs.
    beta_reg : float, default=1.0
        Weight of the divergence KL(q(u) || p(u)). Less than one, as for regression, overfits small
        data sets.
    $max_iter
    $random_state

    Model
    $kernel
    n_inducing_mean : int, default=1000
        Number of inducing inputs of the mean if covariance="decoupled": they cost M per row.
    $classes
    $input_warping
    $features

    Training
    $minibatch
    $early_stopping
    $classifier

    Attributes
    ----------
    $stacking_weights
    $class_attributes

    Raises
    ------
    $raises

    See Also
    --------
    SVGPClassifier : The usual objective.
    DSPPClassifier : The same objective for several layers.

    Notes
    -----
    The fit maximises

    .. math::

        \sum_{i=1}^{n} \log \mathrm{E}_{q(f_i)} \left[ p(y_i \mid f_i) \right]
        - \beta_{\mathrm{reg}} \, \mathrm{KL}\left(q(u) \| p(u)\right) ,

    which is [1]_, Eqn 17 as a sum over rows, with a likelihood of classes.

    $class_averages

    References
    ----------
    .. [1] $parametric

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import PPGPRClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.where(np.abs(X[:, 0]) < 1.5, "inner", "outer")
    >>> model = PPGPRClassifier(n_inducing=20, n_inducing_mean=20, random_state=0).fit(X, y)
    >>> print(model.predict([[0.0], [2.5]]))
    ['inner' 'outer']
    """

    # Parameters that the constructor stores.
    covariance: Any
    n_inducing_mean: int

    def __init__(
        self,
        *,
        n_inducing: int | Literal["auto"] = "auto",
        covariance: Literal["auto", "decoupled", "full", "diagonal", "delta"] = "auto",
        beta_reg: float = 1.0,
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: KernelLike = "matern52",
        n_inducing_mean: int = 1000,
        likelihood: Literal["auto", "probit", "logit", "robust-max", "softmax", "ordinal"] = "auto",
        label_noise: float = 1e-3,
        class_weight: Any = None,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        batch_size: int = 1000,
        learning_rate_init: float = 0.02,
        early_stopping: bool | Literal["auto"] = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 0.01,
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
        tops = {
            "auto": partial(decoupled_if_long, self.n_inducing_mean),
            "decoupled": partial(decoupled_top, self.n_inducing_mean),
        }
        covariance: Any = "full" if self.covariance == "auto" else self.covariance
        spec = replace(
            StackSpec.of(self, partial(pick(Classes, self), "robust-max"), covariance),
            warping=pick(Warping, self),
            top=tops.get(self.covariance, sparse_top),
            shares_kernel=False if self.covariance == "decoupled" else "auto",
            pulled=True,
        )
        return stack_recipe(self, spec, objective=PREDICTIVE, epochs=PREDICTIVE_EPOCHS)

    stacking_weights_ = property(_attributes.stacking_weights)
