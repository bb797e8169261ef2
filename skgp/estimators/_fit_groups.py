"""Constructor parameters that say how a model is fitted."""

from dataclasses import replace
from numbers import Real
from os import PathLike
from typing import Final

from sklearn.utils._param_validation import HasMethods, Interval

from skgp.estimators._entries import Deviation, Group, Parameter, at_least, one_of
from skgp.fitting.checkpoint import Checkpoint

# Parameters that a model which goes on reads anew.
CHANGEABLE: Final = frozenset(
    {
        "batch_size",
        "beta_reg",
        "checkpoint",
        "data_parallel",
        "compile",
        "device",
        "dtype",
        "early_stopping",
        "gamma",
        "learning_rate_init",
        "max_iter",
        "memory",
        "n_iter_no_change",
        "objective",
        "random_state",
        "tol",
        "validation_fraction",
        "verbose",
        "warm_start",
        "weight_decay",
    }
)
# `max_iter` of a family that is trained on all rows at once.
ITERATIONS: Final = Deviation(
    annotation="int",
    default="100",
    constraint=[at_least(1)],
    text="Most iterations of L-BFGS, which stops earlier if it converges. Each sees all rows.",
)
_EARLY_STOPPING: Final = Parameter(
    "early_stopping",
    "bool",
    "False",
    ["boolean"],
    """
    Stop when the validation score no longer improves, and keep the best parameters. The score is
    taken on the rows of `X_val`, or else on a share `validation_fraction` of the training rows.
    """,
)
_MAX_ITER: Final = Parameter(
    "max_iter",
    'int | Literal["auto"]',
    '"auto"',
    [at_least(1), one_of("auto")],
    """
    max_iter : int or "auto", default=$default
        Number of epochs. "auto" takes $auto_epochs: fewer if these are more than $most_steps steps
        (but at least 3), more if they are fewer than $least_steps steps.
    """,
)
# `jitter` of a family whose fits of small data sets begin at an optimum of the bound, or go to it.
KEPT_JITTER: Final = """
    Diagonal regularisation of the kernel matrix of the inducing inputs, relative to the kernel
    variance. Up to one batch of rows the top layer has a hundredth of it.
"""
# The same of a family that may keep a GP without training.
UNTRAINED_JITTER: Final = f"{KEPT_JITTER}    An untrained GP has less, down to a millionth.\n"
# `max_iter` of a family that has an optimum on small data sets.
OPTIMUM_OR_EPOCHS: Final = Deviation(
    text="""
    max_iter : int or "auto", default=$default
        Number of epochs. With one target and up to 20,000 rows (fewer with more than 300 inducing
        inputs), "auto" finds the optimum of the bound: up to 100 iterations of L-BFGS with q(u)
        integrated out (Titsias 2009), each counted as an epoch, and then the best q(u). This needs
        a full covariance, `beta_reg=1`,
        `optimizer="adam"`, `likelihood="normal"`, and neither `gamma`, `n_orthogonal`,
        `feature_extractor`, `early_stopping` nor `dtype="float32"`. With standardised inputs and
        targets, an RBF or Matern kernel by name then has a weak prior: the logarithms of variance
        and lengthscales have hyperbolic secant densities around where they start.
        Otherwise "auto" takes $auto_epochs epochs: fewer if these are more than $most_steps steps
        (but at least 3), more if they are fewer than $least_steps steps.
    """,
)
# `max_iter` of a family whose start is close to the optimum.
EPOCHS_OF_CLASSES: Final = Deviation(
    text="""
    max_iter : int or "auto", default=$default
        Number of epochs. "auto" takes $auto_epochs: fewer if these are more than $most_steps steps
        (but at least 3), more if they are fewer than $least_steps steps, or than 300 from 1,000
        rows on with one latent function (for two classes, or ordered ones).
    """,
)
# `max_iter` and `early_stopping` of a family that finds its epochs by held-out rows.
FOUND_EPOCHS: Final = Deviation(
    text="""
    max_iter : int or "auto", default=$default
        Number of epochs; `early_stopping` may end the fit sooner. "auto" takes $auto_epochs: fewer
        if these are more than $most_steps steps (but at least 3), more if they are fewer than
        $least_steps steps. With `early_stopping="auto"` it allows more: 400 epochs of a data set of
        one batch, and 5,000 steps of one of up to a hundred batches, if the epochs above take
        fewer.
    """,
)
FOUND_STOPPING: Final = Deviation(
    annotation='bool | Literal["auto"]',
    default='"auto"',
    constraint=["boolean", one_of("auto")],
    text="""
    early_stopping : bool or "auto", default=$default
        How held-out rows choose the number of epochs. "auto" depends on the number of rows. From 20
        rows up to one batch (less than 1.5 times `batch_size`), it cross-validates: five folds
        (three above 200 rows) score each epoch, and one model of all rows trains for the fewest
        epochs that scored within `tol` of the best; `X_val` is scored but has no influence. Up to a
        hundred times `batch_size`, it averages the parameters of the last epochs, at a constant
        learning rate: `learning_rate_init`, or three times that in a regression of up to ten times
        `batch_size` rows. When the held-out score of this average has not risen by 0.01 nats per
        row in a hundred steps or more, training continues from the best one with shorter steps, as
        long as these help. Then the learning rate falls to zero, and the best model is kept. For
        still more rows "auto" is False: `max_iter` epochs in one cycle of the learning rate. True
        runs one cycle, stops when the held-out score no longer improves, and keeps the best
        parameters. The held-out rows are those of `X_val`, or else a share `validation_fraction` of
        the training rows.
    """,
)
_NORMALIZE_X: Final = Parameter(
    "normalize_X",
    "bool",
    "True",
    ["boolean"],
    "Standardise inputs inside the estimator.",
    heading="Scaling and numerics",
)
_NORMALIZE_Y: Final = Parameter("normalize_y", "bool", "True", ["boolean"])
_NOISE_FLOOR: Final = Parameter(
    "noise_floor",
    "float",
    "1e-4",
    [Interval(Real, 0, 1e30, closed="right")],  # in the range of float32
    """
    Lower bound of the noise variance, in units of the variance of y if `normalize_y`. It keeps the
    density finite where targets are discrete or known from the inputs.
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
    Whether `torch.compile` fuses the element-wise functions of a training step. On a CPU this saves
    a few per cent of the time of a deep model, and results differ by rounding. The first fits
    compile for half a minute or more; torch keeps the result on disk. Without a C++ compiler the
    fit warns and goes on. On a GPU steps are replayed instead.
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
            by 0.02 nats per row. Only with `normalize_X`, RBF and Matern kernels by name, and no
            `feature_extractor`.
        """,
    ),
    _EARLY_STOPPING,
    Parameter(
        "random_state",
        "Any",
        "None",
        ["random_state"],
        """
        random_state : int, RandomState or None
            Seed of the inducing inputs, of a network's weights and masks, and of the order of rows.
            Pass an integer to get the same model again.
        """,
    ),
    Parameter.choice(
        "optimizer",
        ("adam", "natgrad"),
        "adam",
        """
        "natgrad" updates q(u) by natural gradients and everything else by Adam. It needs a full
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
        Whether the processes of torch.distributed's default group, started by a launcher such as
        torchrun, train one model together. Each passes its own rows to `fit`, `batch_size` counts
        the rows of all processes, and all end with the same model. It needs an integer
        `random_state` and more than `batch_size` rows in all, or `early_stopping=False`.
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
    Parameter(
        "batch_size",
        "int",
        "1000",
        [at_least(1)],
        "Rows per training step. A data set of no more rows is trained as one batch.",
    ),
    Parameter(
        "learning_rate_init",
        "float",
        "0.03",
        [Interval(Real, 0, None, closed="neither")],
        "Learning rate of Adam: the peak of one cycle, unless `early_stopping` says otherwise.",
    ),
)
_STOPPING: Final[Group] = (
    Parameter(
        "validation_fraction",
        "float",
        "0.1",
        [Interval(Real, 0, 1, closed="neither")],
        "Share of the rows to hold out for `early_stopping` if no `X_val` is given.",
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
        "Smallest improvement that counts, in nats per row.",
    ),
)
_N_RESTARTS: Final = Parameter(
    "n_restarts",
    "int",
    "1",
    [at_least(1)],
    """
    Number of random starts. They differ in the network's weights and in the lengthscales of a named
    kernel, and share the inducing inputs. After a twentieth of the epochs, or five iterations of
    L-BFGS, only the start with the lowest training loss is kept.
    """,
)
_RESTARTS: Final[Group] = (
    _N_RESTARTS,
    Parameter(
        "warm_start",
        "bool",
        "False",
        ["boolean"],
        """
        Whether `fit` goes on from the parameters and scales of the last fit, at a tenth of the
        learning rate.
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
_ARITHMETIC: Final[Group] = (
    _JITTER,
    Parameter.choice(
        "dtype",
        ("auto", "float32", "float64"),
        "auto",
        """
        dtype : {"auto", "float32", "float64"}, default=$default
            Arithmetic of training. Factors of kernel matrices and predictions are always in
            float64. "auto" is $auto_dtype.
        """,
    ),
    _COMPILE,
)
_RUNNING: Final[Group] = (
    Parameter(
        "device",
        "str",
        '"cpu"',
        [str],
        """
        Torch device of training and prediction. "auto" is "cuda" if there is such a device, else
        "cpu".
        """,
        heading="Running",
    ),
    Parameter(
        "checkpoint",
        "Any",
        "None",
        [None, str, PathLike, Checkpoint],
        """
        checkpoint : None, str, path-like or Checkpoint, default=$default
            Where `fit` writes its state every 60 seconds. After an interruption, a fit with the
            same parameters and rows continues from there, to the last bit; a finished one returns
            at once. A folder serves any number of fits, a file ending with ".ckpt" a single one. It
            needs a `random_state`. Training on chunks of a stream (`partial_fit`) writes none.
        """,
    ),
    Parameter(
        "memory",
        "Any",
        "None",
        [None, str, HasMethods(["cache"])],
        """
        memory : None, str or joblib.Memory, default=$default
            Where to cache scales and the inducing inputs of k-means, so that fits on the same rows
            with an integer `random_state` share them. Each version of skgp and scikit-learn has its
            own cache. Without a usable folder the fit warns and computes them. Use only a folder
            that you trust: it holds pickles, which can run code when they are read.
        """,
    ),
    Parameter(
        "verbose",
        "int",
        "0",
        ["verbose"],
        """
        How much to write about the progress of a fit. 0: nothing. 1: epochs, steps, loss,
        validation score, time passed and left; as a bar in a terminal if rich is installed, else as
        a line from time to time. 2: a line for each epoch.
        """,
    ),
)

FIT_GROUPS: Final[dict[str, Group]] = {
    "minibatch": _MINIBATCH,
    "stopping": _STOPPING,
    "restarts": _RESTARTS,
    "scales": _SCALES,
    "running": _RUNNING,
    "arithmetic": _ARITHMETIC,
    # What all estimators of a kind have last, networks apart.
    "regressor": (*_STOPPING, *_RESTARTS, *_SCALES, *_ARITHMETIC, *_RUNNING),
    "classifier": (*_STOPPING, *_RESTARTS, _NORMALIZE_X, *_ARITHMETIC, *_RUNNING),
    "transformer": (_N_RESTARTS, *_TABLE, *_ARITHMETIC, *_RUNNING),
}
