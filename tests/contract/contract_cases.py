"""The estimators that every contract test runs over, as tiny instances, and their data."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skgp import (
    DGPClassifier,
    DGPRegressor,
    DSPPClassifier,
    DSPPRegressor,
    ExactGPRegressor,
    FITCRegressor,
    GPRNEmbedding,
    GPRNRegressor,
    IWDGPRegressor,
    MOGPEmbedding,
    MOGPRegressor,
    NeuralDGPRegressor,
    NeuralMOGPEmbedding,
    NeuralMOGPRegressor,
    NeuralSBGPRNEmbedding,
    NeuralSBGPRNRegressor,
    PPGPRClassifier,
    PPGPRRegressor,
    SBGPRNEmbedding,
    SBGPRNRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VFITCRegressor,
)
from skgp.estimators.baselines import CVAERegressor, MCDropoutRegressor, SGHMCDGPRegressor


@dataclass(frozen=True)
class Case:
    """One estimator with one choice of model, small enough for a fit in a blink."""

    name: str
    cls: type[BaseEstimator]
    params: dict[str, Any] = field(default_factory=dict)

    def make(self, **overrides: Any) -> Any:
        return self.cls(**{**self.known(_COMMON), **self.params, **overrides})

    @property
    def functions(self) -> tuple[int, ...]:
        """(W,) if the first layer has several kernels by design, () otherwise."""
        deep = self.is_deep and not self.shares_kernel
        return (self.make().get_params()["width"],) if deep else ()

    def n_functions(self, n_outputs: int) -> int:
        """Number of functions of the first layer for so many outputs, if it has one for each."""
        return (n_outputs + 1) // 2 if self.has_readout else n_outputs

    @property
    def shares_kernel(self) -> bool:
        """Whether all functions of the first layer have one kernel, whatever the outputs are."""
        return self.has_covariates or self.params.get("share_kernel", False)

    @property
    def has_covariates(self) -> bool:
        """Whether there are latent covariates between the inputs and the last layer."""
        return issubclass(self.cls, IWDGPRegressor)

    @property
    def is_deep(self) -> bool:
        """Whether there are hidden layers, which take longer to learn."""
        return self.make().get_params().get("n_layers", 1) > 1 or self.has_covariates

    @property
    def has_readout(self) -> bool:
        """Whether a mixing matrix, and perhaps hidden units, stand between layers and noise."""
        return self.cls in {case.cls for case in (*READOUT_REGRESSORS, *EMBEDDINGS)}

    @property
    def mixes_by_inputs(self) -> bool:
        """Whether the mixing matrix depends on the inputs."""
        return issubclass(self.cls, (GPRNRegressor, *MIXED_BY_NETWORKS))

    @property
    def has_units(self) -> bool:
        """Whether activations of the latent functions, whose mean is not zero, make the outputs."""
        return issubclass(self.cls, NEURAL)

    @property
    def sees_other_columns(self) -> bool:
        """Whether some kernel sees other columns than those of X."""
        params = self.known({"hidden_mean": "", "topology": ""}) | self.params
        more = params.get("hidden_mean") == "concatenate" or params.get("topology") == "skip-all"
        return more or self.has_covariates

    def skip_if_rows_have_draws(self) -> None:
        """End a test in which a row that is repeated should count as one of weight two."""
        if rows_have_draws(self.make()):
            pytest.skip("each row of a step draws hidden values of its own, repeated or not")

    def skip_if_a_network_is_the_mean(self) -> None:
        """End a test about what 20 epochs learn, or about what is known far from all rows."""
        if self.params.get("prior_mean") == "network":
            pytest.skip("a network as prior mean learns slowly, and is no constant anywhere")

    def known(self, params: dict[str, Any]) -> dict[str, Any]:
        """Those of the parameters that the estimator has."""
        return {k: v for k, v in params.items() if k in self.cls().get_params()}


def rows_have_draws(estimator: Any) -> bool:
    """Whether each row of a training step draws hidden values, of which one layer has none."""
    params = estimator.get_params()
    if params.get("inference") == "analytic" and "n_layers" not in params:
        return False
    if params.get("quadrature") == "continuous":
        return True
    return "n_prediction_samples" in params and params.get("n_layers", 2) > 1


_COMMON = {
    "n_inducing": 15,
    "max_iter": 20,
    "learning_rate_init": 0.03,
    "early_stopping": False,  # exactly so many epochs, which many tests count
    "random_state": 0,
}
_PPGPR = {"n_inducing_mean": 20}
_DGP = {"width": 3, "n_samples": 3, "n_prediction_samples": 8}
_DSPP = {"width": 3, "n_sites": 3}
_MC_DROPOUT = {"hidden_layer_sizes": (30, 20), "learning_rate_init": 0.05}
# What depends on draws in each step needs more of them than the common 20.
_CVAE = {
    "hidden_layer_sizes": (30,),
    "learning_rate_init": 0.05,
    "max_iter": 100,
    "n_samples": 10,
    "n_prediction_samples": 16,
}
_SGHMC = {
    "width": 3,
    "n_samples": 3,
    "n_posterior_samples": 3,
    "n_prediction_samples": 4,
    "thinning": 2,
    "n_burn_in": 10,
    # A chain this short has not mixed: with longer steps rounding decides where it ends.
    "step_size": 0.01,
}

# One sparse layer, trained by minibatches.
SPARSE_REGRESSORS = (
    Case("svgp-full", SVGPRegressor, {"covariance": "full"}),
    Case("svgp-diagonal", SVGPRegressor, {"covariance": "diagonal"}),
    Case("svgp-delta", SVGPRegressor, {"covariance": "delta"}),
    Case("svgp-gamma", SVGPRegressor, {"gamma": 1.03}),
    Case("svgp-orthogonal", SVGPRegressor, {"n_orthogonal": 10}),
    Case("svgp-natgrad", SVGPRegressor, {"optimizer": "natgrad"}),
    Case("vfitc-full", VFITCRegressor, {"covariance": "full"}),
    Case("vfitc-diagonal", VFITCRegressor, {"covariance": "diagonal", "share_kernel": True}),
    Case("ppgpr-decoupled", PPGPRRegressor, {"covariance": "decoupled", **_PPGPR}),
    Case("ppgpr-full", PPGPRRegressor, {"covariance": "full", **_PPGPR}),
    Case("ppgpr-diagonal", PPGPRRegressor, {"covariance": "diagonal", **_PPGPR}),
    Case("ppgpr-delta", PPGPRRegressor, {"covariance": "delta", **_PPGPR}),
    Case("ppgpr-gamma", PPGPRRegressor, {"covariance": "full", "gamma": 1.03, "renyi_order": 0.5}),
    Case("ppgpr-network", PPGPRRegressor, {"prior_mean": "network", "n_inducing_mean": 0}),
)
# Whose y of two columns would be bounds of one output.
ONE_OUTPUT = (Case("svgp-censored", SVGPRegressor, {"likelihood": "censored"}),)
# Hidden layers below a sparse one.
DEEP_REGRESSORS = (
    Case("dgp", DGPRegressor, _DGP),
    Case(
        "dgp-gamma",
        DGPRegressor,
        {"gamma": 1.03, "covariance": "diagonal", "share_kernel": True, **_DGP},
    ),
    Case("dgp-skip-all", DGPRegressor, {"n_layers": 3, "topology": "skip-all", **_DGP}),
    Case(
        "dgp-predictive-concatenate",
        DGPRegressor,
        {"objective": "predictive", "hidden_mean": "concatenate", **_DGP},
    ),
    Case("dspp", DSPPRegressor, _DSPP),
    Case("dspp-qr3", DSPPRegressor, {"quadrature": "qr3", "hidden_mean": "linear", **_DSPP}),
    Case(
        "dspp-qr1",
        DSPPRegressor,
        {"quadrature": "qr1", "hidden_mean": "identity", **_DSPP, "n_sites": 2},
    ),
    Case("dspp-continuous", DSPPRegressor, {"quadrature": "continuous", **_DSPP}),
    Case(
        "dspp-grid",
        DSPPRegressor,
        {"quadrature": "gauss-hermite", "covariance": "full", **_DSPP, "n_sites": 2},
    ),
)
# The same, with a chain in the place of q(u).
CHAIN_REGRESSORS = (
    Case("sghmc", SGHMCDGPRegressor, _SGHMC),
    Case("sghmc-one", SGHMCDGPRegressor, {**_SGHMC, "n_layers": 1}),
)
_IWDGP = {
    "architecture": "GP-LV-GP",
    "learning_rate_init": 0.1,
    "width": 2,
    "n_importance": 5,
    "n_prediction_samples": 16,
}
# Layers with latent covariates among them.
LATENT_REGRESSORS = (
    Case("iwdgp", IWDGPRegressor, _IWDGP),
    Case(
        "iwdgp-vi",
        IWDGPRegressor,
        {
            **_IWDGP,
            "inference": "vi",
            "optimizer": "adam",
            "covariance": "diagonal",
        },
    ),
)
MIXED_BY_NETWORKS = (SBGPRNRegressor, NeuralSBGPRNRegressor)
NEURAL = (
    NeuralMOGPRegressor,
    NeuralSBGPRNRegressor,
    NeuralDGPRegressor,
    NeuralMOGPEmbedding,
    NeuralSBGPRNEmbedding,
)
_READOUT = {"n_samples": 8, "n_prediction_samples": 16}
# A mixing matrix, and perhaps hidden units, between the layers and the noise.
READOUT_REGRESSORS = (
    Case("mogp", MOGPRegressor, _READOUT),
    Case("gprn", GPRNRegressor, _READOUT),
    Case(
        "sbgprn",
        SBGPRNRegressor,
        {"covariance": "diagonal", "share_kernel": True, "n_samples": 8},
    ),
    Case("neural-mogp", NeuralMOGPRegressor, _READOUT),
    Case("neural-sbgprn", NeuralSBGPRNRegressor, {"inference": "analytic", **_READOUT}),
    Case("neural-dgp", NeuralDGPRegressor, {"width": 3, **_READOUT}),
)
# They have a q(u) of some family, and a weight of its divergence from the prior.
VARIATIONAL_REGRESSORS = (
    SPARSE_REGRESSORS + DEEP_REGRESSORS + LATENT_REGRESSORS + READOUT_REGRESSORS
)
# Layers of sparse Gaussian processes that train by minibatches.
STACK_REGRESSORS = VARIATIONAL_REGRESSORS + CHAIN_REGRESSORS
# Marginal likelihoods of all rows: no batches, no learning rate, no weight of a divergence.
COLLAPSED_REGRESSORS = (
    Case("fitc", FITCRegressor),
    Case("exact", ExactGPRegressor),
)
# They have kernels and a distribution of f without noise.
GP_REGRESSORS = STACK_REGRESSORS + COLLAPSED_REGRESSORS
# They train by minibatches and take streams of chunks.
MINIBATCH_REGRESSORS = (
    *STACK_REGRESSORS,
    Case("mcdropout", MCDropoutRegressor, _MC_DROPOUT),
    Case("mcdropout-plain", MCDropoutRegressor, {"dropout": 0.0, **_MC_DROPOUT}),
    Case("cvae", CVAERegressor, _CVAE),
    Case("cvae-two", CVAERegressor, {"latent_dim": 2, **_CVAE}),
)
REGRESSORS = MINIBATCH_REGRESSORS + COLLAPSED_REGRESSORS
# Their GPs see X alone, and their outputs are linear in the functions of the last layer.
FUNCTION_REGRESSORS = tuple(
    case for case in GP_REGRESSORS if case not in LATENT_REGRESSORS + READOUT_REGRESSORS
)
# Transformers of tables without targets.
_ONE_NORMAL = {"max_iter": 10, "n_samples": 4, "n_importance": 20}
_EMBEDDING = {**_ONE_NORMAL, "n_prediction_samples": 8}
EMBEDDINGS = (
    Case("mogp-embedding", MOGPEmbedding, _EMBEDDING),
    Case("neural-mogp-embedding", NeuralMOGPEmbedding, _EMBEDDING),
    Case("sbgprn-embedding", SBGPRNEmbedding, _ONE_NORMAL),
    Case("gprn-embedding", GPRNEmbedding, _EMBEDDING),
    Case("neural-sbgprn-embedding", NeuralSBGPRNEmbedding, _EMBEDDING),
)
_DGP_CLASSIFIER = {"n_inducing": 8, "n_samples": 2, "n_prediction_samples": 4}
CLASSIFIERS = (
    Case("svgp", SVGPClassifier, {"n_inducing": 8}),
    Case("svgp-ordinal", SVGPClassifier, {"n_inducing": 8, "likelihood": "ordinal"}),
    Case("ppgpr", PPGPRClassifier, {"n_inducing": 8, "n_inducing_mean": 10}),
    Case("dgp", DGPClassifier, {"share_kernel": True, **_DGP_CLASSIFIER}),
    Case(
        "dspp",
        DSPPClassifier,
        {"n_inducing": 8, "n_sites": 2, "quadrature": "qr3", "hidden_mean": "linear"},
    ),
    Case(
        "dspp-continuous",
        DSPPClassifier,
        {"n_inducing": 8, "n_sites": 2, "quadrature": "continuous"},
    ),
)
# The first case of each class, for what does not depend on the choice of model.
ONE_PER_CLASS = tuple({case.cls: case for case in reversed(REGRESSORS)}.values())
# One of each base class that trains in its own way, for what happens before and after training.
REPRESENTATIVES = tuple(
    case
    for case in REGRESSORS
    if case.name
    in {"svgp-full", "dspp-qr3", "iwdgp", "neural-mogp", "sghmc", "cvae", "mcdropout", "fitc"}
)


# Decorators of tests about some of the estimators: of the module's cases, these alone.
_only = pytest.mark.only
for_representatives = _only(REPRESENTATIVES)
for_gps = _only(GP_REGRESSORS)
# A latent function is an output, or the outputs are linear combinations of latent functions.
for_latents = _only(tuple(case for case in GP_REGRESSORS if case not in READOUT_REGRESSORS))
for_functions = _only(FUNCTION_REGRESSORS)
for_no_functions = _only(tuple(case for case in REGRESSORS if case not in FUNCTION_REGRESSORS))
# Their GPs are all that depends on the inputs.
for_gps_alone = _only(
    tuple(case for case in GP_REGRESSORS if not issubclass(case.cls, MIXED_BY_NETWORKS))
)
for_coregionalised = _only(
    tuple(case for case in STACK_REGRESSORS if case not in READOUT_REGRESSORS)
)
for_sparse = _only(SPARSE_REGRESSORS)
# One component, so one normal for each row.
for_normals = _only(SPARSE_REGRESSORS + COLLAPSED_REGRESSORS)
for_variational = _only(VARIATIONAL_REGRESSORS)
for_stacks = _only(STACK_REGRESSORS)
for_inducing = _only((*STACK_REGRESSORS, COLLAPSED_REGRESSORS[0]))
for_minibatches = _only(MINIBATCH_REGRESSORS)
# A seed has a say in every fit: in k-means, in weights or in the order of rows.
for_seeded = _only((*MINIBATCH_REGRESSORS, COLLAPSED_REGRESSORS[0]))


def assert_trained_for(model: Any, max_iter: int) -> None:
    """All epochs are done; L-BFGS, which has no batches, may have converged before."""
    curve = model.loss_curve_
    assert model.n_iter_ == len(curve) <= max_iter
    if hasattr(model, "batch_size") or len(curve) < 2 or abs(curve[-1] - curve[-2]) > 1e-9:
        assert model.n_iter_ == max_iter


NOISE_STD = 0.5


class Data(NamedTuple):
    """Rows to fit and rows to predict; every number is exact in float32."""

    X: Any
    y: Any
    X_new: Any
    y_new: Any

    @property
    def Y(self) -> Any:
        """Two outputs of different units that depend on each other."""
        return np.column_stack([self.y, 100.0 - 8.0 * self.y + self.X[:, 1]])


def make_data(n: int = 60, n_new: int = 25, seed: int = 0) -> Data:
    """Inputs of different units, a smooth target of 20 +- 5 and noise of deviation `NOISE_STD`."""
    rng = np.random.default_rng(seed)
    unit = rng.uniform(-1.0, 1.0, size=(n + n_new, 3))
    X = np.round((unit * [2.0, 30.0, 0.5] + [0.0, 50.0, 0.0]) * 1024) / 1024
    f = 20.0 + 5.0 * np.sin(X[:, 0]) + 3.0 * unit[:, 1] + 4.0 * unit[:, 2] ** 2
    y = np.round((f + NOISE_STD * rng.normal(size=n + n_new)) * 1024) / 1024
    return Data(X[:n], y[:n], X[n:], y[n:])


def make_labels(n: int = 60) -> Data:
    """The rows of `make_data`, in three classes by terciles of their targets."""
    rows = make_data(n)
    edges = np.quantile(rows.y, [1 / 3, 2 / 3])
    labels = np.array(["bottom", "middle", "top"])
    y, y_new = (labels[np.searchsorted(edges, part)] for part in (rows.y, rows.y_new))
    return Data(rows.X, y, rows.X_new, y_new)


def rows_of(case: Case, data: Data) -> tuple[Any, ...]:
    """What the estimator is fitted to: rows of outputs alone, with labels, or with numbers."""
    if case in EMBEDDINGS:
        return (data.Y,)
    if case in CLASSIFIERS:
        labels = make_labels()
        return labels.X, labels.y
    return data.X, data.y
