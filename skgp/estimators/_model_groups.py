"""Constructor parameters that say what the model is."""

from dataclasses import replace
from numbers import Real
from typing import Final, get_args

from sklearn.utils._param_validation import Interval

from skgp.core.kernels.kernel import GPyTorchBase
from skgp.core.networks.activations import ACTIVATIONS
from skgp.estimators._entries import Deviation, Group, Parameter, at_least, one_of
from skgp.fitting.arguments import KernelNames
from skgp.recipes.hidden import QuadratureName
from skgp.recipes.outputs import LikelihoodName

PENALTY: Final = Interval(Real, 0, 1e15, closed="both")

_KERNEL: Final = Parameter(
    "kernel",
    "KernelLike",
    '"matern52"',
    [KernelNames(), GPyTorchBase],
    """
    kernel : {"rbf", "matern12", "matern32", "matern52", "rational_quadratic"} or gpytorch kernel, \
default=$default
        A named kernel has one lengthscale per input (ARD). A gpytorch kernel is copied, with its
        priors, for each latent function; it sees standardised inputs if `normalize_X`.
    """,
)
# `kernel` of a family with several layers.
LAYER_KERNELS: Final = Deviation(
    annotation="LayerKernels",
    constraint=[*_KERNEL.constraint, list, tuple],
    text="""
    kernel : {"rbf", "matern12", "matern32", "matern52", "rational_quadratic"}, gpytorch kernel, \
or list of them, default=$default
        One kernel for all GP layers, or a list with one per layer, input layer first. A named
        kernel has one lengthscale per input (ARD). A gpytorch kernel is copied, with its priors,
        for each function; it sees standardised inputs if `normalize_X`.
    """,
)
_N_LATENTS: Final = Parameter(
    "n_latents",
    "int | None",
    "None",
    [at_least(1), None],
    """
    Number W of latent functions of a two-dimensional y, which a linear model of coregionalisation
    mixes into P outputs. None takes P.
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
_N_INDUCING: Final = Parameter(
    "n_inducing",
    "int",
    "300",
    [at_least(1)],
    """
    Number M of inducing inputs of each GP, initialised by k-means; the cost per row grows with M^2.
    """,
)
_COVARIANCE: Final = Parameter.choice("covariance", ("full", "diagonal"), "full")
_BETA_REG: Final = Parameter("beta_reg", "float", "1.0", [PENALTY])
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
    Parameter(
        "n_layers",
        "int",
        "2",
        [at_least(1)],
        "Number of GP layers, including the output layer.",
    ),
    Parameter("width", "int", "3", [at_least(1)], "Number of GPs in each hidden layer."),
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
        "False",
        ["boolean", one_of("auto")],
        """
        share_kernel : bool or "auto", default=$default
            Whether the GPs of a layer share one kernel and one set of inducing inputs, as in the
            doubly stochastic paper, or each has its own. With many GPs, sharing makes a step much
            cheaper. "auto" shares if there are five or more.
        """,
    ),
    _COVARIANCE,
    Parameter.choice("objective", ("elbo", "predictive"), "elbo"),
    _BETA_REG,
    Parameter("gamma", "float | None", "None", [Interval(Real, 1, None, closed="neither"), None]),
    Parameter(
        "renyi_order", "float | None", "None", [Interval(Real, 0, 1e6, closed="right"), None]
    ),
    _N_LATENTS,
    _WEIGHT_DECAY,
    _KL_ANNEALING,
    _N_IMPORTANCE,
    Parameter.choice("gradient", ("reparameterized", "doubly_reparameterized"), "reparameterized"),
)

_N_LATENTS_HALF: Final[Group] = (
    replace(
        _N_LATENTS,
        text="Number L of latent functions, at most P. None takes half of P, rounded up.",
    ),
)
_HIDDEN_UNITS: Final[Group] = (
    Parameter(
        "n_hidden",
        "int | None",
        "None",
        [at_least(1), None],
        "Number H of hidden units. None takes $hidden_rule.",
    ),
    Parameter.choice(
        "activation",
        ACTIVATIONS,
        "leaky_relu",
        "Activation g of a: max(0, a), max(0.35 a, a), erf(a), 1 + erf(a) or a erf(a).",
    ),
)
_READOUT: Final[Group] = (
    Parameter.choice(
        "inference",
        ("sampling", "analytic"),
        "analytic",
        """
        Whether a training step samples the latent functions and the biases of the units, or
        integrates them out of the expected log likelihood in closed form (Eqns 10 to 20).
        """,
    ),
    replace(
        _N_SAMPLES,
        default="32",
        text="Number of samples for each row of a training step.",
    ),
)
_READOUT_NODES: Final[Group] = (
    replace(
        _N_PREDICTION_SAMPLES,
        default="128",
        text="""
        Number of components of a prediction. Their nodes are a scrambled Sobol sequence, drawn once
        in `fit` and shifted so that the predictive mean is exact, given the hidden layers' draws if
        there are any.
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
            Network between the inputs and the kernel, trained together with the GP (a deep
            kernel). "dkl" is the network of the deep sigma point paper (appendix A.5): layers of
            1000, 1000, 500, 50 and 20 units with batch norm and ReLU, whose features a last batch
            norm standardises. A list gives other widths. "deep-kernel" multiplies the inputs by
            factors near one, which two tanh layers of 50 units compute (neural likelihoods paper).
            A callable takes the number of inputs and returns a `torch.nn.Module` that can be
            pickled.
        """,
    ),
    replace(
        _WEIGHT_DECAY,
        text="""
        L2 penalty on the parameters of networks alone, such as `feature_extractor`: weight_decay /
        2 times their squared norm is added to the loss per row.
        """,
    ),
)
# `likelihood` of a family of regressors.
OBSERVED: Final = Deviation(
    annotation="LikelihoodName",
    default='"normal"',
    constraint=[one_of(*get_args(LikelihoodName))],
    text="""
    likelihood : {"normal", "student_t", "heteroscedastic", "poisson", "negative_binomial", \
"censored"}, default=$default
        Distribution of y given the function f; all but "normal" take one output. "student_t" has
        heavy-tailed noise with learned degrees of freedom. "heteroscedastic" has normal noise whose
        log variance is a second function. "poisson" and "negative_binomial" are for counts with
        mean exp(f), which are never scaled; the latter learns a dispersion a, so that the variance
        is mu + a mu^2 at the mean mu. "censored" is "normal" for a y of shape (n, 2), lower and
        upper bounds: equal where y is observed, -inf or inf where there is none. The learned values
        are in `likelihood_parameters_`.
    """,
)
_CLASSES: Final[Group] = (
    Parameter.choice(
        "likelihood",
        ("auto", "probit", "logit", "robust-max", "softmax", "ordinal"),
        "auto",
        """
        "probit" and "logit" are links of one latent function, for two classes. "ordinal" is for
        ordered classes (in the order of sorting): learned thresholds divide one function plus
        normal noise. The others have a function for each class. With "robust-max" the class is that
        of the largest function, except for errors of probability `label_noise` (Hernandez-Lobato et
        al. 2011). "softmax" samples the functions in training. "auto" is "probit" for two classes
        and "$of_several" for more.
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
            scikit-learn. The probabilities are then those of the weighted data set.
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
        _N_LATENTS,
        text="Number L of latent functions, at most P. None takes twice `n_components`.",
    ),
    replace(
        _N_INDUCING,
        default="100",
        text="""
        Number M of inducing inputs of each GP, initialised by k-means of the principal components;
        the cost per row grows with M^2.
        """,
    ),
)
_LATENT_KERNEL: Final[Group] = (
    replace(
        _KERNEL,
        default='"rbf"',
        text="""
        kernel : {"rbf", "matern12", "matern32", "matern52", "rational_quadratic"} or gpytorch \
kernel, default=$default
            A named kernel has one lengthscale for all latent inputs. A gpytorch kernel is copied,
            with its priors, for each latent function; its ard_num_dims may be C.
        """,
    ),
)
_DENSITY: Final[Group] = (
    replace(
        _N_IMPORTANCE,
        default="50",
        text="Samples of a row's latent inputs with which `score_samples` estimates its density.",
    ),
)
_SPARSE: Final[Group] = (
    replace(
        _COVARIANCE,
        text="Covariance of q(u).",
    ),
    replace(
        _BETA_REG,
        text="""
        Weight of the divergences of all that the rows share. One gives the evidence lower bound.
        """,
    ),
)
_READOUT_LAYER: Final[Group] = (
    _SPARSE[0],
    replace(
        _BETA_REG,
        text="Weight of all divergences. One gives the evidence lower bound.",
    ),
    _KL_ANNEALING,
)
_SIGMA_POINTS: Final[Group] = (
    Parameter(
        "n_sites",
        "int",
        "10",
        [at_least(1)],
        """
        Number Q of nodes of "matched" and "qr3", or of components of "continuous". For the other
        rules it is the number of sites of each hidden function, and the grid has
        n_sites ** (width * (n_layers - 1)) nodes.
        """,
    ),
    Parameter(
        "quadrature",
        "QuadratureName",
        '"auto"',
        [one_of(*get_args(QuadratureName))],
        """
        quadrature : {"auto", "matched", "qr1", "qr2", "qr3", "continuous", "gauss-hermite"}, \
default=$default
            "matched" has n_sites fixed nodes of equal weight, with the mean and the covariance of a
            standard normal. The others are the paper's: "qr3" learns n_sites nodes and their
            weights; "qr1" learns the sites of a grid and its joint weights; "qr2" does so with
            sites symmetric about zero; "gauss-hermite" is the fixed Gauss-Hermite grid.
            "continuous", future work in the paper, gives the nodes of "qr3" a normal spread,
            learned for each coordinate. Training draws from it, and predictions have four nodes for
            each of the n_sites normals. "auto" is "matched" up to ten times `batch_size` rows,
            where learned nodes overfit, and "qr3" for more rows and streams.
        """,
    ),
)

MODEL_GROUPS: Final[dict[str, Group]] = {
    "n_latents_half": _N_LATENTS_HALF,
    "hidden_units": _HIDDEN_UNITS,
    "readout": _READOUT,
    "readout_nodes": _READOUT_NODES,
    "features": _FEATURES,
    "classes": _CLASSES,
    "embedding": _EMBEDDING,
    "latent_kernel": _LATENT_KERNEL,
    "density": _DENSITY,
    "sparse": _SPARSE,
    "readout_layer": _READOUT_LAYER,
    "sigma_points": _SIGMA_POINTS,
}
