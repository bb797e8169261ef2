"""What stands inside a nested scikit-learn model.

scikit-learn's meta-estimators pass on a fixed set of methods, and `predict_dist` is not among them;
so the walk looks inside.
"""

from dataclasses import dataclass
from typing import Any, final

from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skgp.compose._target_inverse import invert_target


@final
@dataclass(frozen=True)
class Nested:
    """The innermost estimator of a model, and what stands between it and the user.

    The target transformers are collected rather than undone one by one because a distribution that
    went through a non-affine transformer cannot go through another.

    Attributes
    ----------
    estimator : estimator
        The innermost one, which predicts.
    steps : tuple of transformers
        Of the inputs, in the order of application.
    target_transformers : tuple of transformers
        Inner ones first.
    """

    estimator: Any
    steps: tuple[Any, ...] = ()
    target_transformers: tuple[Any, ...] = ()

    def transform(self, X: Any) -> Any:
        """What the innermost estimator is given for X."""
        for step in self.steps:
            X = step.transform(X)
        return X

    def invert_target(self, dist: Any) -> Any:
        """Distribution of the user's target from that of the innermost estimator."""
        return invert_target(dist, self.target_transformers) if self.target_transformers else dist


def unwrap(model: Any) -> Nested:
    """Look through searches, `Pipeline`, `TransformedTargetRegressor` and `FrozenEstimator`.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model is a search or a `TransformedTargetRegressor` that is not fitted, or is a
        search with ``refit=False``.
    """
    # It comes with the linear models, which `import skgp` does not need.
    from sklearn.compose import TransformedTargetRegressor

    if isinstance(model, FrozenEstimator):
        return unwrap(model.estimator)
    if hasattr(model, "predict_dist"):
        return Nested(model)
    if isinstance(model, Pipeline):
        steps = [s for _, s in model.steps[:-1] if s is not None and s != "passthrough"]
        inner = unwrap(model.steps[-1][1])
        return Nested(inner.estimator, (*steps, *inner.steps), inner.target_transformers)
    if isinstance(model, TransformedTargetRegressor):
        check_is_fitted(model)
        inner = unwrap(model.regressor_)
        transformers = (*inner.target_transformers, model.transformer_)
        return Nested(inner.estimator, inner.steps, transformers)
    if hasattr(model, "best_estimator_"):
        return unwrap(model.best_estimator_)
    if hasattr(model, "refit"):
        raise NotFittedError(
            f"This {type(model).__name__} has no best_estimator_: it is not fitted yet, or has "
            "refit=False."
        )
    return Nested(model)
