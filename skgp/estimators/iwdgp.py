"""Deep GPs with latent covariates by importance-weighted variational inference."""

import math
from numbers import Integral
from typing import Any, ClassVar, Final, Literal

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from skgp.core.data import Batch, Targets
from skgp.core.features import FeatureExtractor
from skgp.core.importance import latent_loss
from skgp.core.initialisation import principal_directions, start_covariates
from skgp.core.kernels import Kernel, KernelLike, LayerKernels, layer_kernels
from skgp.core.latent_stack import LatentCovariates, LatentStack, evidence
from skgp.core.layers import SparseGP, SparseLayer
from skgp.core.likelihoods import Gaussian
from skgp.core.local import Amortized, Free, LocalPosterior
from skgp.core.nodes import Sampled
from skgp.core.objectives import ELBO, Objective
from skgp.core.projected import ProjectedGP
from skgp.core.variational import make_posterior
from skgp.distributions import NormalMixture, kernel_density
from skgp.estimators._chunks import Chunks
from skgp.estimators._documentation import documented
from skgp.estimators._gp_estimator import each_gp
from skgp.estimators._model import Model, Predictor, StackModel
from skgp.estimators._parameters import store_parameters
from skgp.estimators._setup import Setup
from skgp.estimators._sparse_regressor import SparseRegressor
from skgp.estimators._stack_estimator import INITIAL_VAR, Hidden
from skgp.estimators._table import Table

_DENSITY_SAMPLES: Final = 2000
_FULL_ROWS: Final = 150.0  # up to which the divergences have all of their weight
_STRETCH: Final = 2.0  # of one covariate's nodes
_HIDDEN_VAR: Final = 1e-5  # where the variances of hidden inducing variables start


