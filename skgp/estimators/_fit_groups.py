"""Constructor parameters that say how a model is fitted."""

from dataclasses import replace
from numbers import Real
from os import PathLike
from typing import Final

from sklearn.utils._param_validation import HasMethods, Interval

from skgp.estimators._entries import Deviation, Group, Parameter, at_least, one_of
from skgp.fitting.checkpoint import Checkpoint

# `max_iter` of a family that is trained on all rows at once.
ITERATIONS: Final = Deviation(
    annotation="int",
    default="100",
    constraint=[at_least(1)],
    text="Iterations of L-BFGS; fewer if it converges. Each sees all rows, once or more.",
)
_MAX_ITER: Final = Parameter(
    "max_iter",
    'int | Literal["auto"]',
    '"auto"',
    [at_least(1), one_of("auto")],
    """
    max_iter : int or "auto", default=$default
        Epochs. "auto": $auto_epochs, but no more than make $most_steps steps (and at least
        3), and enough for $least_steps steps.
    """,
)
# `max_iter` of a family that has an optimum on small tables.
OPTIMUM_OR_EPOCHS: Final = Deviation(
    text="""
    max_iter : int or "auto", default=$default
        Epochs. "auto" goes to the optimum of the bound on tables of one target and up to 4,000
        rows: with q(u) integrated out (Titsias 2009) by up to 100 iterations of L-BFGS, each of
        which counts as an epoch, then the best q(u). That needs a full covariance, `beta_reg=1`,
        `optimizer="adam"`, and neither `gamma`, `n_orthogonal`, `feature_extractor`,
        `early_stopping` nor `dtype="float32"`. With standardised inputs and targets a named kernel
        then has a weak prior, log-normal of unit deviation where it starts. Else "auto" is
        $auto_epochs, but no more than make $most_steps steps (and at least 3), and enough for
        $least_steps steps.
    """,
)
# `max_iter` and `early_stopping` of a family that finds its epochs by held-out rows.
FOUND_EPOCHS: Final = Deviation(
    text="""
    max_iter : int or "auto", default=$default
        Epochs, of which `early_stopping` may leave some out. "auto" without it: $auto_epochs, but
        no more than make $most_steps steps (and at least 3), and enough for $least_steps steps;
        with it: up to 400 for a data set of one batch, and up to 5,000 steps, if these are more,
        for a larger one.
    """,
)
FOUND_STOPPING: Final = Deviation(
    annotation='bool | Literal["auto"]',
    default='"auto"',
    constraint=["boolean", one_of("auto")],
    text="""
    early_stopping : bool or "auto", default=$default
        How held-out rows find the number of epochs. "auto": up to `batch_size` rows (and from 20
        on), models of five folds (three above 200 rows) score the rows left out of them; then a
        model of all rows trains for the fewest epochs that scored within `tol` of the best. Up to a
        hundred times `batch_size`, the model is an average over the last epochs; when it no longer
        scores better on the rows of `X_val`, else on a share `validation_fraction` of the training
        rows, the learning rate falls to zero, and the best model is kept. For more, as False:
        `max_iter` epochs of one cycle of the learning rate. True is one cycle that stops when the
        score no longer improves, and keeps the best parameters.
    """,
)
_NORMALIZE_X: Final = Parameter(
    "normalize_X",
    "bool",
    "True",
    ["boolean"],
    "Standardise inputs inside the estimator.",
)
_NORMALIZE_Y: Final = Parameter("normalize_y", "bool", "True", ["boolean"])
_NOISE_FLOOR: Final = Parameter(
    "noise_floor",
    "float",
    "1e-4",
    [Interval(Real, 0, 1e30, closed="right")],  # in the range of float32
    """
    Lower bound of the noise variance, in units of the variance of y if `normalize_y`. Discrete or
    leaking targets let a density grow without bound; the floor keeps it finite.
    """,
)
_JITTER: Final = Parameter(
    "jitter",
    "float",
    "1e-4",
    [Interval(Real, 0, 1, closed="right")],
    """
    Diagonal regularisation of the kernel matrix of the inducing inputs, relative to the kernel
    variance.
    """,
)
_COMPILE: Final = Parameter(
    "compile",
    "bool",
    "False",
    ["boolean"],
    """
    Whether `torch.compile` fuses the element-wise functions of a training step. On a CPU that saves
    a few per cent of the step of a deep model, and results differ by rounding. The first fits
    compile for half a minute or more; torch keeps the result on disk. It needs a C++ compiler:
    without one the fit warns and goes on.
    """,
)

