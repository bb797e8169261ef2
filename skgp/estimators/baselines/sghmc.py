"""Deep Gaussian processes whose inducing variables are sampled."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from skgp.core.kernels.kernel import LayerKernels
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import ELBO
from skgp.estimators._entries import Deviation
from skgp.estimators._layer_choices import LAYER_INDUCING
from skgp.estimators._model_groups import LAYER_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.plans import Epochs
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import stack_recipe
from skgp.recipes.chain import ChainParameters, chain_plan, hamiltonian, with_chain
from skgp.recipes.hidden import Samples, hidden_layers
from skgp.recipes.losses import FULL
from skgp.recipes.outputs import Coregionalised
from skgp.recipes.spec import StackSpec


@family(
    texts={"least_steps": "2,000", "most_steps": "2,000"},
    kernel=LAYER_KERNELS,
    n_samples=Deviation(default="5"),
    n_prediction_samples=Deviation(default="4"),
    n_inducing=replace(LAYER_INDUCING, default="100"),
)
class SGHMCDGPRegressor(GPRegressor):
    r"""Deep GP regression with sampled inducing variables.

    The layers are those of DGPRegressor, but no family of distributions is chosen for the whitened
    inducing variables v. A Markov chain samples them by stochastic-gradient Hamiltonian Monte
    Carlo. The hyperparameters, the inducing inputs among them, take gradient steps at positions
    that the chain has passed (moving-window Monte Carlo EM).

    A prediction is a mixture over the last `n_posterior_samples` positions kept and, for each,
    over `n_prediction_samples` fixed nodes of the hidden layers. While these positions are drawn,
    the hyperparameters rest, unless that would leave them less than half of the steps. A chain of
    `partial_fit` goes on, and its hyperparameters never rest.

    Parameters
    ----------
    n_layers : int, default=2
        Number of GP layers, including the output layer. For fewer than about 250 rows, one is the
        better choice: hyperparameters that follow samples of several layers overfit, mostly less so
        with a learning_rate_init of 0.003.
    n_inducing : int or list of int, default=100
        Number M of inducing inputs of each GP, initialised by k-means. A list has a number for each
        layer of GPs, from the inputs upwards.
    n_posterior_samples : int, default=50
        Number T of positions that a prediction averages over. Its cost is proportional to it.
    $max_iter
    $random_state

    Model
    $kernel
    $width
    n_samples : int, default=5
        Number of samples of the hidden functions, given v, for each row of a training step.
    n_prediction_samples : int, default=4
        Number of nodes for each position, a scrambled Sobol sequence. A few suffice: given v, only
        what the inducing variables leave unexplained is uncertain.
    thinning : int, default=10
        Number of steps from one kept position to the next.
    n_burn_in : int, default=1000
        First steps of the chain, in which it learns the scale of the gradients. A fit should have
        n_burn_in + thinning * n_posterior_samples steps or more.
    step_size : float, default=0.02
        Length of the chain's steps.
    friction : float in (0, 1], default=0.05
        Share of the chain's momentum that is lost in a step.
    $hidden
    $n_latents
    $share_kernel
    $features

    Training
    $minibatch
    $early_stopping
    $regressor

    $fitted_regressor

    See Also
    --------
    skgp.DGPRegressor : The same layers with normal q(v), for a fraction of the cost.

    Notes
    -----
    The target of the chain is :math:`\exp\left(\mathrm{E} \log p(y \mid f)\right) p(v)`, with the
    expectation over f given v ([1]_): the q(v) of any form at which the evidence lower bound is
    greatest ([3]_). The step sizes adapt as in [2]_.

    References
    ----------
    .. [1] M. Havasi, J. M. Hernandez-Lobato and J. J. Murillo-Fuentes, Inference in Deep Gaussian
        Processes using Stochastic Gradient Hamiltonian Monte Carlo, NeurIPS 2018.
    .. [2] J. T. Springenberg, A. Klein, S. Falkner and F. Hutter, Bayesian Optimization with Robust
        Bayesian Neural Networks, NIPS 2016.
    .. [3] J. Hensman, A. G. de G. Matthews, M. Filippone and Z. Ghahramani, MCMC for Variationally
        Sparse Gaussian Processes, NIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp.estimators.baselines import SGHMCDGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (100, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.05 * rng.standard_normal(100)
    >>> model = SGHMCDGPRegressor(
    ...     n_inducing=15, n_samples=1, n_posterior_samples=10, n_burn_in=100, max_iter=300,
    ...     random_state=0,
    ... ).fit(X, y)
    >>> model.predict_dist([[0.5]])
    NormalMixture(n_rows=1, n_outputs=1, n_components=40)
    >>> print(model.predict([[-0.5], [0.5]]).round(1))
    [-1.  1.]
    """

    # Parameters that the constructor stores.
    learning_rate_init: float

    _changeable: ClassVar[frozenset[str]] = GPRegressor._changeable | {
        "friction",
        "n_burn_in",
        "step_size",
    }

    def __init__(
        self,
        *,
        n_layers: int = 2,
        n_inducing: int | Sequence[int] = 100,
        n_posterior_samples: int = 50,
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: LayerKernels = "matern52",
        width: int = 3,
        n_samples: int = 5,
        n_prediction_samples: int = 4,
        thinning: int = 10,
        n_burn_in: int = 1000,
        step_size: float = 0.02,
        friction: float = 0.05,
        hidden_mean: Literal["linear", "identity", "concatenate"] = "linear",
        topology: Literal["feedforward", "skip-mean", "skip-mean-both", "skip-all"] = "feedforward",
        hidden_noise: bool = False,
        n_latents: int | None = None,
        share_kernel: bool | Literal["auto"] = False,
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
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
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
        chain = pick(ChainParameters, self)
        layers = hidden_layers(self, pick(Samples, self), variance=0.0)
        # The density of the target is given, and a chain has no other q(v) than a point.
        spec = StackSpec.of(self, pick(Coregionalised, self), "delta", layers)
        recipe = stack_recipe(
            self,
            replace(spec, shares_kernel=self.share_kernel),
            objective=ELBO,  # of a point: the log joint density
            beta_reg=FULL,
            epochs=Epochs(least_steps=2000, most_steps=2000),
        )
        return replace(
            recipe,
            build=partial(with_chain, recipe.build, chain),
            optimizer=partial(hamiltonian, self.learning_rate_init, chain),
            plan=partial(chain_plan, recipe.plan, chain),
        )
