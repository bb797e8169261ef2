"""What the models of the neural likelihoods paper share: a readout between layers and noise."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Final, cast

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from skgp.core.layers import Layer, certain
from skgp.core.likelihoods import Gaussian
from skgp.core.mixing import Mixing
from skgp.core.nodes import NodeRule, Sampled, UnitNodes
from skgp.core.objectives import ELBO, Objective
from skgp.core.readout import Readout
from skgp.core.readout_stack import ReadoutStack
from skgp.core.stack import GPStack, Stack
from skgp.core.training import count_batches
from skgp.core.units import IdentityUnits, Units
from skgp.estimators._coregionalised_estimator import (
    CoregionalisedEstimator,
    principal_mixing,
)
from skgp.estimators._gp_estimator import INITIAL_NOISE
from skgp.estimators._model import GPModel
from skgp.estimators._setup import Setup
from skgp.estimators._stack_estimator import Hidden, Outputs

MIXING_VAR: Final = 1e-5  # where the variances of q(M) start; an output may have as little noise
# Of the variance of an output, where noise starts, or above: a mixing matrix that varies with the
# inputs explains nothing with certainty, and without noise it would turn the latent functions off.
_LEAST_NOISE: Final = 0.01
MIXING_SIZES: Final = (50, 50)  # of the network M(x); neural likelihoods paper, section 7.2


class ReadoutEstimator(CoregionalisedEstimator):
    """Abstract base: a family adds its mixing matrix and, if need be, units that are no GPs."""

    # Parameters that every family stores in its constructor.
    inference: str
    n_samples: int
    n_prediction_samples: int
    kl_annealing: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CoregionalisedEstimator._parameter_constraints,
        "covariance": [StrOptions({"full", "diagonal"})],
        "inference": [StrOptions({"sampling", "analytic"})],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_prediction_samples": [Interval(Integral, 1, None, closed="left")],
        "kl_annealing": [Interval(Integral, 0, None, closed="left")],
    }

    @abstractmethod
    def _mixing(self, setup: Setup, start: Tensor) -> Mixing:
        """The mixing matrix, which starts at (P, H)."""

    def _mixing_layer(self, setup: Setup, x: Tensor, start: Tensor) -> Layer | None:
        """GPs over features x (n, F) that are entries of the mixing matrix: none by default."""
        return None

    def _objective(self) -> Objective:
        return ELBO

    def _outputs(self, setup: Setup) -> Outputs:
        Y = setup.Y.nan_to_num()  # scaled targets: zero is the mean
        n_outputs, weight = Y.shape[1], setup.observed_weight
        principal = principal_mixing(Y, weight, self._n_latents(n_outputs))
        latent = Y @ torch.linalg.pinv(principal)
        units, start = self._units(setup, latent, principal.mT)
        # What the units leave of the outputs where the latent functions are known.
        with torch.no_grad():
            rest = (Y - units.mean(certain(latent)) @ start.mT).square()
        rest = weight @ rest / weight.sum()
        likelihood = Gaussian(n_outputs, INITIAL_NOISE, self.noise_floor).double()

        def stack(layers: Stack, x: Tensor) -> Stack:
            return ReadoutStack(
                cast(GPStack, layers),
                Readout(units, self._mixing(setup, start)).double(),
                self._mixing_layer(setup, x, start),
                self.kl_annealing * count_batches(setup.n_rows, self.batch_size),
            )

        square = principal.square()
        return Outputs(
            latent.mT,
            lambda noise_var: likelihood.start((noise_var @ square + rest).clamp_min(_LEAST_NOISE)),
            lambda layers, x, nodes: GPModel(stack(layers, x), likelihood, nodes),
        )

    def _units(self, setup: Setup, latent: Tensor, mixing: Tensor) -> tuple[Units, Tensor]:
        """The hidden units and the mixing matrix (P, H) that they start with.

        Given latent functions (n, L) and their linear mixing matrix (P, L).
        """
        return IdentityUnits(latent.shape[1]), mixing

    def _hidden(self, setup: Setup, x: Tensor) -> Hidden:
        hidden = super()._hidden(setup, x)
        return hidden if hidden.n_layers else hidden._replace(nodes=self._nodes(setup, []))

    def _nodes(self, setup: Setup, widths: Sequence[int]) -> NodeRule:
        """Rule for hidden layers of these widths and for the units."""
        n_noise = self._n_noise(setup.Y.shape[1])
        rule = Sampled([*widths, n_noise], self.n_samples, self.n_prediction_samples, setup.seed)
        return UnitNodes(rule, integrated=self.inference != "sampling")

    def _n_noise(self, n_outputs: int) -> int:
        """Number of standard normals in a draw of the units."""
        return self._n_latents(n_outputs)

    def _default_latents(self, n_outputs: int) -> int:
        return math.ceil(n_outputs / 2)