# Parameters that belong to no group, or that some docstrings have alone. Families document those
# without text themselves.
FIT_PARAMETERS: Final[Group] = (
    _MAX_ITER,
    Parameter(
        "input_warping",
        'bool | Literal["auto"]',
        '"auto"',
        ["boolean", one_of("auto")],
        """
        input_warping : bool or "auto", default=$default
            Whether the kernel sees power transforms of the columns that are strongly skewed
            (`input_powers_`). "auto": if a bound on the marginal likelihood is higher with them,
            by 0.02 nats per row. Only with `normalize_X`, kernels by name and no
            `feature_extractor`.
        """,
    ),
    Parameter.choice(
        "optimizer",
        ("adam", "natgrad"),
        "adam",
        """
        "natgrad" moves q(u) by natural-gradient steps and everything else by Adam. It needs a full
        covariance and an objective that is quadratic in u.
        """,
    ),
    _NORMALIZE_X,
    _NORMALIZE_Y,
    _NOISE_FLOOR,
    _JITTER,
    Parameter(
        "data_parallel",
        "bool",
        "False",
        ["boolean"],
        """
        Whether the processes of torch.distributed's default group, made by a launcher such as
        torchrun, train one model together: each passes rows of its own to `fit`, `batch_size`
        counts the rows of all, and all end with the same model. It needs an integer `random_state`
        and more than `batch_size` rows in all, or `early_stopping=False`.
        """,
    ),
    Parameter("n_posterior_samples", "int", "50", [at_least(1)]),
    Parameter("thinning", "int", "10", [at_least(1)]),
    Parameter("n_burn_in", "int", "1000", [at_least(0)]),
    Parameter("step_size", "float", "0.02", [Interval(Real, 0, 1e6, closed="right")]),
    Parameter("friction", "float", "0.05", [Interval(Real, 0, 1, closed="right")]),
    Parameter("max_cholesky_size", "int", "5000", [at_least(0)]),
)

