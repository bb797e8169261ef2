"""Constructor parameters that say what the model is."""

from dataclasses import replace
from numbers import Real
from typing import Final, get_args

from sklearn.utils._param_validation import Interval

from skgp.core.kernels.kernel import GPyTorchBase
from skgp.core.kernels.stationary import PROFILES
from skgp.core.networks.activations import ACTIVATIONS
from skgp.core.nodes.sigma_points import GRIDS, RULES
from skgp.estimators._entries import Deviation, Group, Parameter, at_least, literal, one_of
from skgp.recipes.hidden import TOPOLOGIES
from skgp.recipes.outputs import LikelihoodName

PENALTY: Final = Interval(Real, 0, 1e15, closed="both")

_KERNEL: Final = Parameter(
    "kernel",
    "KernelLike",
    '"matern52"',
    [one_of(*PROFILES), GPyTorchBase],
    """
    kernel : {"rbf", "matern12", "matern32", "matern52"} or gpytorch kernel, default=$default
        A name gives one lengthscale per input (ARD). A gpytorch kernel is copied, with its
        priors, for each latent function; it sees standardised inputs if `normalize_X`.
    """,
)
# `kernel` of a family with several layers.
LAYER_KERNELS: Final = Deviation(
    annotation="LayerKernels",
    constraint=[*_KERNEL.constraint, list, tuple],
    text="""
    kernel : {"rbf", "matern12", "matern32", "matern52"}, gpytorch kernel, or list of them, \
default=$default
        One for all layers of GPs, or a list of one for each, from the inputs upwards. A name
        gives one lengthscale per input (ARD). A gpytorch kernel is copied, with its priors, for
        each function; it sees standardised inputs if `normalize_X`.
    """,
)
_N_LATENTS: Final = Parameter(
    "n_latents",
    "int | None",
    "None",
    [at_least(1), None],
    """
    Number W of latent functions of a two-dimensional y, which the linear model of coregionalisation
    mixes into P outputs; P if None.
    """,
)
_WEIGHT_DECAY: Final = Parameter(
    "weight_decay",
    "float",
    "1e-4",
    [PENALTY],
    """
    L2 penalty on the network's parameters alone: weight_decay / 2 times their squared norm is added
    to the loss per row.
    """,
)
_N_LAYERS: Final = Parameter("n_layers", "int", "2", [at_least(1)])
_WIDTH: Final = Parameter("width", "int", "3", [at_least(1)])
_N_INDUCING: Final = Parameter("n_inducing", "int", "300", [at_least(1)])
_COVARIANCE: Final = Parameter.choice("covariance", ("full", "diagonal"), "full")
_BETA_REG: Final = Parameter("beta_reg", "float", "1.0", [PENALTY])
# `n_inducing` of a deep family that can choose it.
AUTO_INDUCING: Final = Deviation(
    annotation='int | Literal["auto"]',
    default='"auto"',
    constraint=[at_least(1), one_of("auto")],
)
# `beta_reg` of a family that can choose it.
AUTO_BETA_REG: Final = Deviation(
    annotation='float | Literal["auto"]', default='"auto"', constraint=[PENALTY, one_of("auto")]
)
_KL_ANNEALING: Final = Parameter(
    "kl_annealing",
    "int",
    "0",
    [at_least(0)],
    "Epochs over which the weight of the divergences rises from zero to `beta_reg`.",
)
_N_SAMPLES: Final = Parameter("n_samples", "int", "10", [at_least(1)])
_N_PREDICTION_SAMPLES: Final = Parameter("n_prediction_samples", "int", "32", [at_least(1)])
_N_IMPORTANCE: Final = Parameter("n_importance", "int", "5", [at_least(1)])

# Parameters that belong to no group, or that some docstrings have alone. Families document those
# without text themselves, for each of them says something else there.
MODEL_PARAMETERS: Final[Group] = (
    _KERNEL,
    Parameter("architecture", "str", '"LV-GP-GP"', [str]),
    _N_LAYERS,
    _WIDTH,
    Parameter("latent_dim", "int", "1", [at_least(1)]),
    Parameter(
        "hidden_layer_sizes", "int | Sequence[int]", "(100, 100)", [at_least(1), "array-like"]
    ),
    Parameter("dropout", "float", "0.1", [Interval(Real, 0, 1, closed="left")]),
    _N_SAMPLES,
    _N_PREDICTION_SAMPLES,
    Parameter("max_components", "int", "40", [at_least(1)]),
    Parameter("amortized", "bool", "True", ["boolean"]),
    _N_INDUCING,
    Parameter("n_inducing_mean", "int", "1000", [at_least(1)]),
    Parameter("n_orthogonal", "int", "0", [at_least(0)]),
    Parameter(
        "share_kernel",
        'bool | Literal["auto"]',
        '"auto"',
        ["boolean", one_of("auto")],
        """
        share_kernel : bool or "auto", default=$default
            Whether the GPs of a layer have one kernel and one set of inducing inputs, as in the
            doubly stochastic paper, or each its own. A step with many classes and inputs is then
            several times cheaper. "auto": where there are five or more.
        """,
    ),
    _COVARIANCE,
    Parameter.choice("objective", ("elbo", "predictive"), "elbo"),
    _BETA_REG,
    Parameter("gamma", "float | None", "None", [Interval(Real, 1, None, closed="neither"), None]),
    _N_LATENTS,
    _WEIGHT_DECAY,
    _KL_ANNEALING,
    _N_IMPORTANCE,
)

