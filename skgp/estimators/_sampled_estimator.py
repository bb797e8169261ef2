"""What deep GPs share, whatever their targets: hidden functions are sampled."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from skgp.core.nodes import NodeRule, Sampled
from skgp.core.objectives import ELBO, PREDICTIVE, Objective
from skgp.estimators._deep_estimator import DeepEstimator
from skgp.estimators._setup import Setup


class SampledEstimator(DeepEstimator):
    """Abstract base of deep GPs by doubly stochastic variational inference."""

    # Parameters that every family stores in its constructor.
    objective: str
    n_samples: int
    n_prediction_samples: int

    _hidden_var: ClassVar[float] = 1e-5

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DeepEstimator._parameter_constraints,
        "n_layers": [Interval(Integral, 1, None, closed="left")],
        "objective": [StrOptions({"elbo", "predictive"})],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_prediction_samples": [Interval(Integral, 1, None, closed="left")],
    }

    def _objective(self) -> Objective:
        return PREDICTIVE if self.objective == "predictive" else ELBO

    def _nodes(self, setup: Setup, widths: Sequence[int]) -> NodeRule:
        return Sampled(widths, self.n_samples, self.n_prediction_samples, setup.seed)