_MINIBATCH: Final[Group] = (
    _MAX_ITER,
    Parameter(
        "batch_size",
        "int",
        "1000",
        [at_least(1)],
        "Rows per step. A table of no more rows is trained as a whole, without random order.",
    ),
    Parameter(
        "learning_rate_init",
        "float",
        "0.03",
        [Interval(Real, 0, None, closed="neither")],
        "Peak of the one-cycle schedule of Adam.",
    ),
)
_STOPPING: Final[Group] = (
    Parameter(
        "early_stopping",
        "bool",
        "False",
        ["boolean"],
        """
        Stop when the validation score no longer improves, and keep the best parameters. The rows
        are those of `X_val`, else a share `validation_fraction` of the training rows.
        """,
    ),
    Parameter(
        "validation_fraction",
        "float",
        "0.1",
        [Interval(Real, 0, 1, closed="neither")],
        "Share of the rows held out if `early_stopping` and no `X_val` is given.",
    ),
    Parameter(
        "n_iter_no_change",
        "int",
        "10",
        [at_least(1)],
        "Epochs without improvement after which training stops.",
    ),
    Parameter(
        "tol",
        "float",
        "1e-4",
        [Interval(Real, 0, None, closed="left")],
        "Improvement that counts, in nats per row.",
    ),
)
_RESTARTS: Final[Group] = (
    Parameter(
        "n_restarts",
        "int",
        "1",
        [at_least(1)],
        """
        Starts from other network weights and other lengthscales (of a named kernel), with the same
        inducing inputs; the one with the lowest training loss after a twentieth of the epochs, or
        five iterations of L-BFGS, is trained to the end.
        """,
    ),
)
_SCALES: Final[Group] = (
    replace(
        _NORMALIZE_X,
        text="""
        normalize_X, normalize_y : bool, default=$default
            Standardise inputs and targets inside the estimator. Results come back in the units
            of y.
        """,
    ),
    _NORMALIZE_Y,
    _NOISE_FLOOR,
)
_TABLE: Final[Group] = (
    replace(
        _NORMALIZE_X,
        text="""
        Standardise the columns inside the estimator, by their observed entries. Results come back
        in the units of X.
        """,
    ),
    replace(
        _NOISE_FLOOR,
        text="""
        Lower bound of the noise variance, in units of the variance of a column if `normalize_X`.
        """,
    ),
)
_EXECUTION: Final[Group] = (
    Parameter(
        "checkpoint",
        "Any",
        "None",
        [None, str, PathLike, Checkpoint],
        """
        checkpoint : None, str, path-like or Checkpoint, default=$default
            Where `fit` writes its state every 60 seconds, so that a fit with the same parameters
            and rows goes on from there after its process has ended, to the last bit, and returns
            at once if it had ended. A folder serves any number of fits; a file name ending with
            ".ckpt" one alone. It needs a `random_state`. Training on chunks of a stream
            (`partial_fit`) writes none.
        """,
    ),
    Parameter(
        "memory",
        "Any",
        "None",
        [None, str, HasMethods(["cache"])],
        """
        memory : None, str or joblib.Memory, default=$default
            Where scales, and inducing inputs of k-means, are kept, so that fits on the same rows
            with an integer `random_state` share them. Each version of skgp and scikit-learn keeps
            its own; without a usable folder the fit warns and computes them. Whoever can write to
            the folder can run code in the process that fits, for objects on disk are pickles.
        """,
    ),
    Parameter.choice(
        "dtype",
        ("auto", "float32", "float64"),
        "auto",
        """
        Arithmetic of training; "auto" is $auto_dtype. Factors of kernel matrices and predictions
        are always in float64.
        """,
    ),
    Parameter(
        "device",
        "str",
        '"cpu"',
        [str],
        """
        Torch device of training and prediction; "auto" is "cuda" if there is such a device, else
        "cpu".
        """,
    ),
    Parameter(
        "verbose",
        "int",
        "0",
        ["verbose"],
        "If positive, write a line per epoch: loss, validation score, seconds and the most left.",
    ),
    Parameter(
        "random_state",
        "Any",
        "None",
        ["random_state"],
        """
        random_state : int, RandomState or None
            Seed of the inducing inputs, of a network's weights and masks, and of the order of rows.
        """,
    ),
)
_RUNNING: Final[Group] = (
    Parameter(
        "warm_start",
        "bool",
        "False",
        ["boolean"],
        """
        Whether `fit` goes on from the last fit's parameters and scales, at a tenth of the learning
        rate.
        """,
    ),
    *_EXECUTION,
)

FIT_GROUPS: Final[dict[str, Group]] = {
    "minibatch": _MINIBATCH,
    "stopping": _STOPPING,
    "restarts": _RESTARTS,
    "scales": _SCALES,
    "running": _RUNNING,
    # What all estimators of a kind have last, networks apart.
    "regressor": (*_STOPPING, *_RESTARTS, *_SCALES, _JITTER, _COMPILE, *_RUNNING),
    "classifier": (*_STOPPING, *_RESTARTS, _NORMALIZE_X, _JITTER, _COMPILE, *_RUNNING),
    "transformer": (*_RESTARTS, *_TABLE, _JITTER, _COMPILE, *_EXECUTION),
}
