"""Scorers: scores in the form that scikit-learn's `scoring` parameters accept."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRequest

from skgp.compose import predict_dist
from skgp.scoring._calibration import calibration_error, coverage, coverage_error
from skgp.scoring._joint_scores import joint_nll
from skgp.scoring._scores import crps, interval_score, nll, pinball_loss, rmse


def _distribution(estimator: Any, X: Any, y: ArrayLike) -> tuple[Any, Mapping[str, Any]]:
    """The predictive distribution of a fitted model, whatever y is."""
    return predict_dist(estimator, X), {}


@final
@dataclass(frozen=True, eq=False, repr=False)
class DistributionScorer:
    """Scorer that judges the predictive distribution of a fitted model; see `make_dist_scorer`.

    A callable ``scorer(estimator, X, y, sample_weight=None)`` for the `scoring` parameter of
    `cross_val_score`, `GridSearchCV` and their like, alone or in a dict; and in a dict for
    `sklearn.callback.ScoringMonitor`. It asks :func:`skgp.predict_dist` for the distribution, so
    the model may be nested in pipelines, searches and target transformers, and the score is in the
    outermost units of y.
    The scorers of classes ask a classifier, of scikit-learn too, for `predict_proba`.

    Immutable, picklable and cheap to copy.

    Attributes
    ----------
    score_func : callable
        ``score_func(y_true, prediction, **kwargs)``, with `sample_weight` if it accepts one.
    greater_is_better : bool
        Whether larger values of `score_func` are better; if not, the scorer negates them.
    kwargs : mapping
        Further arguments of `score_func`.
    sample_weight_request : bool, str or None
        What the scorer asks of metadata routing; see :meth:`set_score_request`.
    predict_func : callable
        ``predict_func(estimator, X, y)`` returns the prediction, and a mapping of further arguments
        of `score_func` that depend on the estimator or the rows, such as the labels of columns.

    Notes
    -----
    `sklearn.metrics.make_scorer` cannot do this: it knows only the methods that scikit-learn
    delegates, and `TransformedTargetRegressor` delegates none but `predict`.

    Examples
    --------
    >>> from skgp.scoring import neg_crps_scorer
    >>> neg_crps_scorer
    make_dist_scorer(crps)
    """

    score_func: Callable[..., Any]
    greater_is_better: bool = False
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    sample_weight_request: bool | str | None = None
    predict_func: Callable[[Any, Any, ArrayLike], tuple[Any, Mapping[str, Any]]] = _distribution

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> float:
        """Score the predictions of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            Anything that :func:`skgp.predict_dist` accepts; for scores of classes a classifier
            with `predict_proba` and `classes_`.
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,) or (n, P)
            Targets, of which NaN entries are skipped, or labels.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        float
            Greater is better.
        """
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        prediction, arguments = self.predict_func(estimator, X, y)
        score = float(self.score_func(y, prediction, **arguments, **self.kwargs, **weights))
        return score if self.greater_is_better else -score

    def __repr__(self) -> str:
        name = getattr(self.score_func, "__name__", repr(self.score_func))
        sign = ", greater_is_better=True" if self.greater_is_better else ""
        arguments = "".join(f", {key}={value!r}" for key, value in self.kwargs.items())
        if self.predict_func is _distribution:
            return f"make_dist_scorer({name}{sign}{arguments})"
        made_by = getattr(self.predict_func, "__name__", repr(self.predict_func))
        return f"DistributionScorer({name}{sign}{arguments}, predict_func={made_by})"

    def set_score_request(self, *, sample_weight: bool | str | None) -> "DistributionScorer":
        """Copy of the scorer that asks metadata routing for sample weights.

        Unlike scikit-learn's scorers, which change in place, the original is left as it is: the
        scorers of this module are shared by the whole program.

        Parameters
        ----------
        sample_weight : bool, str or None
            True: pass `sample_weight`; False: never; None: raise when weights are given; str: pass
            the metadata of that name.

        Returns
        -------
        DistributionScorer

        Raises
        ------
        RuntimeError
            If metadata routing is off, as scikit-learn would then ignore the request.
        TypeError
            If the score takes no `sample_weight`.
        """
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "set_score_request has no effect without metadata routing; enable it by "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        if not self._accept_sample_weight():
            raise TypeError(f"{self!r} takes no sample_weight.")
        return replace(self, sample_weight_request=sample_weight)

    def get_metadata_routing(self) -> MetadataRequest:
        """What the scorer asks of scikit-learn's metadata routing.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRequest
        """
        request = MetadataRequest(owner=self)
        if self._accept_sample_weight():
            request.score.add_request(param="sample_weight", alias=self.sample_weight_request)
        return request

    def _accept_sample_weight(self) -> bool:
        # scikit-learn asks this in multi-metric scoring when metadata routing is off.
        return "sample_weight" in inspect.signature(self.score_func).parameters


def make_dist_scorer(
    score_func: Callable[..., Any], *, greater_is_better: bool = False, **kwargs: Any
) -> DistributionScorer:
    """Make a scorer from a score of predictive distributions.

    The counterpart of `sklearn.metrics.make_scorer`.

    Parameters
    ----------
    score_func : callable
        ``score_func(y_true, dist, *, sample_weight=None, **kwargs)``, returning one number; the
        functions of this module or your own. Define it at the top level of a module, so that the
        scorer can be sent to other processes.
    greater_is_better : bool, default=False
        Whether larger values are better. If not, the scorer negates them.
    **kwargs
        Further arguments of `score_func`.

    Returns
    -------
    DistributionScorer

    Raises
    ------
    TypeError
        If `score_func` is not callable or does not accept `kwargs`.
    ValueError
        If `multioutput` is "raw_values": a scorer returns one number.

    Examples
    --------
    >>> from skgp.scoring import interval_score, make_dist_scorer
    >>> make_dist_scorer(interval_score, coverage=0.5)
    make_dist_scorer(interval_score, coverage=0.5)
    """
    if not callable(score_func):
        raise TypeError(f"score_func must be callable, got {type(score_func).__name__}.")
    inspect.signature(score_func).bind(None, None, **kwargs)
    if isinstance(kwargs.get("multioutput"), str) and kwargs["multioutput"] == "raw_values":
        raise ValueError(
            "multioutput='raw_values' gives one score per output, but a scorer returns one number."
        )
    return DistributionScorer(score_func, greater_is_better, kwargs)


neg_nll_scorer = make_dist_scorer(nll)
neg_joint_nll_scorer = make_dist_scorer(joint_nll)
neg_crps_scorer = make_dist_scorer(crps)
neg_interval_score_scorer = make_dist_scorer(interval_score)
neg_pinball_loss_scorer = make_dist_scorer(pinball_loss)
neg_rmse_scorer = make_dist_scorer(rmse)
neg_calibration_error_scorer = make_dist_scorer(calibration_error)
neg_coverage_error_scorer = make_dist_scorer(coverage_error)
# To watch, not to select by: coverage is best at its nominal value, not at 1.
coverage_scorer = make_dist_scorer(coverage, greater_is_better=True)
