"""Readouts between layers and noise: mixing matrices and units (neural likelihoods paper)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast, final

import torch
from torch import Tensor

from skgp.core.kernels.kernel import Kernel
from skgp.core.layers.layer import Layer, certain
from skgp.core.layers.posteriors import make_posterior
from skgp.core.layers.sparse import SparseGP, SparseLayer
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.networks.activations import ACTIVATIONS
from skgp.core.nodes.rules import NodeRule, Sampled, UnitNodes
from skgp.core.stacks.mixing import GPMixing, Mixing, NetworkMixing, NormalMixing
from skgp.core.stacks.readout import Readout
from skgp.core.stacks.readout_stack import ReadoutStack
from skgp.core.stacks.stack import GPStack, Stack
from skgp.core.stacks.units import IdentityUnits, NeuralUnits, NoisyUnits, Units
from skgp.core.training.plan import count_batches
from skgp.fitting.model import Layers, Model
from skgp.fitting.setup import Setup
from skgp.recipes.outputs import number_of_latents, principal_mixing
from skgp.recipes.rough_gps import filled_targets
from skgp.recipes.spec import (
    INITIAL_NOISE,
    Below,
    Outputs,
    StackSpec,
    Top,
    kernel_of,
    nothing_below,
    sparse_top,
)

_MIXING_VAR: Final = 1e-5  # where the variances of q(M) start; an output may have as little noise
# Least noise at the start, as a share of the variance of an output. A mixing matrix that varies
# with the inputs is uncertain at first; without noise a fit would switch the latent functions off.
_LEAST_NOISE: Final = 0.01
_MIXING_SIZES: Final = (50, 50)  # of the network M(x); neural likelihoods paper, section 7.2
_BIAS_VAR: Final = 1e-5  # where the variances of q(b) start
_RIDGE: Final = 1e-2  # of the regression of the outputs on the units, per row

MakeMixing = Callable[[StackSpec, Setup, Tensor, Tensor], tuple[Mixing, Layer | None]]


# ------------------------------------------------------------------ mixing matrices


def normal_mixing(
    spec: StackSpec, setup: Setup, x: Tensor, start: Tensor
) -> tuple[Mixing, Layer | None]:
    """A constant matrix (P, H) with a normal posterior."""
    return NormalMixing(start, _MIXING_VAR), None


@dataclass(frozen=True)
class MixingNetwork:
    """A matrix (P, H) that a network makes of the inputs, with dropout in training."""

    dropout: float

    def __call__(
        self, spec: StackSpec, setup: Setup, x: Tensor, start: Tensor
    ) -> tuple[Mixing, Layer | None]:
        """The network, and no GPs."""
        of_inputs = setup.x.shape[1], _MIXING_SIZES
        return NetworkMixing(*of_inputs, start, setup.seed_for("mixing"), self.dropout), None


def gp_mixing(
    spec: StackSpec, setup: Setup, x: Tensor, start: Tensor
) -> tuple[Mixing, Layer | None]:
    """A matrix (P, H) of Gaussian processes over the features x (n, F)."""
    kernel = kernel_of(spec, setup, x, 1, spec.architecture.kernels[0], 1)
    Z = setup.centres(x, spec.n_inducing(setup)).unsqueeze(0)
    mu = torch.zeros(start.numel(), Z.shape[1], dtype=torch.float32)
    posterior = make_posterior(spec.covariance, mu, _MIXING_VAR)
    # With prior means of their own, weights start as those of a constant M.
    layer = SparseGP(kernel, Z.clone(), posterior, spec.inducing.jitter, start.numel()).double()
    with torch.no_grad():
        layer.mean.copy_(start.flatten())
    return GPMixing(*start.shape), layer


def _normals_per_entry(mixing: MakeMixing) -> int | None:
    """Standard normals for each entry of a matrix that predictions draw; None if they draw units.

    Linear units are integrated out given the matrix: far from the data they vary most. So do the
    entries of `gp_mixing`, which are integrated out given the units instead.
    """
    if isinstance(mixing, MixingNetwork):
        return 0
    return 1 if mixing is normal_mixing else None


# ------------------------------------------------------------------ hidden units


@final
@dataclass(frozen=True)
class LatentUnits:
    """Units that are the latent functions.

    Attributes
    ----------
    noise_var : float or None
        Where the variances of noise of their own start; without noise if None.
    """

    noise_var: float | None = None

    def number(self, n_outputs: int) -> int:
        """Of units with biases of their own."""
        return 0

    def __call__(self, setup: Setup, latent: Tensor, mixing: Tensor) -> tuple[Units, Tensor]:
        """The units, and the mixing matrix (P, H) that they start with.

        Given latent functions (n, L) and their linear mixing matrix (P, L).
        """
        n_units = latent.shape[1]
        if self.noise_var is None:
            return IdentityUnits(n_units), mixing
        return NoisyUnits(n_units, self.noise_var), mixing


NOISY: Final = LatentUnits(noise_var=1e-3)


@final
@dataclass(frozen=True)
class Hidden:
    """Units g(W f + b).

    Attributes
    ----------
    n_hidden : int or None
    activation : str
    per_output : int
        What n_hidden=None means.
    """

    n_hidden: int | None
    activation: str
    per_output: int

    def number(self, n_outputs: int) -> int:
        """Of units with biases of their own."""
        return self.per_output * n_outputs if self.n_hidden is None else self.n_hidden

    def __call__(self, setup: Setup, latent: Tensor, mixing: Tensor) -> tuple[Units, Tensor]:
        """As of `LatentUnits`; the units are to make of the functions what their mixing would."""
        n_hidden, n_latents = self.number(len(mixing)), latent.shape[1]
        generator = setup.generator("units")
        weight = torch.randn(n_hidden, n_latents, generator=generator, dtype=latent.dtype)
        weight /= math.sqrt(n_latents)  # or units of many functions would start saturated
        bias = torch.randn(n_hidden, generator=generator, dtype=latent.dtype)
        units = NeuralUnits(ACTIVATIONS[self.activation], weight, bias, _BIAS_VAR)
        with torch.no_grad():
            h = units.mean(certain(latent))
        weighted = h.mT * (setup.observed_weight / setup.observed_weight.sum())
        gram = weighted @ h + _RIDGE * torch.eye(n_hidden, dtype=h.dtype)
        start = torch.linalg.solve(gram, weighted @ (latent @ mixing.mT)).mT
        return units, start


# ------------------------------------------------------------------ the readout


def half(n_outputs: int) -> int:
    """A latent function for every other output."""
    return math.ceil(n_outputs / 2)


def three_quarters(n_outputs: int) -> int:
    """Three latent functions for every four outputs (neural likelihoods paper, section 5.3)."""
    return math.ceil(3 * n_outputs / 4)


def at_most(number: int, n_outputs: int) -> int:
    """So many latent functions, if there are as many outputs."""
    return min(number, n_outputs)


@dataclass(frozen=True)
class Inference:
    """Parameter group: how the readout's expectations are taken."""

    inference: str
    n_samples: int
    kl_annealing: int


