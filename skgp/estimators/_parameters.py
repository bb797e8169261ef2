"""How a constructor stores its parameters."""

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator


def store_parameters(estimator: BaseEstimator, arguments: Mapping[str, Any]) -> None:
    """Store every parameter untouched under its name, as scikit-learn wants constructors to do.

    Parameters
    ----------
    estimator : estimator
    arguments : mapping
        The `locals()` of its constructor, taken before any other local is made.
    """
    for name, value in arguments.items():
        if name != "self":
            setattr(estimator, name, value)
