"""What families with several GPs or layers may choose of a layer."""

from dataclasses import replace
from numbers import Real
from typing import Final

from sklearn.utils._param_validation import Interval

from skgp.estimators._entries import Deviation, Group, Parameter, at_least, one_of
from skgp.recipes.hidden import TOPOLOGIES

# `n_inducing` of a family with several layers, and of one of these that can choose it.
LAYER_INDUCING: Final = Deviation(
    annotation="int | Sequence[int]", constraint=[at_least(1), list, tuple]
)
AUTO_INDUCING: Final = Deviation(
    annotation='int | Sequence[int] | Literal["auto"]',
    default='"auto"',
    constraint=[at_least(1), list, tuple, one_of("auto")],
)
# `n_inducing` of a family of one layer that can choose it.
FOUND_INDUCING: Final = Deviation(
    annotation='int | Literal["auto"]', default='"auto"', constraint=[at_least(1), one_of("auto")]
)
# `width` of a family whose top layer sees the hidden functions alone.
AUTO_WIDTH: Final = Deviation(
    annotation='int | Literal["auto"]',
    default='"auto"',
    constraint=[at_least(1), one_of("auto")],
    text="""
    width : int or "auto", default=$default
        Number of GPs in each hidden layer. "auto" is the number of outputs, from 3 to 10.
    """,
)
# `share_kernel` of a family of classifiers.
SHARED_KERNELS: Final = Deviation(
    default='"auto"',
    text="""
    share_kernel : bool or "auto", default=$default
        Whether the GPs of a layer share one kernel and one set of inducing inputs, as in the
        doubly stochastic paper. A step with many classes and inputs is then several times
        cheaper. "auto" shares them if a layer has five GPs or more.
    """,
)
# `prior_mean` of a family whose mean may be a network.
NEURAL_MEAN: Final = replace(
    Deviation.choice("constant", "zero", "network", default="constant"),
    text="""
        Prior mean of the functions: a learned constant, zero, or a constant and a network of the
        inputs with two tanh layers of 50 units, whose weights `weight_decay` penalises.
        """,
)
# `dropout` of a family whose mixing matrix is a network.
MIXING_DROPOUT: Final = Deviation(
    default="0.0",
    text="""
        Probability with which a training step drops each weight of the last layer of M(x), for each
        row. The masks are integrated out in closed form; predictions are without. It regularises
        the network beside the priors of its weights.
        """,
)
_HIDDEN_MEAN_TEXT: Final = """
        Prior mean of the hidden functions. "linear" learns its weights, starting from the leading
        principal directions of the layer's inputs. "identity" keeps these weights fixed (the
        identity if `width` is the number of inputs). "concatenate" has no linear mean, and the
        kernels above see the hidden functions and the inputs.
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
        What the hidden layers above the first see (deep sigma point paper, appendix A.4, 1 to 4).
        "feedforward": kernel and linear mean see the layer below. "skip-mean": the mean sees the
        inputs instead. "skip-mean-both": the mean sees both. "skip-all": kernel and mean see both.
        """,
    ),
    Parameter(
        "hidden_noise",
        "bool",
        "False",
        ["boolean"],
        """
        Whether the hidden functions have noise, of a learned variance for each layer that starts at
        1e-5 (doubly stochastic paper, section 2.2 and supplement). There are no draws of such
        functions.
        """,
    ),
)
# `hidden_mean` of a family that can choose it.
AUTO_HIDDEN_MEAN: Final = replace(
    Deviation.choice("auto", "linear", "identity", "concatenate", default="auto"),
    text=_HIDDEN_MEAN_TEXT.rstrip()
    + """
        "auto" is "concatenate" up to ten times `batch_size` rows, unless `topology` needs linear
        means or a layer above the first has a gpytorch kernel. It is "linear" for more rows and for
        streams.
        """,
)

_BEGINNING: Final[Group] = (
    Parameter.choice(
        "prior_mean",
        ("constant", "zero"),
        "constant",
        "Prior mean of the functions, except where `hidden_mean` applies: learned or zero.",
    ),
    Parameter(
        "initial_noise",
        "float | None",
        "None",
        [Interval(Real, 0, 1e15, closed="right"), None],
        """
        Noise variance at the start, in units of the variance of y if `normalize_y`. The kernel then
        starts as it is: a gpytorch kernel at its own values, a named one with variance one and
        lengthscales sqrt(D). With None, noise and kernel are first fitted to some of the rows.
        """,
    ),
)

LAYER_GROUPS: Final[dict[str, Group]] = {"hidden": _HIDDEN, "beginning": _BEGINNING}