@dataclass(frozen=True)
class ReadoutOutputs:
    """Outputs of a readout.

    Attributes
    ----------
    inference : Inference
    n_latents : int or None
    noise_floor : float
    mixing : callable (StackSpec, Setup, features (n, F), start (P, H)) -> (Mixing, Layer or None)
        With GPs that are entries of the matrix, if there are any.
    units : LatentUnits or Hidden
    n_prediction_samples : int
    default_latents : callable (number of outputs) -> int
    """

    inference: Inference
    n_latents: int | None
    noise_floor: float
    mixing: MakeMixing
    units: LatentUnits | Hidden
    n_prediction_samples: int
    default_latents: Callable[[int], int] = half

    def __call__(self, spec: StackSpec, setup: Setup) -> Outputs:
        """Where latent functions, units and noise start."""
        Y = filled_targets(setup)
        n_outputs, weight = Y.shape[1], setup.observed_weight
        principal = principal_mixing(Y, weight, self._number(n_outputs))
        latent = Y @ torch.linalg.pinv(principal).mT
        units, start = self.units(setup, latent, principal)
        # What the units leave of the outputs where the latent functions are known.
        with torch.no_grad():
            rest = (Y - units.mean(certain(latent)) @ start.mT).square()
        rest = weight @ rest / weight.sum()
        likelihood = Gaussian(n_outputs, INITIAL_NOISE, self.noise_floor).double()
        n_annealing = self.inference.kl_annealing * count_batches(setup.n_rows, spec.batch_size)

        square = principal.square()

        def model(layers: Stack, x: Tensor, nodes: NodeRule, noise_var: Tensor | None) -> Model:
            if noise_var is not None:
                likelihood.start((square @ noise_var + rest).clamp_min(_LEAST_NOISE))
            mixing, mixing_layer = self.mixing(spec, setup, x, start)
            readout = Readout(units, mixing).double()
            stack = ReadoutStack(cast(GPStack, layers), readout, mixing_layer, n_annealing)
            return Model(Layers(stack), likelihood, nodes)

        return Outputs(latent.mT, model)

    def nodes(self, setup: Setup, widths: Sequence[int]) -> NodeRule:
        """Rule for hidden layers of these widths and for the units."""
        n_outputs = setup.Y.shape[1]
        n_latents, n_biases = self._number(n_outputs), self.units.number(n_outputs)

        def sampled(n_noise: int) -> Sampled:
            n_samples, n_fixed = self.inference.n_samples, self.n_prediction_samples
            return Sampled([*widths, n_noise], n_samples, n_fixed, setup.seed_for("nodes"))

        units, mixing = sampled(n_latents + n_biases), None
        n_normals = _normals_per_entry(self.mixing)
        if n_normals is not None and not isinstance(self.units, Hidden):
            mixing = sampled(n_normals * n_outputs * n_latents)
        return UnitNodes(units, self.inference.inference != "sampling", mixing)

    def below(self, spec: StackSpec, setup: Setup, x: Tensor) -> Below:
        """No hidden layers; nodes of the units alone."""
        return nothing_below(x, self.nodes(setup, []))

    def _number(self, n_outputs: int) -> int:
        return number_of_latents(self.n_latents, self.default_latents, n_outputs)


def top_below(units: LatentUnits | Hidden) -> Top:
    """What makes the top layer of GPs below these units."""
    return top_without_mean if isinstance(units, Hidden) else sparse_top


def top_without_mean(
    spec: StackSpec, setup: Setup, kernel: Kernel, h: Tensor, n_gps: int
) -> SparseLayer:
    """Sparse GPs without a prior mean: the biases of the units above them suffice."""
    layer = sparse_top(spec, setup, kernel, h, n_gps)
    layer.mean.requires_grad_(False)
    return layer
