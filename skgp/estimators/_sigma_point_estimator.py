"""What deep sigma point processes share, whatever their targets: learned nodes."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skgp.core.nodes import NodeRule
from skgp.core.objectives import PREDICTIVE, Objective
from skgp.core.quadrature import GRIDS, Quadrature, make_quadrature
from skgp.estimators._deep_estimator import DeepEstimator
from skgp.estimators._setup import Setup
from skgp.estimators._stack_estimator import INITIAL_VAR
from skgp.estimators._table import Array

_MAX_COMPONENTS = 500  # of a grid rule: cost and memory of a step grow with them


class SigmaPointEstimator(DeepEstimator):
    """Abstract base of deep models trained for their predictive distribution at learned nodes."""

    # Parameters that every family stores in its constructor.
    n_sites: int
    quadrature: str

    # With more steps the inducing inputs overfit.
    _auto_epochs: ClassVar[int] = 40
    _min_auto_steps: ClassVar[int] = 100
    _hidden_var: ClassVar[float] = INITIAL_VAR

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DeepEstimator._parameter_constraints,
        "n_layers": [Interval(Integral, 2, None, closed="left")],
        "n_sites": [Interval(Integral, 1, None, closed="left")],
        "quadrature": [StrOptions({"qr3", *GRIDS})],
    }

    # --------------------------------------------------- fitted attributes

    @property
    def quadrature_points_(self) -> Array:
        """Standardised nodes of the hidden functions, (n_layers - 1, Q, W)."""
        xi = self._rule()(1).xi
        return np.stack([points[:, 0].detach().cpu().numpy() for points in xi])

    @property
    def quadrature_weights_(self) -> Array:
        """Weights (Q,) of the components of a prediction; they sum to one."""
        weights: Array = self._rule().log_weights().exp().detach().cpu().numpy()
        return weights

    # ------------------------------------------------------------- helpers

    def _objective(self) -> Objective:
        return PREDICTIVE

    def _nodes(self, setup: Setup, widths: Sequence[int]) -> NodeRule:
        return make_quadrature(self.quadrature, widths, self.n_sites, setup.seed)

    def _rule(self) -> Quadrature:
        rule = self._fitted_model().nodes
        assert isinstance(rule, Quadrature)
        return rule

    def _validate_params(self) -> None:
        super()._validate_params()
        n_functions = self.width * (self.n_layers - 1)
        if self.quadrature == "qr3" or self.n_sites**n_functions <= _MAX_COMPONENTS:
            return
        fitting = int(_MAX_COMPONENTS ** (1.0 / n_functions) + 1e-9)
        raise ValueError(
            f"quadrature={self.quadrature!r} has n_sites ** (width * (n_layers - 1)) = "
            f"{self.n_sites}**{n_functions} components, and at most {_MAX_COMPONENTS} are "
            f"allowed: use n_sites <= {fitting}, a smaller width, or quadrature='qr3'"
        )