_N_LATENTS_HALF: Final[Group] = (
    replace(
        _N_LATENTS,
        text="Number L of latent functions, at most P; half of P, rounded up, if None.",
    ),
)
_HIDDEN_UNITS: Final[Group] = (
    Parameter(
        "n_hidden",
        "int | None",
        "None",
        [at_least(1), None],
        "Number H of hidden units; $hidden_rule if None.",
    ),
    Parameter.choice(
        "activation",
        ACTIVATIONS,
        "leaky_relu",
        "Activation g: max(0, a), max(0.35 a, a), erf(a) or 1 + erf(a).",
    ),
)
_READOUT: Final[Group] = (
    Parameter.choice(
        "inference",
        ("sampling", "analytic"),
        "analytic",
        """
        Whether a training step draws the latent functions and the units' biases, or integrates them
        out of the expected log likelihood in closed form (Eqns 10 to 20).
        """,
    ),
    replace(
        _N_SAMPLES,
        default="32",
        text="Draws for each row of a training step.",
    ),
    replace(
        _N_PREDICTION_SAMPLES,
        default="128",
        text="""
        Nodes of a prediction: a scrambled Sobol sequence, drawn once in `fit`, moved so that the
        mean of a prediction is exact.
        """,
    ),
)
_FEATURES: Final[Group] = (
    Parameter(
        "feature_extractor",
        "FeatureExtractor | None",
        "None",
        [None, one_of("dkl", "deep-kernel"), "array-like", callable],
        """
        feature_extractor : "dkl", "deep-kernel", list of int, or callable, optional
            Deep kernel: a network, trained together with the GP, between inputs and kernel. "dkl"
            is the network of widths 1000, 1000, 500, 50 and 20 of the deep sigma point paper
            (appendix A.5): batch norm and ReLU, the features standardised by a last batch norm. A
            list gives other widths. "deep-kernel" multiplies the inputs by factors near one, made
            by two tanh layers of 50 (neural likelihoods paper). A callable gets the number of
            inputs and returns a `torch.nn.Module`, which has to pickle.
        """,
    ),
    replace(
        _WEIGHT_DECAY,
        text="""
        L2 penalty on the parameters of `feature_extractor`, and on no others: weight_decay / 2
        times their squared norm is added to the loss per row.
        """,
    ),
)
_HIDDEN_MEAN_TEXT: Final = """
        Prior mean of the hidden functions. "linear" has learned weights, which start at the leading
        principal directions of what the layer sees; "identity" keeps that start (the identity if
        the width is that of its inputs); "concatenate" has no linear mean, and the kernels above
        see the hidden functions and the inputs.
        """
