"""Gradient boosting as programs of benchmarks fit it."""

from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier


class BoostingClassifier(HistGradientBoostingClassifier):
    """scikit-learn's `HistGradientBoostingClassifier` with its defaults and a fixed seed.

    Parameters
    ----------
    memory : ignored
        What the program that fits gives to every estimator.
    """

    def __init__(self, memory: Any = None) -> None:
        super().__init__(random_state=0)
        self.memory = memory
