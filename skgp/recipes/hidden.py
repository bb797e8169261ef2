"""Hidden GP layers below a sparse one, and the nodes at which their values are propagated."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from skgp.core.kernels.choice import has_profile, layer_kernels
from skgp.core.kernels.kernel import KernelLike
from skgp.core.kernels.noisy import NoisyKernel
from skgp.core.layers.layer import Layer
from skgp.core.marginal.starts import start_slope
from skgp.core.nodes.choice import GRIDS, make_quadrature
from skgp.core.nodes.rules import NodeRule, Sampled, Trivial
from skgp.core.nodes.sigma_points import Grid
from skgp.core.stacks.stack import FEEDFORWARD, Connection, GPStack
from skgp.fitting.plans import FEW_BATCHES
from skgp.fitting.recipe import pick
from skgp.fitting.setup import Setup
from skgp.recipes.spec import CERTAIN_VAR, Architecture, Below, StackSpec, kernel_of, sparse_layer

MakeNodes = Callable[[Setup, Sequence[int]], NodeRule]
QuadratureName = Literal["auto", "matched", "qr1", "qr2", "qr3", "continuous", "gauss-hermite"]

# What a hidden layer sees that has another one below it (deep sigma point paper, appendix A.4).
TOPOLOGIES: Final[dict[str, Connection]] = {
    "feedforward": FEEDFORWARD,
    "skip-mean": Connection(kernel="below", mean="inputs"),
    "skip-mean-both": Connection(kernel="below", mean="both"),
    "skip-all": Connection(kernel="both", mean="both"),
}
_HIDDEN_NOISE: Final = 1e-5  # where its variance starts (doubly stochastic paper, supplement)
_FLAT: Final = 1e-6  # of the usual variance, of hidden functions that begin flat
_HIDDEN_GPS: Final = 3, 10  # fewest and most of a layer whose number is to be chosen
_CLOSE_VAR: Final = 0.01  # of q(v), with which sigma points begin close to each other
_MAX_COMPONENTS: Final = 500  # of a grid rule: cost and memory of a step grow with them


@dataclass(frozen=True)
class HiddenLayers:
    """Parameter group: hidden layers.

    A width of None is half of the outputs, rounded up; "auto" is their number, from 3 to 10.
    """

    n_layers: int
    width: int | Literal["auto"] | None
    hidden_mean: str
    topology: str
    hidden_noise: bool

    def __post_init__(self) -> None:
        if self.hidden_mean == "concatenate" and self.topology != "feedforward":
            raise ValueError(
                f"topology={self.topology!r} says what linear means see, and "
                "hidden_mean='concatenate' has none: use topology='feedforward'"
            )

    def of(self, is_small: bool, kernels: Sequence[KernelLike]) -> "HiddenLayers":
        """The same with a prior mean in the place of "auto".

        A small data set has few batches. A top layer that sees the inputs of the model starts as a
        GP of them there. A kernel of the user may be made for the columns of the hidden layer.
        """
        if self.hidden_mean != "auto":
            return self
        is_named = all(map(has_profile, kernels))
        concatenates = is_small and is_named and self.topology == "feedforward"
        return replace(self, hidden_mean="concatenate" if concatenates else "linear")

    def width_for(self, n_outputs: int) -> int:
        """GPs of a hidden layer, for targets of so many columns."""
        if self.width is None:
            return math.ceil(n_outputs / 2)
        if self.width == "auto":
            fewest, most = _HIDDEN_GPS
            return min(max(n_outputs, fewest), most)
        return self.width

    @property
    def connections(self) -> list[Connection]:
        """What each layer sees, from the inputs upwards."""
        n_above = self.n_layers - 1  # layers that have another one below them
        if self.hidden_mean == "concatenate":
            return [FEEDFORWARD] + [Connection(kernel="both")] * n_above
        between = [TOPOLOGIES[self.topology]] * max(n_above - 1, 0)
        return [FEEDFORWARD] + between + [FEEDFORWARD] * min(n_above, 1)

    def kernel_error(self, number: int, n_columns: int) -> str | None:
        """Message for a kernel that does not fit the layer of this number."""
        if number == 1:
            return None
        has_inputs = self.connections[number - 1].kernel == "both"
        below = "" if has_inputs else ", or let width be the number of inputs"
        return (
            f"kernel with an ard_num_dims that does not fit layer {number} of {self.n_layers}, "
            f"which sees {n_columns} columns: leave out ard_num_dims or use the name of a "
            f"kernel{below}"
        )


@dataclass(frozen=True)
class Samples:
    """Parameter group: hidden functions that are sampled."""

    n_samples: int
    n_prediction_samples: int

    def __call__(self, setup: Setup, widths: Sequence[int]) -> NodeRule:
        if not widths:
            return Trivial()
        return Sampled(widths, self.n_samples, self.n_prediction_samples, setup.seed_for("nodes"))


@dataclass(frozen=True)
class Sites:
    """Parameter group: learned sigma points of the hidden functions."""

    n_layers: int
    width: int
    n_sites: int
    quadrature: QuadratureName
    batch_size: int

    def __post_init__(self) -> None:
        n_functions = self.width * (self.n_layers - 1)
        if self.quadrature not in GRIDS or self.n_sites**n_functions <= _MAX_COMPONENTS:
            return
        fitting = int(_MAX_COMPONENTS ** (1.0 / n_functions) + 1e-9)
        raise ValueError(
            f"quadrature={self.quadrature!r} has n_sites ** (width * (n_layers - 1)) = "
            f"{self.n_sites}**{n_functions} components, and at most {_MAX_COMPONENTS} are "
            f"allowed: use n_sites <= {fitting}, a smaller width, or quadrature='qr3'"
        )

    def __call__(self, setup: Setup, widths: Sequence[int]) -> NodeRule:
        name: str = self.quadrature
        if name == "auto":
            name = "matched" if setup.fits_into(self.batch_size, FEW_BATCHES) else "qr3"
        return make_quadrature(name, widths, self.n_sites, setup.seed_for("nodes"))


def hidden_layers(
    estimator: Any, nodes: MakeNodes, *, variance: float = CERTAIN_VAR
) -> Architecture:
    """Layers of GPs below the top one, for an estimator with the parameters of `HiddenLayers`.

    Parameters
    ----------
    estimator : estimator
    nodes, variance
        As of `HiddenGPs`.
    """
    layers = pick(HiddenLayers, estimator)
    below = HiddenGPs(layers, nodes, variance)
    return Architecture(
        layer_kernels(estimator.kernel, estimator.n_layers), below, layers.kernel_error
    )


@dataclass(frozen=True)
class HiddenGPs:
    """Makes the layers of GPs between the features and the top layer.

    Attributes
    ----------
    layers : HiddenLayers
    nodes : callable (Setup, widths of the hidden layers) -> NodeRule
    variance : float
        Where the variances of q(v) start; less where the top layer begins at an optimum for the
        means of the hidden functions, from which sigma points far apart would lead.
    """

    layers: HiddenLayers
    nodes: MakeNodes
    variance: float

    def __call__(self, spec: StackSpec, setup: Setup, x: Tensor) -> Below:
        """The layers above the features x (n, F)."""
        is_small = setup.fits_into(spec.batch_size, FEW_BATCHES)
        layers = self.layers.of(is_small, spec.architecture.kernels[1:])
        return replace(self, layers=layers)._below(spec, setup, x)

    def _below(self, spec: StackSpec, setup: Setup, x: Tensor) -> Below:
        connections = self.layers.connections
        built: list[Layer] = []
        h = x
        # Rounding may tell repeated rows apart, and inducing inputs have to be distinct.
        _, first, row = np.unique(setup.x.numpy(), axis=0, return_index=True, return_inverse=True)
        for number in range(1, len(connections)):
            layer, h = self._layer(spec, setup, number, h, x)
            h = h[first[row.ravel()]]
            built.append(layer)
        widths = [self._width(setup)] * len(built)
        # Of flat functions all sigma points are the same.
        nodes = Grid(widths, 1) if spec.is_flat else self.nodes(setup, widths)
        top_inputs, _ = connections[-1].inputs(h.unsqueeze(0), x.unsqueeze(0))
        return Below(
            len(built),
            lambda top, features: GPStack([*built, top], features, connections),
            nodes,
            top_inputs.squeeze(0),
        )

    @torch.no_grad()
    def _layer(
        self, spec: StackSpec, setup: Setup, number: int, h: Tensor, x: Tensor
    ) -> tuple[Layer, Tensor]:
        """The layer of this number and its initial mean (n, W), above the layer h (n, W or F)."""
        width, connection = self._width(setup), self.layers.connections[number - 1]
        h_kernel, h_mean = connection.inputs(h.unsqueeze(0), x.unsqueeze(0))
        features = h_kernel.squeeze(0)
        kernel_like = spec.architecture.kernels[number - 1]
        kernel = kernel_of(spec, setup, features, width, kernel_like, number)
        if spec.is_flat:
            kernel.magnify(torch.full_like(kernel.variance, _FLAT))
        if self.layers.hidden_noise:
            kernel = NoisyKernel(kernel, _HIDDEN_NOISE)
        Z = setup.centres(features, spec.n_inducing(setup, width, number - 1))
        mu = torch.zeros(width, len(Z), dtype=torch.float32)
        has_slope = self.layers.hidden_mean != "concatenate"
        if not has_slope:  # only chance tells the GPs apart
            mu.normal_(generator=setup.generator("hidden means", number))
        is_fitted = spec.starts_at_optimum and setup.fits_into(spec.batch_size)
        variance = min(self.variance, _CLOSE_VAR) if is_fitted else self.variance
        layer = sparse_layer(spec, kernel, Z, mu, variance).double()
        if has_slope:
            # Of both sources it starts with the layer below, which comes first.
            source = h if connection.mean == "both" else h_mean.squeeze(0)
            slope = torch.zeros(h_mean.shape[-1], width, dtype=x.dtype)
            generator = setup.generator("slope", number)
            slope[: source.shape[1]] = start_slope(source, setup.weight, width, generator)
            learned = self.layers.hidden_mean == "linear"
            layer.slope = nn.Parameter(slope, requires_grad=learned)
        return layer, layer.moments(h_kernel, layer.factors(), h_mean).f_mean.squeeze(0)

    def _width(self, setup: Setup) -> int:
        return self.layers.width_for(setup.Y.shape[1])
