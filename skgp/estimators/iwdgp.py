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
from skgp.core.objectives.objective import ELBO, importance_weighted
from skgp.distributions import NormalMixture, kernel_density
from skgp.estimators._entries import Deviation
from skgp.estimators._layer_choices import LAYER_INDUCING, OWN_KERNELS
from skgp.estimators._model_groups import AUTO_BETA_REG, LAYER_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Epochs, Recipe, always_float32, pick
from skgp.recipes.assemble import stack_recipe
from skgp.recipes.latent import (
    LatentLayers,
    covariate_loss,
    covariate_top,
    latent_blocks,
    same_rows,
    with_cells,
)
from skgp.recipes.losses import DivergenceWeight
from skgp.recipes.optimizers import natural_or_adam
from skgp.recipes.outputs import Coregionalised
from skgp.recipes.warping import Warping

_DENSITY_SAMPLES: Final = 2000

_FULL_ROWS: Final = 150.0  # up to which the divergences have all of their weight


@family(
    texts={
        "auto_epochs": "1,500",
        "least_steps": "1,500",
        "most_steps": "12,000",
        "full_rows": "150",
        "auto_dtype": 'float32, but float64 for a table of one batch and the architecture "GP"',
    },
    kernel=LAYER_KERNELS,
    width=Deviation(default="5"),
    inference=Deviation.choice("iwvi", "vi", default="iwvi"),
    n_samples=Deviation(default="1"),
    n_prediction_samples=Deviation(default="128"),
    n_inducing=replace(LAYER_INDUCING, default="128"),
    share_kernel=OWN_KERNELS,
    beta_reg=AUTO_BETA_REG,
    optimizer=Deviation.choice("natgrad", "adam", default="natgrad"),
    jitter=Deviation(default="1e-6"),
)
class IWDGPRegressor(GPRegressor):
    """Deep GP regression with latent covariates, by importance-weighted variational inference.

    Each row has unobserved inputs w ~ N(0, I) beside those of X, which the GPs above them turn into
    predictive densities of any shape: several modes, heavy or one-sided tails, noise that varies.
    The fit maximises a lower bound on the log marginal likelihood (importance-weighted paper, Eqn
    11), sum_i E log 1 / K sum_k exp(E log p(y_i | f, w_ik)) p(w_ik) / q(w_ik) - beta_reg sum KL.
    The top layer is integrated in closed form; hidden functions are sampled, jointly for the K
    values of w that a row has. A prediction is the mixture of the normals at
    `n_prediction_samples` fixed values of w and of the hidden functions, each spread over half the
    gaps to its neighbours; `predict_latent` spreads them too. Values of w far from zero are among
    them, with small weights, because rare targets need them. Of one output, neighbouring normals
    are then merged until `max_components` are left.

    Parameters
    ----------
    architecture : str, default="LV-GP-GP"
        Layers from the inputs to the output, joined by hyphens: "GP", and "LV" for latent
        covariates, which are concatenated to what the layer below gives. The last is "GP". "GP" is
        SVGPRegressor; without "LV" it is a deep GP.
    $kernel
    latent_dim : int, default=1
        Covariates of each "LV".
    width : int, default=5
        Functions of each hidden GP layer that move its inputs along leading principal directions of
        X, fewer if X has fewer columns. One more moves each latent covariate below; all have one
        kernel.
    inference : {"iwvi", "vi"}, default="iwvi"
        Importance-weighted or variational bound (Eqns 11 and 3).
    n_importance : int, default=5
        Values of the covariates for each row and sample of a training step, for "iwvi". One gives
        the variational bound, with a sampled KL(q(w) || p(w)).
    n_samples : int, default=1
        Samples of the hidden functions for each row of a training step.
    n_prediction_samples : int, default=128
        Normals of a prediction before some are merged: a scrambled Sobol sequence, drawn once in
        `fit`.
    max_components : int, default=40
        Components of a prediction of one output, if it has more normals: in each row by itself
        neighbours become one normal of their mean and variance, so that mean and variance of the
        prediction stay. A row takes 24 bytes for each. Targets of few values, such as grades, may
        want more.
    amortized : bool, default=True
        Whether a network, from the inputs and targets of a row, gives q(w). Else each training row
        has parameters of its own: slower to train, and there is no `partial_fit`.
    n_inducing : int or list of int, default=128
        Number M of inducing inputs of each layer, or a list of one for each layer of GPs, from the
        inputs upwards; cost grows with M^2 per row and covariate.
    share_kernel : bool or "auto", default=False
        Whether the GPs of the last layer have one kernel and one set of inducing inputs, as those
        of hidden layers always have, or each its own. "auto": where there are five or more.
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u), in all layers.
    beta_reg : float or "auto", default="auto"
        Weight of the divergences KL(q(u) || p(u)). One gives a bound; "auto" is one up to
        $full_rows rows, and so much less for more rows that the divergences weigh as for
        $full_rows. The bound of a deep GP underfits: it charges for every hidden function.
    $n_latents
    $input_warping
    $features
    $minibatch
    optimizer : {"natgrad", "adam"}, default="natgrad"
        "natgrad" moves q(u) of the last layer by natural-gradient steps and everything else by
        Adam. It needs a full covariance.
    $regressor

    $fitted_regressor

    See Also
    --------
    DGPRegressor : Deep GPs without latent covariates.
    DSPPRegressor : Mixtures of a few normals, trained for the density of the predictions.

    References
    ----------
    H. Salimbeni, V. Dutordoir, J. Hensman and M. P. Deisenroth, Deep Gaussian Processes with
    Importance-Weighted Variational Inference, ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import IWDGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 1))
    >>> y = rng.choice([-1.0, 1.0], 300) + 0.1 * rng.standard_normal(300)
    >>> model = IWDGPRegressor(architecture="LV-GP", max_iter=300, random_state=0).fit(X, y)
    >>> density = model.predict_dist([[0.0]]).pdf([0.0])
    >>> print(density < model.predict_dist([[0.0]]).pdf([1.0]))
    [ True]
    """

    # Parameters that the constructor stores.
    amortized: bool
    beta_reg: float | Literal["auto"]
    inference: str
    kernel: LayerKernels
    max_components: int
    n_importance: int
    n_samples: int
    share_kernel: bool | Literal["auto"]
    weight_decay: float
    covariance: Covariance

    _changeable: ClassVar[frozenset[str]] = GPRegressor._changeable | {
        "inference",
        "max_components",
        "n_importance",
        "n_samples",
    }

    def __init__(
        self,
        *,
        architecture: str = "LV-GP-GP",
        kernel: LayerKernels = "matern52",
        latent_dim: int = 1,
        width: int = 5,
        inference: Literal["iwvi", "vi"] = "iwvi",
        n_importance: int = 5,
        n_samples: int = 1,
        n_prediction_samples: int = 128,
        max_components: int = 40,
        amortized: bool = True,
        n_inducing: int | Sequence[int] = 128,
        share_kernel: bool | Literal["auto"] = False,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float | Literal["auto"] = "auto",
        n_latents: int | None = None,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        optimizer: Literal["natgrad", "adam"] = "natgrad",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
        jitter: float = 1e-6,
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
        latent = pick(LatentLayers, self)
        beta_reg = DivergenceWeight.of(self.beta_reg, _FULL_ROWS, least=0.0)
        # In the expectation parameters of q(u) the bound is a log mean exp of linear functions, so
        # natural steps add a convex combination of what they add for the ELBO. Each step sees other
        # draws, over which q(u) has to average.
        has_covariates = "LV" in latent.parts
        weighted = has_covariates and self.inference == "iwvi"
        objective = importance_weighted(self.n_importance) if weighted else ELBO
        covariance, optimizer = natural_or_adam(self, objective, beta_reg, peak=0.1)
        recipe = partial(
            stack_recipe,
            self,
            objective=ELBO,
            outputs=pick(Coregionalised, self),
            warping=pick(Warping, self),
            kernels=layer_kernels(self.kernel, latent.n_gps),
            covariance=covariance,
            shares_kernel=self.share_kernel,
            misfit=latent.misfit,
            beta_reg=beta_reg,
            optimizer=optimizer,
            epochs=Epochs(usual=1500, least_steps=1500, most_steps=12_000),
        )
        if latent.parts == ["GP"]:
            return recipe()
        of_layers = recipe(
            below=partial(latent_blocks, latent, self.covariance),
            top=partial(covariate_top, latent),
        )
        weights = beta_reg, self.weight_decay
        no_stream = of_layers.no_stream
        if has_covariates and not self.amortized:
            no_stream = no_stream or (
                "partial_fit needs amortized=True: with amortized=False there are parameters for "
                "each row of one training table"
            )
        return replace(
            of_layers,
            build=partial(with_cells, of_layers.build) if has_covariates else of_layers.build,
            loss=partial(covariate_loss, objective, self.n_samples, *weights),
            dtype=always_float32,
            goes_on=same_rows,
            no_stream=no_stream,
        )

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
        chunks = self._predictive(X)
        dist = NormalMixture.gather(chunks.parts, chunks.n_rows)
        if method == "kde":
            dist = kernel_density(dist.rvs(_DENSITY_SAMPLES, random_state=0))
        return dist.with_output_names(self._names)

    def _observed(self, dist: NormalMixture) -> NormalMixture:
        if math.prod(self._output_shape) > 1:
            return dist
        return dist.merged(self.max_components)
