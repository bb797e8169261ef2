"""What recalibration can know to refuse before the members of an ensemble are fitted."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from skgp.compose._nested import predicts_counts
from skgp.compose._target_inverse import is_affine


def check_scalable(model: Any, y: Any) -> None:
    """Refuse a regressor whose distributions no factor makes wider.

    Parameters
    ----------
    model : estimator
        Not fitted. Searches, which may choose, and target transformers that learn are let through.
    y : array-like of shape (n,) or (n, P)

    Raises
    ------
    TypeError
        If predictions are no mixtures of normals.
    ValueError
        If y holds bounds of censored targets.
    """
    # It comes with the linear models, which `import skgp` does not need.
    from sklearn.compose import TransformedTargetRegressor

    if isinstance(model, Pipeline):
        check_scalable(model.steps[-1][1], y)
    elif isinstance(model, TransformedTargetRegressor):
        _check_functions(model, 1 if np.ndim(y) == 1 else np.shape(y)[1])
        check_scalable(model.regressor, y)
    elif predicts_counts(model):
        raise TypeError(
            "recalibrate=True scales mixtures of normals, not the counts of "
            f"likelihood={model.likelihood!r}: keep it off"
        )
    elif getattr(model, "likelihood", None) == "censored" and np.ndim(y) == 2:
        raise ValueError("recalibrate=True needs targets, and y holds bounds of them: keep it off")


def _check_functions(model: Any, n_outputs: int) -> None:
    """Refuse functions of the target that are not affine."""
    transformer = model.transformer
    if model.inverse_func is not None:
        transformer = FunctionTransformer(model.func, model.inverse_func)
    if type(transformer) is FunctionTransformer and not is_affine([transformer], n_outputs):
        raise TypeError(
            "recalibrate=True scales mixtures of normals, and the functions of the target are not "
            "affine: keep it off, or use an affine target transformer"
        )
