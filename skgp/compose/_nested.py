"""What stands inside a nested scikit-learn model.

scikit-learn's meta-estimators pass on a fixed set of methods, and `predict_dist` is not among them;
so the walk looks inside.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from skgp.compose._target_inverse import invert_draws, invert_target


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

    def invert_draws(self, draws: Any) -> Any:
        """Draws of the user's target from those of the innermost estimator."""
        return invert_draws(draws, self.target_transformers) if self.target_transformers else draws


def predicts_counts(estimator: Any) -> bool:
    """Whether an estimator has a likelihood of counts."""
    return getattr(estimator, "likelihood", None) in ("poisson", "negative_binomial")


def unwrap(model: Any) -> Nested:
    """Look through searches, pipelines, transformed targets, thresholds and frozen estimators.

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
    if isinstance(model, FixedThresholdClassifier | TunedThresholdClassifierCV):
        # A threshold chooses labels and leaves probabilities as they are.
        return unwrap(getattr(model, "estimator_", model.estimator))
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


def keep_functions(fitted: Any, original: Any) -> None:
    """Give the target transformers of a fitted copy the functions of the original.

    A copy that was fitted in another process has copies of them. Distributions of several members
    fit together only if their functions are the same.
    """
    if _transforms_targets(fitted):
        source = original if original.transformer is None else original.transformer
        functions = {k: getattr(source, k, None) for k in ("func", "inverse_func")}
        if original.transformer is None:
            vars(fitted).update(functions)
        for transformer in (fitted.transformer, fitted.transformer_):
            if type(transformer) is FunctionTransformer:
                vars(transformer).update(functions)
    for part, of_original in _parts(fitted, original):
        keep_functions(part, of_original)


def _transforms_targets(fitted: Any) -> bool:
    return all(hasattr(fitted, name) for name in ("transformer", "transformer_", "regressor_"))


def _parts(fitted: Any, original: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of the estimators inside of a fitted copy, and of those that they are copies of."""
    if isinstance(fitted, Pipeline):
        yield fitted.steps[-1][1], original.steps[-1][1]
    elif isinstance(fitted, FrozenEstimator):
        yield fitted.estimator, original.estimator
    elif _transforms_targets(fitted):
        yield fitted.regressor_, original.regressor
    elif hasattr(fitted, "best_estimator_"):
        # A function or estimator that the search has chosen is not that of the original.
        chosen = getattr(fitted, "best_params_", {}).values()
        if not any(callable(value) or hasattr(value, "fit") for value in chosen):
            yield fitted.best_estimator_, original.estimator
    elif type(fitted).__module__.partition(".")[0] not in ("sklearn", "skgp"):
        return
    elif hasattr(fitted, "final_estimator_"):
        yield fitted.final_estimator_, original.final_estimator
    elif hasattr(original, "estimators"):
        members = [member for _, member in original.estimators if member != "drop"]
        yield from zip(fitted.estimators_, members, strict=True)
    elif hasattr(original, "estimator"):
        yield from ((member, original.estimator) for member in getattr(fitted, "estimators_", ()))