@documented(
    rate="0.03",
    auto_epochs="1,500",
    least_steps="1,500",
    most_steps="12,000",
    full_rows="150",
    default_jitter="1e-6",
    auto_dtype='float32, but float64 for a table of one batch and the architecture "GP"',
)
class IWDGPRegressor(SparseRegressor):
    """Deep GP regression with latent covariates, by importance-weighted variational inference.

    Each row has unobserved inputs w ~ N(0, I) beside those of X, which the GPs above them turn into
    predictive densities of any shape: several modes, heavy or one-sided tails, noise that varies.
    The fit maximises a lower bound on the log marginal likelihood (importance-weighted paper, Eqn
    11), sum_i E log 1 / K sum_k exp(E log p(y_i | f, w_ik)) p(w_ik) / q(w_ik) - beta_reg sum KL.
    The top layer is integrated in closed form; hidden functions are sampled, jointly for the K
    values of w that a row has. A prediction is the mixture of the normals at
    `n_prediction_samples` fixed values of w and of the hidden functions, each spread over half the
    gaps to its neighbours. Values of w far from zero are among them, with small weights, because
    rare targets need them. Of one output, neighbouring normals are then merged until
    `max_components` are left.

    Parameters
    ----------
    architecture : str, default="LV-GP-GP"
        Layers from the inputs to the output, joined by hyphens: "GP", and "LV" for latent
        covariates, which are concatenated to what the layer below gives. The last is "GP". "GP" is
        SVGPRegressor; without "LV" it is a deep GP.
    $layer_kernels
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
    n_inducing : int, default=128
        Number M of inducing inputs of each layer; cost grows with M^2 per row and covariate.
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u), in all layers.
    beta_reg : float or "auto", default="auto"
        Weight of the divergences KL(q(u) || p(u)). One gives a bound; "auto" is one up to
        $full_rows rows, and so much less for more rows that the divergences weigh as for
        $full_rows. The bound of a deep GP underfits: it charges for every hidden function.
    $n_latents
    $features
    $minibatch
    optimizer : {"natgrad", "adam"}, default="natgrad"
        "natgrad" moves q(u) of the last layer by natural-gradient steps and everything else by
        Adam. It needs a full covariance.
    $stopping
    $restarts
    $scaling
    $running

    Attributes
    ----------
    $inducing_points
    $attributes

    Raises
    ------
    $raises

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
    kernel: LayerKernels
    architecture: str
    latent_dim: int
    width: int
    inference: str
    n_importance: int
    n_samples: int
    n_prediction_samples: int
    max_components: int
    amortized: bool

    _changeable: ClassVar[frozenset[str]] = SparseRegressor._changeable | {
        "inference",
        "max_components",
        "n_importance",
        "n_samples",
    }
    _auto_epochs: ClassVar[int] = 1500
    _min_auto_steps: ClassVar[int] = 1500
    _max_auto_steps: ClassVar[int] = 12_000
    # Each step sees other draws, over which q(u) has to average.
    _natural_rate: ClassVar[float] = 0.1

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseRegressor._parameter_constraints,
        "kernel": [*SparseRegressor._parameter_constraints["kernel"], list, tuple],
        "architecture": [str],
        "beta_reg": [*SparseRegressor._parameter_constraints["beta_reg"], StrOptions({"auto"})],
        "latent_dim": [Interval(Integral, 1, None, closed="left")],
        "width": [Interval(Integral, 1, None, closed="left")],
        "inference": [StrOptions({"iwvi", "vi"})],
        "n_importance": [Interval(Integral, 1, None, closed="left")],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_prediction_samples": [Interval(Integral, 1, None, closed="left")],
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "amortized": ["boolean"],
        "covariance": [StrOptions({"full", "diagonal"})],
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
        n_inducing: int = 128,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float | Literal["auto"] = "auto",
        n_latents: int | None = None,
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
        warm_start: bool = False,
        memory: Any = None,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())

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
        dist = super().predict_dist(X)
        if method == "mixture":
            return dist
        return kernel_density(dist.rvs(_DENSITY_SAMPLES, random_state=0))

    def _distributions(self, X: Any, predictor: Predictor) -> Chunks[NormalMixture]:
        chunks = super()._distributions(X, predictor)
        if math.prod(self._output_shape) > 1:
            return chunks
        parts = (dist.merged(self.max_components) for dist in chunks.parts)
        return Chunks(chunks.n_rows, parts)

    def _objective(self) -> Objective:
        # In the expectation parameters of q(u) the bound is a log mean exp of linear functions, so
        # natural steps add a convex combination of what they add for the ELBO.
        return ELBO

    def _loss(self, model: StackModel, batch: Batch, n_data: float) -> Tensor:
        if not isinstance(model.stack, LatentStack):
            return super()._loss(model, batch, n_data)
        assert isinstance(model.likelihood, Gaussian)
        assert isinstance(model.nodes, Sampled)
        return latent_loss(
            model.stack,
            model.likelihood,
            batch,
            model.nodes.generator(),
            n_samples=self.n_samples,
            n_importance=self.n_importance if self.inference == "iwvi" else None,
            beta_reg=self._divergence_weight(n_data),
            n_data=n_data,
        )

    def _auto_dtype(self, n: int) -> str:
        # Draws keep the fit of a table of one batch from being deterministic in any dtype.
        return super()._auto_dtype(n) if self._parts() == ["GP"] else "float32"

    def _divergence_weight(self, n_data: float) -> float:
        if self.beta_reg == "auto":
            return min(1.0, _FULL_ROWS / n_data)
        return super()._divergence_weight(n_data)

    def _hidden(self, setup: Setup, x: Tensor) -> Hidden:
        parts = self._parts()[:-1]
        if not parts:
            return super()._hidden(setup, x)
        generator = torch.Generator().manual_seed(setup.seed)
        blocks: list[ProjectedGP | LatentCovariates] = []
        h = x
        for number, part in enumerate(parts, start=1):
            if part == "GP":
                blocks.append(self._hidden_gp(setup, x, h, number).double())
                continue
            posterior = self._local_posterior(setup, x, generator).double()
            blocks.append(LatentCovariates(posterior, self.latent_dim))
            observed = (~setup.Y.isnan()).to(x)
            known = evidence(x, Targets(setup.Y.nan_to_num(), observed))
            w = posterior(known, torch.arange(len(x))).mean.detach()
            h = torch.cat([h, w], -1)
        widths = [
            len(block.projection) if isinstance(block, ProjectedGP) else block.n_covariates
            for block in blocks
        ]
        stretch = [1.0 if part == "GP" else self._stretch() for part in parts]
        nodes = Sampled(widths, self.n_samples, self.n_prediction_samples, setup.seed, stretch)
        return Hidden(
            len(blocks), lambda top, features: LatentStack(blocks, top, features), nodes, h
        )

    def _stretch(self) -> float:
        """Of the nodes of covariates: their weights are worth 2/3 of the nodes, or more."""
        # s^2 / sqrt(2 s^2 - 1) is the mean squared weight of one covariate: 1.51 at s = 2.
        n_covariates = self.latent_dim * self._parts().count("LV")
        return float(_STRETCH ** (1.0 / n_covariates))

    def _hidden_gp(self, setup: Setup, x: Tensor, h: Tensor, number: int) -> ProjectedGP:
        """A layer of GPs that starts at the identity of h (n, F), of which the first are x."""
        kernel = self._make_kernel(setup, h, 1, number)
        Z = self._inducing_inputs(setup, h, number)
        directions = principal_directions(x, setup.weight)[:, : self.width].mT
        covariates = torch.eye(h.shape[1] - x.shape[1], dtype=h.dtype)
        projection = torch.block_diag(directions, covariates)
        mu = torch.zeros(len(projection), len(Z), dtype=torch.float32)
        posterior = make_posterior(self.covariance, mu, _HIDDEN_VAR)
        Z = each_gp(kernel, Z)
        layer = SparseGP(kernel, Z, posterior, self.jitter, len(projection))
        return ProjectedGP(layer, projection)

    def _layer(self, kernel: Kernel, setup: Setup, features: Tensor, n_gps: int) -> SparseLayer:
        Z = self._inducing_inputs(setup, features, len(self._parts()))
        mu = torch.zeros(n_gps, len(Z), dtype=torch.float32)
        return self._sparse_layer(kernel, Z, mu, INITIAL_VAR)

    def _inducing_inputs(self, setup: Setup, h: Tensor, number: int) -> Tensor:
        """Centres of the observed columns of h (n, F), with covariates drawn from their prior.

        The draws are the same in all layers, which start at the identity.
        """
        n_covariates = self.latent_dim * self._parts()[: number - 1].count("LV")
        Z = setup.centres(h[:, : h.shape[1] - n_covariates], self.n_inducing)
        generator = torch.Generator().manual_seed(setup.seed)
        w = torch.randn(len(Z), n_covariates, generator=generator, dtype=Z.dtype)
        return torch.cat([Z, w], -1)

    def _local_posterior(
        self, setup: Setup, x: Tensor, generator: torch.Generator
    ) -> LocalPosterior:
        if self.amortized:
            Y = setup.Y.nan_to_num()
            skip = start_covariates(x, Y, setup.weight, self.latent_dim, generator)
            unseen = torch.zeros_like(skip[:, -Y.shape[1] :])  # which targets are observed
            return Amortized(torch.cat([skip, unseen], -1), generator)
        shape = setup.n_rows, self.latent_dim
        return Free(torch.randn(shape, generator=generator, dtype=torch.float32))

    def _make_kernel(self, setup: Setup, features: Tensor, n_gps: int, number: int) -> Kernel:
        try:
            return super()._make_kernel(setup, features, n_gps, number)
        except ValueError as error:
            if "LV" not in self._parts():
                raise
            raise ValueError(
                f"kernel with an ard_num_dims that does not fit layer {number} of "
                f"{self.architecture!r}, which sees {features.shape[1]} columns, latent covariates "
                "among them: leave out ard_num_dims or use the name of a kernel"
            ) from error

    def _layer_kernel(self, number: int) -> KernelLike:
        parts = self._parts()
        return layer_kernels(self.kernel, parts.count("GP"))[parts[:number].count("GP") - 1]

    def _models(self, table: Table, rng: Any) -> list[Model]:
        models = super()._models(table, rng)
        for module in models[0].modules():
            if isinstance(module, Free) and len(module.mean) != len(table):
                raise ValueError(
                    "warm_start with amortized=False goes on with the rows of the last fit, of "
                    f"which there were {len(module.mean)}, and got {len(table)}: use "
                    "amortized=True or warm_start=False"
                )
        return models

    def _check_stream(self) -> None:
        super()._check_stream()
        if not self.amortized and "LV" in self._parts():
            raise ValueError(
                "partial_fit needs amortized=True: with amortized=False there are parameters for "
                "each row of one training table"
            )

    def _parts(self) -> list[str]:
        return self.architecture.split("-")

    def _validate_params(self) -> None:
        super()._validate_params()
        parts = self._parts()
        if not set(parts) <= {"GP", "LV"} or parts[-1] != "GP":
            raise ValueError(
                f"architecture={self.architecture!r} must join layers 'GP' and 'LV' (latent "
                "covariates) by hyphens and end in 'GP', as 'LV-GP-GP' does"
            )
        layer_kernels(self.kernel, parts.count("GP"))  # for its errors