_HIDDEN: Final[Group] = (
    Parameter.choice(
        "hidden_mean",
        ("linear", "identity", "concatenate"),
        "linear",
        _HIDDEN_MEAN_TEXT,
    ),
    Parameter.choice(
        "topology",
        TOPOLOGIES,
        "feedforward",
        """
        What hidden layers above the first see (deep sigma point paper, appendix A.4, 1 to 4):
        kernel and linear mean see the layer below; the kernel sees the layer below, and the mean
        the inputs; the kernel the layer below, and the mean both; both see both.
        """,
    ),
)
# `hidden_mean` of a family that can choose it.
AUTO_HIDDEN_MEAN: Final = replace(
    Deviation.choice("auto", "linear", "identity", "concatenate", default="auto"),
    text=_HIDDEN_MEAN_TEXT
    + """
        "auto" concatenates up to ten times `batch_size` rows, unless `topology` speaks of linear
        means or `kernel` is one of gpytorch above the first layer. It is "linear" for more rows and
        for streams.
        """,
)
# `likelihood` of a family of regressors.
OBSERVED: Final = Deviation(
    annotation="LikelihoodName",
    default='"normal"',
    constraint=[one_of(*get_args(LikelihoodName))],
    text="""
    likelihood : {"normal", "student_t", "heteroscedastic", "poisson", "negative_binomial", \
"censored"}, default=$default
        How y scatters about the function f; all but "normal" are for one output. "student_t" has
        noise of heavy tails, with learned degrees of freedom; "heteroscedastic" normal noise whose
        log variance is a second function. "poisson" and "negative_binomial" are for counts of mean
        exp(f), which are never scaled; the latter learns a dispersion a: the variance is mu + a
        mu^2 at the mean mu. "censored" is "normal" with a y of shape (n, 2), lower and upper
        bounds: equal where y is observed, -inf or inf where there is none. What was learned is in
        `likelihood_parameters_`.
    """,
)
_CLASSES: Final[Group] = (
    Parameter.choice(
        "likelihood",
        ("auto", "probit", "logit", "robust-max", "softmax", "ordinal"),
        "auto",
        """
        "probit" and "logit" are links of one function for two classes. "ordinal" is for classes
        whose order is that of sorting: thresholds, which are learned, divide one function plus
        normal noise. The others have a function for each class: the largest one wins with
        "robust-max" (Hernandez-Lobato et al. 2011), up to slips of probability `label_noise`;
        "softmax" draws the functions in training. "auto" is "probit" for two classes and
        "$of_several" for several.
        """,
    ),
    Parameter(
        "label_noise",
        "float",
        "1e-3",
        [Interval(Real, 0, 1, closed="neither")],
        """
        label_noise : float in (0, 1), default=$default
            Probability that the label is not that of the largest function ("robust-max" only).
        """,
    ),
    Parameter(
        "class_weight",
        "Any",
        "None",
        [dict, one_of("balanced"), None],
        """
        class_weight : dict, "balanced" or None, default=$default
            Weights of the classes, which multiply those of the rows; "balanced" as in
            scikit-learn. Probabilities are then those of the weighted table.
        """,
    ),
)
_EMBEDDING: Final[Group] = (
    Parameter(
        "n_components",
        "int",
        "2",
        [at_least(1)],
        "Number C of latent inputs.",
        positional=True,
    ),
    replace(
        _KERNEL,
        default='"rbf"',
        text="""
        kernel : {"rbf", "matern12", "matern32", "matern52"} or gpytorch kernel, default=$default
            A name gives one lengthscale for all latent inputs. A gpytorch kernel is copied, with
            its priors, for each latent function; its ard_num_dims may be C.
        """,
    ),
    replace(
        _N_LATENTS,
        text="Number L of latent functions, at most P; twice `n_components`, if None.",
    ),
)
_DENSITY: Final[Group] = (
    replace(
        _N_IMPORTANCE,
        default="50",
        text="Draws of a row's latent inputs from which `score_samples` estimates its density.",
    ),
)
_SPARSE: Final[Group] = (
    replace(
        _N_INDUCING,
        default="100",
        text="""
        Number M of inducing inputs of each GP, started by k-means of the principal components; cost
        grows with M^2 per row.
        """,
    ),
    replace(
        _COVARIANCE,
        text="Covariance of q(u).",
    ),
    replace(
        _BETA_REG,
        text="""
        Weight of the divergences of what all rows share. One gives the evidence lower bound.
        """,
    ),
)
_READOUT_LAYER: Final[Group] = (
    replace(
        _N_INDUCING,
        text="""
        Number M of inducing inputs of each GP, started by k-means; cost grows with M^2 per row.
        """,
    ),
    _SPARSE[1],
    replace(
        _BETA_REG,
        text="Weight of all divergences. One gives the evidence lower bound.",
    ),
    _KL_ANNEALING,
)
_SIGMA_POINTS: Final[Group] = (
    replace(
        _N_LAYERS,
        text="Layers of GPs, the top one counted.",
    ),
    replace(
        _WIDTH,
        text="Functions of each hidden layer.",
    ),
    Parameter(
        "n_sites",
        "int",
        "10",
        [at_least(1)],
        """
        Nodes of "matched" and "qr3"; sites of each hidden function for the other rules, whose grids
        have n_sites ** (width * (n_layers - 1)) nodes.
        """,
    ),
    Parameter(
        "quadrature",
        literal(("auto", "matched", "qr1", "qr2", "qr3", "gauss-hermite")),
        '"auto"',
        [one_of("auto", *RULES, *GRIDS)],
        """
        "matched" has n_sites fixed nodes of equal weight, with the mean and the covariance of a
        standard normal; the others are the paper's. "qr3" learns n_sites nodes and their weights;
        "qr1" a grid of learned sites with learned joint weights; "qr2" the same with sites
        symmetric about zero; "gauss-hermite" is the fixed Gauss-Hermite grid. "auto" is "matched"
        up to ten times `batch_size` rows, where learned nodes overfit, and "qr3" for more rows and
        for streams.
        """,
    ),
)

MODEL_GROUPS: Final[dict[str, Group]] = {
    "n_latents_half": _N_LATENTS_HALF,
    "hidden_units": _HIDDEN_UNITS,
    "readout": _READOUT,
    "features": _FEATURES,
    "hidden": _HIDDEN,
    "classes": _CLASSES,
    "embedding": _EMBEDDING,
    "density": _DENSITY,
    "sparse": _SPARSE,
    "readout_layer": _READOUT_LAYER,
    "sigma_points": _SIGMA_POINTS,
}
