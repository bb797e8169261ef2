"""NGBoost with its defaults."""

from typing import Any

import numpy as np
from ngboost import NGBRegressor
from ngboost.learners import default_tree_learner
from sklearn.base import clone

from benchmarks._newcomer import NormalNewcomer


class NGBoost(NormalNewcomer):
    """`NGBRegressor`: 500 trees for each of the two parameters of a normal."""

    def _fit_output(self, X: np.ndarray, y: np.ndarray) -> NGBRegressor:
        # Its trees break ties by the global generator, whatever its own random_state is.
        tree = clone(default_tree_learner).set_params(random_state=0)
        return NGBRegressor(Base=tree, verbose=False, random_state=0).fit(X, y)

    def _moments(self, model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        normal = model.pred_dist(X).params
        return normal["loc"], normal["scale"]
