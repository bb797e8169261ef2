"""What cross-fitted regressors and classifiers have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_classifier
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import get_tags, indexable
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metadata_routing import (
    MetadataRequest,
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_is_fitted

from skgp import _doc_links
from skgp._typing import Array
from skgp._validation import unmasked
from skgp.compose._members import (
    Fold,
    Table,
    check_partition,
    fit_members,
    in_order,
    joined,
    takes_weights,
)
from skgp.compose._predict_dist import predict_dist
from skgp.distributions import mix


class CrossFitted(CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator, ABC):
    """Abstract base of the ensembles whose members each leave out one fold of the rows."""

    _doc_link_module = "skgp"
    _doc_link_template = property(_doc_links.template)
    _doc_link_url_param_generator = _doc_links.page

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"])],
        "cv": ["cv_object"],
        "recalibrate": ["boolean"],
        "n_jobs": [Integral, None],
    }

    estimators_: list[Any]
    oof_dist_: Any
    scale_: float

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = 5,
        recalibrate: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.recalibrate = recalibrate
        self.n_jobs = n_jobs

    # ------------------------------------------------------------------ fit

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit one copy of the estimator to the rows outside each fold.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            What the estimator accepts.
        y : array-like of shape (n,) or (n, P)
            What the estimator accepts.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, for the fits of the members, the scores by which they stop, and the
            recalibration. With metadata routing, the members have to request it; in a pipeline,
            the steps that request it receive it.
        groups : array-like of shape (n,), optional
            Rows of one group are never on both sides of a split. Passed to the splitter; an integer
            `cv` then means folds of whole groups.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or argument is not valid, if the test sets of `cv` are no partition of
            the rows, or if the estimator takes no `sample_weight` and one is given. The errors of a
            member pass through. The estimator is what it was before.
        TypeError
            If the estimator offers no predictive distribution, or none that can be recalibrated.
        """
        self._validate_params()
        self._check_member()
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        X, y, groups = indexable(X, self._checked(y), groups)
        weight = None
        if sample_weight is not None:
            weight = unmasked(sample_weight, "sample_weight")
            weight = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
        member_weight, split_params = self._route(weight, groups)
        table = Table(X, y, member_weight)
        weight = np.ones(_num_samples(X)) if weight is None else weight
        learned = self._of_targets(y, weight)
        splits = self._splitter(groups is not None).split(X, y, **split_params)
        folds = [Fold(*split) for split in splits]
        self._check_folds(folds, y, weight)
        root = self._init_callback_context(max_subtasks=len(folds), sequential_subtasks=False)
        root.call_on_fit_task_begin(estimator=self, X=X, y=y)
        tasks = [root.subcontext(task_name="fold", task_id=k) for k in range(len(folds))]
        members = fit_members(self, table, folds, tasks)
        oof_dist = in_order([member.dist for member in members], [fold.held_out for fold in folds])
        scale = 1.0
        if self.recalibrate:
            scale = self._best_scale(oof_dist, y, weight)
            oof_dist = self._scaled(oof_dist, scale)
        first = members[0].estimator
        names = ("n_features_in_", "feature_names_in_")
        learned |= {name: getattr(first, name) for name in names if hasattr(first, name)}
        learned |= {
            "estimators_": [member.estimator for member in members],
            "oof_dist_": oof_dist,
            "scale_": scale,
        }
        # In one step: no thread that predicts meanwhile sees half of two fits.
        self.__dict__ = {k: v for k, v in vars(self).items() if k not in names} | learned
        root.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def get_metadata_routing(self) -> Any:
        """Where metadata go: `sample_weight` of `fit` to the members, `groups` to the splitter.

        What `score` asks for is said by `set_score_request`.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
        """
        fit = MethodMapping().add(caller="fit", callee="fit")
        split = MethodMapping().add(caller="fit", callee="split")
        own = MetadataRequest(owner=self)
        own.score = self._get_metadata_request().score
        # An iterator gives its splits once, and they are for the fit.
        splitter = self.cv if isinstance(self.cv, Iterator) else self._splitter(grouped=True)
        return (
            MetadataRouter(owner=self)
            .add_self_request(own)
            .add(estimator=self.estimator, method_mapping=fit)
            .add(splitter=splitter, method_mapping=split)
        )

    # -------------------------------------------------------------- predict

    def predict_dist(self, X: Any) -> Any:
        """Predictive distribution: the equal mixture of those of the members.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        predictive distribution of n rows

        Raises
        ------
        ValueError
            If the members learned target transformations that are neither affine nor the same.
        sklearn.exceptions.NotFittedError
            If there was no fit yet.
        """
        check_is_fitted(self)
        members, scale = self.estimators_, self.scale_
        return mixed([self._scaled(predict_dist(member, X), scale) for member in members])

    # ------------------------------------------------------------- helpers

    @abstractmethod
    def _checked(self, y: Any) -> Any:
        """Targets or labels that can be split."""

    @abstractmethod
    def _of_targets(self, y: Any, weight: Array) -> dict[str, Any]:
        """What a fit remembers of its targets."""

    def _check_folds(self, folds: Sequence[Fold], y: Any, weight: Array) -> None:
        """Refuse folds that no ensemble can be made of."""
        check_partition([fold.held_out for fold in folds], _num_samples(y))
        for number, fold in enumerate(folds):
            if not (weight[fold.held_out] > 0.0).any():
                raise ValueError(
                    f"all rows that fold {number} of cv holds out have the sample_weight 0: drop "
                    "such rows, or choose other folds"
                )

    @abstractmethod
    def _best_scale(self, dist: Any, y: Any, weight: Array) -> float:
        """The number that makes held-out rows most probable."""

    @abstractmethod
    def _scaled(self, dist: Any, scale: float) -> Any:
        """A distribution after recalibration; as it was for the scale 1."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.non_deterministic = inner.non_deterministic
        if inner.regressor_tags is not None:
            tags.regressor_tags = inner.regressor_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags = inner.classifier_tags
        return tags

    def _check_member(self) -> None:
        kind, wanted = get_tags(self.estimator).estimator_type, get_tags(self).estimator_type
        if kind is not None and kind != wanted:
            raise ValueError(
                f"{type(self).__name__} needs a {wanted}, and {type(self.estimator).__name__} is a "
                f"{kind}: take the other one of CrossFittedRegressor and CrossFittedClassifier"
            )

    def _route(self, weight: Any, groups: Any) -> tuple[Any, dict[str, Any]]:
        """Weights for the members, and arguments of the splitter."""
        if not get_config()["enable_metadata_routing"]:
            if weight is not None and not takes_weights(self.estimator):
                raise ValueError(
                    f"{type(self.estimator).__name__} takes no sample_weight: leave it out, or "
                    "choose an estimator whose fit has this argument"
                )
            return weight, {"groups": groups}
        given = {"sample_weight": weight, "groups": groups}
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            return None, {}
        routed = process_routing(self, "fit", **given)
        return routed.estimator.fit.get("sample_weight"), dict(routed.splitter.split)

    def _splitter(self, grouped: bool) -> Any:
        """The splitter of `cv`; an integer means shuffled folds, for tables may be sorted."""
        if not isinstance(self.cv, Integral):
            return check_cv(self.cv)
        kinds = {
            (False, False): KFold,
            (True, False): StratifiedKFold,
            (False, True): GroupKFold,
            (True, True): StratifiedGroupKFold,
        }
        kind = kinds[is_classifier(self), grouped]
        return kind(self.cv, shuffle=True, random_state=0)


def mixed(distributions: Sequence[Any]) -> Any:
    """Equal mixture of the distributions of the members."""
    return joined(mix, distributions)
