"""A stack of GP layers as data, and the model that is built from it."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from skgp.core.kernels.choice import make_kernel
from skgp.core.kernels.kernel import Kernel, KernelLike
from skgp.core.layers.layer import Layer
from skgp.core.layers.posteriors import Covariance, make_posterior
from skgp.core.layers.sparse import SparseGP, SparseLayer
from skgp.core.marginal.exact_starts import go_on, is_rough, start_from_few, start_from_trial
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.marginal.starts import start_hyperparameters, start_posterior
from skgp.core.networks.features import tanh_network
from skgp.core.nodes.rules import NodeRule, Trivial
from skgp.core.stacks.stack import GPStack, Stack
from skgp.core.training.plan import count_batches
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
_FEW_ROWS: Final = 1000  # that the kernel of such a GP is learned from first, if there are many
_MORE_ROWS: Final = 2000  # and then
_FEWEST_ROWS: Final = 700  # that tell which inputs matter, and whether a function is rough
_INDUCING_PER_ROOT: Final = 3.0  # of the number of rows, up to many
# Share of the jitter that the top layer keeps where float64 and a good start allow it: f has the
# jitter as variance at each inducing input, and where the targets have little noise that is a lot.
_KEPT_JITTER: Final = 0.01
# The same where no step moves q(u), maybe too far. A function that is almost linear has such a
# large variance that a millionth of it is more than the noise.
_EXACT_JITTER: Final = 1e-4
# Noise variance, relative to that of the targets, up to which hidden layers explain them at first.
_LITTLE_NOISE: Final = 0.05

_MEAN_SIZES: Final = (50, 50)  # of a neural prior mean

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
    """

    latent: Tensor
    model: Callable[[Stack, Tensor, NodeRule, Tensor | None], Model]


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
        is_exact = spec.start == "few rows" and len(Z) >= setup.n_distinct
        layer.jitter *= _EXACT_JITTER if spec.is_flat or is_exact else _KEPT_JITTER
        # Where each row is one, or there are thousands, Kuu is close to singular: the smallest move
        # changes its factor, with it what the whitened variables mean, and there is none to gain.
        layer.Z.requires_grad_(not spec.is_flat and len(Z) < setup.n_distinct)
    return layer


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


def build_stack(spec: StackSpec, setup: Setup) -> Model:
    """From the inputs upwards: features, hidden layers, a top layer, outputs."""
    outputs = spec.outputs(spec, setup)
    features, x = spec.features(setup)
    if features is None and spec.warping is not None:
        features, x = spec.warping(setup, outputs.latent, spec.architecture.kernels)
    make_below = spec.architecture.below
    below = nothing_below(x, Trivial()) if make_below is None else make_below(spec, setup, x)
    top = _top_layer(spec, setup, below, len(outputs.latent))
    if spec.initial_values.prior_mean == "network":
        sizes = [below.h.shape[1], *_MEAN_SIZES, len(outputs.latent)]
        top.mean_network = tanh_network(sizes, setup.generator("mean network")).double()
        with torch.no_grad():
            outputs = outputs._replace(latent=outputs.latent - top.mean_network(below.h).mT)

    rough = _is_rough(spec, setup, below, outputs.latent, top)
    top, noise_var = _start(spec, setup, below, outputs.latent, top, rough=rough is True)
    model = outputs.model(below.stack(top, features), x, below.nodes, noise_var)
    model.is_rough = rough
    if spec.initial_values.prior_mean == "zero":
        for layer in model.stack.layers:
            layer.mean.requires_grad_(False)
    return model


def _top_layer(spec: StackSpec, setup: Setup, below: Below, n_gps: int) -> SparseLayer:
    """A top layer of so many GPs at its initial values."""
    number = 1 + below.n_layers
    kernel = kernel_of(spec, setup, below.h, n_gps, spec.architecture.kernels[-1], number)
    return spec.top(spec, setup, kernel, below.h, n_gps).double()


def _is_rough(
    spec: StackSpec, setup: Setup, below: Below, latent: Tensor, top: SparseLayer
) -> bool | None:
    """Whether a GP of all inputs starts from short lengthscales; None if that is not asked."""
    if spec.is_rough is not None:
        return spec.is_rough
    is_compared = spec.start == "optimum" and (spec.is_flat or spec.inducing.n_inducing == "auto")
    is_used = (is_compared or spec.start == "descent") and setup.fits_into(spec.batch_size)
    is_apt = is_used and len(latent) == 1 and spec.initial_values.initial_noise is None
    return starts_rough(setup, below.h, latent, top) if is_apt else None


def starts_rough(setup: Setup, h: Tensor, latent: Tensor, layer: SparseLayer) -> bool:
    """Whether a GP of all inputs h (n, F) of a function (1, n) starts from short lengthscales."""
    rows = _some_rows(setup, h, latent, _FEWEST_ROWS)
    return is_rough(layer, rows, torch.full_like(latent[:, 0], INITIAL_NOISE))


def _some_rows(setup: Setup, h: Tensor, latent: Tensor, n: int) -> ObservedRows:
    """At most n rows of inputs h (n, F) and functions (W, n), each of which stands for itself."""
    few, _ = setup.subsample(n)
    return ObservedRows(h[few], latent[:, few], setup.observed_weight[few])


def _start(
    spec: StackSpec, setup: Setup, below: Below, latent: Tensor, top: SparseLayer, *, rough: bool
) -> tuple[SparseLayer, Tensor | None]:
    """The top layer and the noise variances (W,) to start from; None if nothing is known of them.

    A top layer that is fitted to the first guess of hidden layers keeps them from moving, and on a
    larger data set that costs more than it saves, unless that guess explains the targets.
    """
    given = spec.initial_values.initial_noise
    is_fitted = not below.n_layers or count_batches(len(below.h), spec.batch_size) == 1
    if not is_fitted and (given is not None or spec.start != "optimum"):
        return top, None if given is None else torch.full_like(latent[:, 0], given)
    started = deepcopy(top)
    noise_var = torch.full_like(latent[:, 0], INITIAL_NOISE if given is None else given)
    has_all = top.Z.shape[-2] >= setup.n_distinct
    some = partial(_some_rows, setup, below.h, latent)
    if given is None and (spec.start == "few rows" or (rough and spec.start == "descent")):
        start = start_from_trial if has_all or rough else start_from_few
        noise_var = start(started, some(_FEWEST_ROWS), noise_var)
    elif given is None and spec.start != "given":
        few, weight = setup.subsample()
        is_large = spec.is_flat and len(few) > MOST_FIXED_INDUCING
        rows = some(_FEW_ROWS) if is_large else ObservedRows(below.h[few], latent[:, few], weight)
        refined, rough = spec.start == "optimum", rough and spec.is_flat
        noise_var = start_hyperparameters(
            started, *rows[:3], INITIAL_NOISE, refined=refined, rough=rough
        )
        if is_large:
            noise_var = go_on(started, some(_MORE_ROWS), noise_var)
    if not is_fitted and noise_var.max() > _LITTLE_NOISE:
        return top, None
    copies = setup.n_data / float(setup.weight.sum())
    start_posterior(started, below.h, latent, setup.observed_weight, noise_var, copies)
    return started, noise_var


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
