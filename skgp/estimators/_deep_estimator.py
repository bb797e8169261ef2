"""What deep GPs and deep sigma point processes share: hidden layers below a sparse one."""

from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Final

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from skgp.core.initialisation import start_slope
from skgp.core.kernels import Kernel, KernelLike, LayerKernels, layer_kernels
from skgp.core.layers import Layer
from skgp.core.nodes import NodeRule
from skgp.core.stack import FEEDFORWARD, Connection, GPStack
from skgp.estimators._setup import Setup
from skgp.estimators._stack_estimator import Hidden, StackEstimator

# What a hidden layer sees that has another one below it (deep sigma point paper, appendix A.4).
TOPOLOGIES: Final[dict[str, Connection]] = {
    "feedforward": FEEDFORWARD,
    "skip-mean": Connection(kernel="below", mean="inputs"),
    "skip-mean-both": Connection(kernel="below", mean="both"),
    "skip-all": Connection(kernel="both", mean="both"),
}


class DeepEstimator(StackEstimator):
    """Abstract base: a family adds its objective and its nodes."""

    # Parameters that every family stores in its constructor.
    kernel: LayerKernels
    n_layers: int
    width: int
    hidden_mean: str
    topology: str

    _max_auto_steps: ClassVar[int] = 2000
    _hidden_var: ClassVar[float]  # where the variances of hidden inducing variables start

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StackEstimator._parameter_constraints,
        "kernel": [*StackEstimator._parameter_constraints["kernel"], list, tuple],
        "width": [Interval(Integral, 1, None, closed="left")],
        "covariance": [StrOptions({"full", "diagonal"})],
        "hidden_mean": [StrOptions({"linear", "identity", "concatenate"})],
        "topology": [StrOptions(set(TOPOLOGIES))],
    }

    @abstractmethod
    def _nodes(self, setup: Setup, widths: Sequence[int]) -> NodeRule:
        """Rule for hidden layers of these widths."""

    def _hidden(self, setup: Setup, x: Tensor) -> Hidden:
        layers: list[Layer] = []
        connections = self._connections()
        h = x
        # Rounding may tell repeated rows apart, and inducing inputs have to be distinct.
        _, first, row = np.unique(setup.x.numpy(), axis=0, return_index=True, return_inverse=True)
        for number, connection in enumerate(connections[:-1], start=1):
            layer, h = self._hidden_layer(setup, connection, h, x, number)
            h = h[first[row.ravel()]]
            layers.append(layer)
        if not layers:
            return super()._hidden(setup, x)
        top_inputs, _ = connections[-1].inputs(h.unsqueeze(0), x.unsqueeze(0))
        nodes = self._nodes(setup, [self.width] * len(layers))
        return Hidden(
            len(layers),
            lambda top, features: GPStack([*layers, top], features, connections),
            nodes,
            top_inputs.squeeze(0),
        )

    @torch.no_grad()
    def _hidden_layer(
        self, setup: Setup, connection: Connection, h: Tensor, x: Tensor, number: int
    ) -> tuple[Layer, Tensor]:
        """A hidden layer and its initial mean (n, W), given the layer below h and the inputs x."""
        h_kernel, h_mean = connection.inputs(h.unsqueeze(0), x.unsqueeze(0))
        features = h_kernel.squeeze(0)
        kernel = self._make_kernel(setup, features, self.width, number)
        Z = setup.centres(features, self.n_inducing)
        mu = torch.zeros(self.width, len(Z), dtype=torch.float32)
        if self.hidden_mean == "concatenate":  # without a slope only chance tells the GPs apart
            mu.normal_(generator=torch.Generator().manual_seed(setup.seed))
        layer = self._sparse_layer(kernel, Z, mu, self._hidden_var).double()
        if self.hidden_mean != "concatenate":
            # Of both sources it starts with the layer below, which comes first.
            seen = h if connection.mean == "both" else h_mean.squeeze(0)
            slope = torch.zeros(h_mean.shape[-1], self.width, dtype=x.dtype)
            slope[: seen.shape[1]] = start_slope(seen, setup.weight, self.width, setup.seed)
            layer.slope = nn.Parameter(slope, requires_grad=self.hidden_mean == "linear")
        return layer, layer.moments(h_kernel, layer.factors(), h_mean).f_mean.squeeze(0)

    def _make_kernel(self, setup: Setup, features: Tensor, n_gps: int, number: int) -> Kernel:
        try:
            return super()._make_kernel(setup, features, n_gps, number)
        except ValueError as error:
            if number == 1:
                raise
            n_columns = features.shape[1]
            below = "" if n_columns > self.width else ", or let width be the number of inputs"
            raise ValueError(
                f"kernel with an ard_num_dims that does not fit layer {number} of "
                f"{self.n_layers}, which sees {n_columns} columns: leave out ard_num_dims or use "
                f"the name of a kernel{below}"
            ) from error

    def _layer_kernel(self, number: int) -> KernelLike:
        return layer_kernels(self.kernel, self.n_layers)[number - 1]

    def _connections(self) -> list[Connection]:
        """What each layer sees, from the inputs upwards."""
        n_above = self.n_layers - 1  # layers that have another one below them
        if self.hidden_mean == "concatenate":
            return [FEEDFORWARD] + [Connection(kernel="both")] * n_above
        between = [TOPOLOGIES[self.topology]] * max(n_above - 1, 0)
        return [FEEDFORWARD] + between + [FEEDFORWARD] * min(n_above, 1)

    def _validate_params(self) -> None:
        super()._validate_params()
        layer_kernels(self.kernel, self.n_layers)  # for its errors
        if self.hidden_mean == "concatenate" and self.topology != "feedforward":
            raise ValueError(
                f"topology={self.topology!r} says what linear means see, and "
                "hidden_mean='concatenate' has none: use topology='feedforward'"
            )
