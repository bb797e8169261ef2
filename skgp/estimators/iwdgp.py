"""Deep GPs with latent covariates by importance-weighted variational inference."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final, Literal

from skgp.core.kernels.choice import layer_kernels
from skgp.core.kernels.kernel import LayerKernels
from skgp.core.layers.posteriors import Covariance
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import ELBO, importance_weighted, plainly_weighted
from skgp.distributions import NormalMixture, kernel_density
from skgp.estimators import _attributes
from skgp.estimators._entries import Deviation
from skgp.estimators._layer_choices import LAYER_INDUCING
from skgp.estimators._model_groups import AUTO_BETA_REG, LAYER_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.plans import Epochs
from skgp.fitting.recipe import Recipe, always_float32, pick
from skgp.recipes.assemble import stack_recipe
from skgp.recipes.features import Warping
from skgp.recipes.latent import (
    LatentBlocks,
    LatentLayers,
    covariate_loss,
    covariate_top,
    same_rows,
    with_cells,
    with_row_keys,
)
from skgp.recipes.losses import DivergenceWeight
from skgp.recipes.noise import with_noise_share
from skgp.recipes.optimizers import natural_or_adam
from skgp.recipes.outputs import Coregionalised
from skgp.recipes.spec import Architecture, InitialValues, StackSpec

_DENSITY_SAMPLES: Final = 2000

# Rows up to which the divergences have all of their weight, with latent covariates and without,
# and those for targets that are noise.
_FULL_ROWS: Final = 150.0
_FULL_ROWS_OF_CHAINS: Final = 300.0
_FULL_ROWS_OF_NOISE: Final = 1000.0


@family(
    texts={
        "auto_epochs": "1,500",
        "least_steps": "1,500",
        "most_steps": "12,000",
        "auto_dtype": 'float32, but float64 for a data set of one batch and the architecture "GP"',
    },
    kernel=LAYER_KERNELS,
    width=Deviation(default="5"),
    inference=Deviation.choice("iwvi", "vi", "iw", default="iwvi"),
    n_samples=Deviation(default="1"),
    n_prediction_samples=Deviation(default="128"),
    n_inducing=replace(LAYER_INDUCING, default="128"),
    beta_reg=AUTO_BETA_REG,
    optimizer=Deviation.choice("natgrad", "adam", default="natgrad"),
    jitter=Deviation(default="1e-6"),
)
class IWDGPRegressor(GPRegressor):
    r"""Deep GP regression with latent covariates, by importance-weighted variational inference.

    Each row has unobserved inputs w besides those of X. The GPs turn them into predictive
    densities of any shape: several modes, heavy or one-sided tails, noise that varies. The fit
    maximises a lower bound on the log marginal likelihood. The predictive distribution of a row is
    a mixture of normals.

    Parameters
    ----------
    architecture : str, default="LV-GP-GP"
        Layers from the inputs to the output, joined by hyphens. "GP" is a layer of GPs, and "LV"
        appends latent covariates to the values of the layer below. The last is "GP". "GP" alone is
        SVGPRegressor; without "LV" the model is a deep GP.
    n_inducing : int or list of int, default=128
        Number M of inducing inputs of each layer; the cost per row and covariate grows with M^2. A
        list has a number for each layer of GPs, from the inputs upwards.
    beta_reg : float or "auto", default="auto"
        Weight of the divergences KL(q(u) || p(u)). One gives a bound, but deep GPs underfit with
        it, because every hidden function costs a divergence. "auto" is min(1, m / n) for n rows,
        where m is 1,000 times the share of the noise in the variance of y, which a GP estimates at
        the start, but at least 150, or 300 in an architecture without "LV".
    $max_iter
    $random_state

    Model
    $kernel
    latent_dim : int, default=1
        Number of covariates of each "LV".
    width : int, default=5
        Number of functions of each hidden GP layer that move its inputs along leading principal
        directions of X; fewer if X has fewer columns. One more moves each latent covariate below.
        All have one kernel.
    inference : {"iwvi", "vi", "iw"}, default="iwvi"
        Importance-weighted or variational bound ([1]_, Eqns 11 and 3). "iw" is plain importance
        weighting (Eqn 7), for comparison: it draws the functions of the last layer too. Its bound
        is a little tighter, and a step costs more. It needs optimizer="adam".
    n_importance : int, default=5
        Number K of values of the covariates for each row and sample of a training step, for "iwvi"
        and "iw". One gives the variational bound, with a sampled KL(q(w) || p(w)).
    gradient : {"reparameterized", "doubly_reparameterized"}, default="reparameterized"
        Estimate of the gradient in the parameters of q(w), for "iwvi". The signal of the usual one
        falls faster than its noise as K grows; that of the doubly reparameterised one does not
        ([2]_). Both have the same mean.
    n_samples : int, default=1
        Number of samples of the hidden functions for each row of a training step.
    n_prediction_samples : int, default=128
        Number of normals of a prediction before some are merged. Their nodes are a scrambled Sobol
        sequence, drawn once in `fit`.
    max_components : int, default=40
        Most components of a prediction of one output. If there are more, neighbours in each row are
        merged into one normal with their mean and variance, so the mean and the variance of the
        prediction stay the same. A row takes 24 bytes for each component. Targets with few values,
        such as grades, may need more. You can change it after the fit.
    amortized : bool, default=True
        Whether a network, from the inputs and targets of a row, gives q(w). Otherwise each training
        row has its own parameters: slower to train, and without `partial_fit`.
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u), in all layers.
    $n_latents
    share_kernel : bool or "auto", default=False
        Whether the GPs of the last layer share one kernel and one set of inducing inputs, as those
        of hidden layers always do. "auto" shares them if there are five or more.
    $input_warping
    $features
    $beginning

    Training
    $minibatch
    optimizer : {"natgrad", "adam"}, default="natgrad"
        "natgrad" updates q(u) of the last layer by natural gradients and everything else by Adam.
        It needs a full covariance.
    $early_stopping
    $regressor

    Attributes
    ----------
    beta_reg_ : float
        Weight of the divergences in the fit.
    $inducing_points
    $attributes

    Raises
    ------
    $raises

    See Also
    --------
    DGPRegressor : Deep GPs without latent covariates.
    DSPPRegressor : Mixtures of a few normals, trained for the density of the predictions.

    Notes
    -----
    The covariates have the prior :math:`p(w) = \mathcal{N}(0, I)`. For K values :math:`w_{ik}`
    drawn from :math:`q(w_i)`, the fit maximises ([1]_, Eqn 11)

    .. math::

        \sum_{i=1}^{n} \mathrm{E} \left[ \log \frac{1}{K} \sum_{k=1}^{K}
        \exp\left( \mathrm{E}_{q(f)} \log p(y_i \mid f, w_{ik}) \right)
        \frac{p(w_{ik})}{q(w_{ik})} \right]
        - \beta_{\mathrm{reg}} \sum \mathrm{KL}\left(q(u) \| p(u)\right) .

    The top layer is integrated out in closed form. Hidden functions are sampled, jointly for the K
    values of a row.

    With :math:`r_k = \exp(\mathrm{E}_{q(f)} \log p(y_i \mid f, w_{ik})) \,
    p(w_{ik}) / q(w_{ik})`, the doubly reparameterised gradient in the parameters :math:`\phi` of
    q(w) is ([2]_, Eqn 8)

    .. math::

        \sum_{k=1}^{K} \left( \frac{r_k}{\sum_j r_j} \right)^2
        \frac{\partial \log r_k}{\partial w_{ik}} \frac{\partial w_{ik}}{\partial \phi} .

    The components of a prediction are normals at `n_prediction_samples` fixed values of w and of
    the hidden functions. Each is spread over half the gaps to its neighbours; `predict_latent`
    spreads them too. Values of w far from zero are among them, with small weights, because rare
    targets need them.

    References
    ----------
    .. [1] $importance_weighted
    .. [2] G. Tucker, D. Lawson, S. Gu and C. J. Maddison, "Doubly reparameterized gradient
        estimators for Monte Carlo objectives", ICLR 2019. https://arxiv.org/abs/1810.04152

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import IWDGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 1))
    >>> y = rng.choice([-1.0, 1.0], 300) + 0.1 * rng.standard_normal(300)
    >>> model = IWDGPRegressor(architecture="LV-GP", max_iter=150, random_state=0).fit(X, y)
    >>> density = model.predict_dist([[0.0]]).pdf([0.0])
    >>> print(density < model.predict_dist([[0.0]]).pdf([1.0]))
    [ True]
    """

    # Parameters that the constructor stores.
    amortized: bool
    beta_reg: float | Literal["auto"]
    gradient: str
    inference: str
    kernel: LayerKernels
    max_components: int
    n_importance: int
    n_samples: int
    share_kernel: bool | Literal["auto"]
    weight_decay: float
    covariance: Covariance

    _changeable: ClassVar[frozenset[str]] = GPRegressor._changeable | {
        "gradient",
        "inference",
        "max_components",
        "n_importance",
        "n_samples",
    }

    def __init__(
        self,
        *,
        architecture: str = "LV-GP-GP",
        n_inducing: int | Sequence[int] = 128,
        beta_reg: float | Literal["auto"] = "auto",
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: LayerKernels = "matern52",
        latent_dim: int = 1,
        width: int = 5,
        inference: Literal["iwvi", "vi", "iw"] = "iwvi",
        n_importance: int = 5,
        gradient: Literal["reparameterized", "doubly_reparameterized"] = "reparameterized",
        n_samples: int = 1,
        n_prediction_samples: int = 128,
        max_components: int = 40,
        amortized: bool = True,
        covariance: Literal["full", "diagonal"] = "full",
        n_latents: int | None = None,
        share_kernel: bool | Literal["auto"] = False,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        prior_mean: Literal["constant", "zero"] = "constant",
        initial_noise: float | None = None,
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        optimizer: Literal["natgrad", "adam"] = "natgrad",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        warm_start: bool = False,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
        jitter: float = 1e-6,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        compile: bool = False,
        device: str = "cpu",
        checkpoint: Any = None,
        memory: Any = None,
        verbose: int = 0,
    ) -> None:
        store_parameters(self, locals())

    def _recipe(self) -> Recipe:
        latent = pick(LatentLayers, self)
        has_covariates = "LV" in latent.parts
        full_rows = _FULL_ROWS if has_covariates else _FULL_ROWS_OF_CHAINS
        beta_reg = DivergenceWeight.of(self.beta_reg, full_rows, _FULL_ROWS_OF_NOISE, least=0.0)
        # In the expectation parameters of q(u) the bound is a log mean exp of linear functions, so
        # natural steps add a convex combination of what they add for the ELBO. Each step sees other
        # draws, over which q(u) has to average.
        doubly = self.gradient == "doubly_reparameterized"
        if doubly and self.inference == "iw":
            raise ValueError(
                "gradient='doubly_reparameterized' is for inference='iwvi', whose weight of one w "
                "depends on no other: with inference='iw' use gradient='reparameterized'"
            )
        bounds = {
            "vi": ELBO,
            "iwvi": importance_weighted(self.n_importance, doubly_reparameterized=doubly),
            "iw": plainly_weighted(self.n_importance),
        }
        objective = bounds[self.inference] if has_covariates else ELBO
        covariance, optimizer = natural_or_adam(self, objective, beta_reg, peak=0.1)
        kernels = layer_kernels(self.kernel, latent.n_gps)
        architecture = Architecture(kernels, kernel_error=latent.kernel_error)
        spec = replace(
            StackSpec.of(self, pick(Coregionalised, self), covariance, architecture),
            warping=pick(Warping, self),
            initial_values=pick(InitialValues, self),
            shares_kernel=self.share_kernel,
        )
        recipe = partial(
            stack_recipe,
            self,
            objective=ELBO,
            beta_reg=beta_reg,
            optimizer=optimizer,
            epochs=Epochs(usual=1500, least_steps=1500, most_steps=12_000),
        )
        if latent.parts == ["GP"]:
            return with_noise_share(recipe(spec))
        below = LatentBlocks(latent, self.covariance)
        of_layers = recipe(
            replace(
                spec,
                architecture=replace(architecture, below=below),
                top=partial(covariate_top, latent),
            )
        )
        weights = beta_reg, self.weight_decay
        why_no_stream = of_layers.why_no_stream
        if has_covariates and not self.amortized:
            why_no_stream = why_no_stream or (
                "partial_fit needs amortized=True: with amortized=False there are parameters for "
                "each row of one training table"
            )
        of_layers = replace(
            of_layers,
            build=partial(with_cells, of_layers.build) if has_covariates else of_layers.build,
            loss=partial(covariate_loss, objective, self.n_samples, *weights),
            dtype=always_float32,
            conditioned=with_row_keys,
            prepare_to_go_on=same_rows,
            why_no_stream=why_no_stream,
        )
        return with_noise_share(of_layers)

    beta_reg_ = property(_attributes.beta_reg)

    def predict_dist(
        self, X: Any, *, method: Literal["mixture", "kde"] = "mixture"
    ) -> NormalMixture:
        """Predictive distribution of y, in its units, noise included.

        Parameters
        ----------
        X : array-like of shape (n, D)
        method : {"mixture", "kde"}, default="mixture"
            "mixture" is the model's own density. "kde" is a kernel density estimate from 2,000
            samples of each row by Silverman's rule, which the importance-weighted paper scores. It
            blurs what is narrower than the whole, and is there to compare with.

        Returns
        -------
        NormalMixture with n rows

        Raises
        ------
        ValueError
            If the method is not one of these.
        """
        if method not in ("mixture", "kde"):
            raise ValueError(f"method must be 'mixture' or 'kde', got {method!r}")
        fitted = self._snapshot()
        chunks = fitted._predictive(X)
        dist = NormalMixture.gather(chunks.parts, chunks.n_rows)
        if method == "kde":
            dist = kernel_density(dist.rvs(_DENSITY_SAMPLES, random_state=0))
        return dist.with_output_names(fitted._names)

    def _observed(self, dist: NormalMixture) -> NormalMixture:
        if math.prod(self._output_shape) > 1:
            return dist
        return dist.merged(self.max_components)
