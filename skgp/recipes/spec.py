"""A stack of GP layers as data."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from skgp.core.kernels.choice import make_kernel
from skgp.core.kernels.kernel import Kernel, KernelLike
from skgp.core.layers.layer import Layer
from skgp.core.layers.posteriors import Covariance, make_posterior
from skgp.core.layers.sparse import SparseGP, SparseLayer
from skgp.core.nodes.rules import NodeRule
from skgp.core.stacks.stack import GPStack, Stack
from skgp.fitting.arguments import check_sizes
from skgp.fitting.model import Model
from skgp.fitting.plans import FEW_BATCHES
from skgp.fitting.recipe import pick
from skgp.fitting.setup import Setup
from skgp.recipes.features import NO_FEATURES, Features, Warping

# Where models start, in units of standardised targets.
INITIAL_NOISE: Final = math.exp(-2.0)  # of the variance of y
INITIAL_VAR: Final = 0.1  # of q(v)
CERTAIN_VAR: Final = 1e-5  # of q(v) of hidden functions that are drawn

FEW_INDUCING: Final = 64  # of a deep model of one batch, by default
SHARED_INDUCING: Final = 150  # of functions that share them, there
MANY_INDUCING: Final = 300
ALL_INDUCING: Final = 600  # the most where each row may be one
# The same, where none of them moves: such a model needs few iterations, though each takes longer
# than with 300 that move, or is not trained at all.
MOST_FIXED_INDUCING: Final = 1500
MOST_UNTRAINED_INDUCING: Final = 3000  # of a GP that is not trained
_INDUCING_PER_ROOT: Final = 3.0  # of the number of rows, up to many
# Share of the jitter that the top layer keeps where float64 and a good start allow it: f has the
# jitter as variance at each inducing input, and where the targets have little noise that is a lot.
_KEPT_JITTER: Final = 0.01
# The same where no step moves q(u), maybe too far. A function that is almost linear has such a
# large variance that a millionth of it is more than the noise.
_EXACT_JITTER: Final = 1e-4
# The same of an untrained regressor of up to 1,500 inputs: by default the jitter of an SVGP,
# whose `jitter` is a hundredth of that of PPGPR and DSPP.
_UNTRAINED_JITTER: Final = 1e-6

_MANY_GPS: Final = 5  # of a layer, which then share a kernel if they may choose


@dataclass(frozen=True)
class Inducing:
    """Parameter group: inducing inputs, as many in each layer or one number for each."""

    n_inducing: int | Sequence[int] | Literal["auto"]
    jitter: float

    def check(self, n_layers: int) -> None:
        """Refuse numbers that are not one for each of so many layers of GPs."""
        if isinstance(self.n_inducing, str) or not isinstance(self.n_inducing, Sequence):
            return
        numbers = check_sizes("n_inducing", self.n_inducing, "numbers of inducing inputs")
        if len(numbers) != n_layers:
            raise ValueError(
                f"n_inducing has a length of {len(numbers)} for {n_layers} layers of GPs: give one "
                "for each layer, from the inputs upwards, or one for all"
            )


@dataclass(frozen=True)
class InitialValues:
    """Parameter group: where the functions and the noise start."""

    initial_noise: float | None
    prior_mean: str


USUAL_VALUES: Final = InitialValues(None, "constant")


class Below(NamedTuple):
    """What lies below the top layer, and what that sees of the setup's rows.

    Attributes
    ----------
    n_layers : int
        Hidden layers of any kind.
    stack : callable (top layer, feature extractor or None) -> Stack
    nodes : NodeRule
    h : Tensor of shape (n, F)
        Inputs of the top layer's kernel at the initial parameters.
    """

    n_layers: int
    stack: Callable[[Layer, nn.Module | None], Stack]
    nodes: NodeRule
    h: Tensor


class Outputs(NamedTuple):
    """How the latent functions of the top layer become outputs, and where they start.

    Attributes
    ----------
    latent : Tensor of shape (W, n)
        What each latent function is at the setup's rows, if it is fitted to them.
    model : callable (stack, features (n, F) of the setup's rows, rule, noise) -> Model
        With what stands between the layers and the likelihood, whose noise starts at what the
        functions leave (W,), or, if that is None, at its usual value.
    settle : callable (Model, h (n, F)) -> None, optional
        Moves a top layer that is not trained, of inputs h, from a fit to the latent functions to
        what the likelihood makes of the targets; None where they are the same.
    """

    latent: Tensor
    model: Callable[[Stack, Tensor, NodeRule, Tensor | None], Model]
    settle: Callable[[Model, Tensor], None] | None = None


MakeBelow = Callable[["StackSpec", Setup, Tensor], Below]
Top = Callable[["StackSpec", Setup, Kernel, Tensor, int], SparseLayer]
Start = Literal["given", "few rows", "descent", "optimum"]


def nothing_below(x: Tensor, nodes: NodeRule) -> Below:
    """No layers between the features x (n, F) and the top layer."""
    return Below(0, lambda top, features: GPStack([top], features), nodes, x)


def sparse_top(
    spec: "StackSpec", setup: Setup, kernel: Kernel, h: Tensor, n_gps: int
) -> SparseLayer:
    """A top layer of n_gps GPs with initial inducing inputs among h (n, F)."""
    Z = setup.centres(h, spec.n_inducing(setup, n_gps))
    mu = torch.zeros(n_gps, len(Z), dtype=torch.float32)
    layer = sparse_layer(spec, kernel, Z, mu, INITIAL_VAR)
    if spec.starts_at_optimum and setup.fits_into(spec.batch_size):
        layer.jitter *= _kept_share(spec, setup, len(Z))
        # Where each row is one, or there are thousands, Kuu is close to singular: the smallest move
        # changes its factor, with it what the whitened variables mean, and there is none to gain.
        layer.Z.requires_grad_(not spec.is_flat and len(Z) < setup.n_distinct)
    return layer


def _kept_share(spec: "StackSpec", setup: Setup, n_inducing: int) -> float:
    """Share of the jitter that the top layer keeps, of so many inducing inputs."""
    if spec.is_flat:  # up to 1,500 inducing inputs are all inputs
        return _UNTRAINED_JITTER if n_inducing <= MOST_FIXED_INDUCING else _EXACT_JITTER
    is_exact = spec.start == "few rows" and n_inducing >= setup.n_distinct
    return _EXACT_JITTER if is_exact else _KEPT_JITTER


@dataclass(frozen=True)
class Architecture:
    """What layers a stack has.

    Attributes
    ----------
    kernels : tuple of str or gpytorch kernel
        One for each layer of GPs, from the inputs upwards.
    below : callable (StackSpec, Setup, features (n, F)) -> Below, or None
        What stands below the top layer, if anything does.
    kernel_error : callable (number of a layer from below, its columns) -> str or None
        Message for a kernel that does not fit a layer; None where the kernel's own suffices.
    """

    kernels: tuple[KernelLike, ...]
    below: MakeBelow | None = None
    kernel_error: Callable[[int, int], str | None] | None = None


@dataclass(frozen=True)
class StackSpec:
    """A stack as data.

    Attributes
    ----------
    architecture : Architecture
    inducing : Inducing
        For as many layers.
    covariance : str
        Parametrisation of q(u).
    batch_size : int
    outputs : callable (StackSpec, Setup) -> Outputs
    top : callable (StackSpec, Setup, Kernel, h (n, F), W) -> SparseLayer
    features : Features
    warping : Warping or None
        Where there is no deep kernel.
    shares_kernel : bool or "auto"
        Whether the GPs of a layer have one kernel and one set of inducing inputs; "auto": if there
        are five or more.
    ard : bool
        Whether the name of a kernel stands for one lengthscale for each input.
    pulled : bool
        Whether a prior pulls the lengthscales of such a kernel together.
    start : {"given", "few rows", "descent", "optimum"}
        Where kernel and noise start: at their given values; where an exact GP of few rows has them,
        if that is clearly better, for a training that goes to the optimum by itself; after a short
        descent of the collapsed bound; or at its optimum, for an objective that has a gradient
        there.
    initial_values : InitialValues
        With a noise there, that is where kernel and noise start.
    all_inducing : int
        Distinct inputs up to which one GP has an inducing input for each if their number is to be
        found.
    is_flat : bool
        Whether hidden GPs begin without a variance to speak of, so that the top layer is a GP of
        what their prior means and the inputs are. Its inducing inputs stay where they begin.
    is_rough : bool or None
        Whether a top GP of all inputs starts from short lengthscales; None if the rows tell.
    """

    architecture: Architecture
    inducing: Inducing
    covariance: Covariance
    batch_size: int
    outputs: Callable[["StackSpec", Setup], Outputs]
    top: Top = sparse_top
    features: Features = NO_FEATURES
    warping: Warping | None = None
    shares_kernel: bool | Literal["auto"] = False
    ard: bool = True
    pulled: bool = False
    start: Start = "descent"
    initial_values: InitialValues = USUAL_VALUES
    all_inducing: int = 0
    is_flat: bool = False
    is_rough: bool | None = None

    def __post_init__(self) -> None:
        self.inducing.check(len(self.architecture.kernels))

    @classmethod
    def of(
        cls,
        estimator: Any,
        outputs: Callable[["StackSpec", Setup], Outputs],
        covariance: Covariance,
        architecture: Architecture | None = None,
    ) -> Self:
        """The stack of an estimator with the parameters of `Inducing` and `Features`.

        Without an architecture there is one layer with the estimator's kernel.
        """
        return cls(
            Architecture((estimator.kernel,)) if architecture is None else architecture,
            pick(Inducing, estimator),
            covariance,
            estimator.batch_size,
            outputs,
            features=pick(Features, estimator),
        )

    @property
    def starts_at_optimum(self) -> bool:
        """Whether the top layer of a data set of one batch begins at an optimum or goes to it."""
        return self.start == "optimum" or self.all_inducing > 0

    def shares(self, n_gps: int) -> bool:
        """Whether so many GPs of a layer share a kernel."""
        return n_gps >= _MANY_GPS if self.shares_kernel == "auto" else self.shares_kernel

    def n_inducing(self, setup: Setup, n_gps: int = 1, layer: int = -1) -> int:
        """Inducing inputs of a layer of so many GPs, the top one or that of this index."""
        number = self.inducing.n_inducing
        if number == "auto":
            if self.architecture.below is None:
                has_all = n_gps == 1 and setup.n_distinct <= self.all_inducing
                return max(MANY_INDUCING, setup.n_distinct if has_all else 0)
            if setup.fits_into(self.batch_size):
                return SHARED_INDUCING if self.shares(n_gps) else FEW_INDUCING
            if not setup.fits_into(self.batch_size, FEW_BATCHES):
                return MANY_INDUCING
            return min(MANY_INDUCING, math.ceil(_INDUCING_PER_ROOT * math.sqrt(setup.n_rows)))
        return int(number[layer]) if isinstance(number, Sequence) else int(number)


def kernel_of(
    spec: StackSpec, setup: Setup, h: Tensor, n_gps: int, kernel: KernelLike, number: int
) -> Kernel:
    """Kernel of n_gps GPs over h (n, F), for the layer of this number from below."""
    n_kernels = 1 if spec.shares(n_gps) else n_gps
    start, seed = setup.lengthscale(h), setup.seed_for("kernel", number)
    try:
        return make_kernel(
            kernel, n_kernels, h.shape[1], start, ard=spec.ard, pulled=spec.pulled, seed=seed
        )
    except ValueError as error:
        explain = spec.architecture.kernel_error
        message = None if explain is None else explain(number, h.shape[1])
        if message is None:
            raise
        raise ValueError(message) from error


def each_gp(kernel: Kernel, Z: Tensor) -> Tensor:
    """Inducing inputs (M, F) for each GP of a kernel, (W, M, F)."""
    return Z.expand(len(kernel.variance), -1, -1).clone()


def sparse_layer(
    spec: StackSpec, kernel: Kernel, Z: Tensor, mu: Tensor, variance: float
) -> SparseLayer:
    """W GPs with inducing inputs that start at Z (M, F), and q(v) around mu (W, M)."""
    posterior = make_posterior(spec.covariance, mu, variance)
    n_sharing = len(mu) if spec.shares(len(mu)) else None
    return SparseGP(kernel, each_gp(kernel, Z), posterior, spec.inducing.jitter, n_sharing)
