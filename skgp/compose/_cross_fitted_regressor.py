"""An ensemble of regressors, each fitted without one fold."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from skgp._r2 import r2_of_observed
from skgp._typing import Array
from skgp._validation import target_values
from skgp.compose._cross_fitted import CrossFitted, mixed
from skgp.compose._predict_dist import predict_dist, predict_joint, predict_latent, sample_joint
from skgp.compose._recalibration import best_scale, stretched
from skgp.compose._scalable import check_scalable


class CrossFittedRegressor(MultiOutputMixin, RegressorMixin, CrossFitted):
    """K copies of a regressor, each fitted without one fold of the rows, and their mixture.

    Each member uses its fold only to stop early: if it has the parameter `early_stopping`, this is
    set to True and the fold is passed as `X_val, y_val`. A member without it is
    just fitted to the other rows. The prediction is p(y | x) = sum_k p_k(y | x) / K, which is wide
    where the members disagree. The distribution of each row by the member that left it out is
    kept, so that the model can be scored without a further split. Such scores are slightly
    optimistic, because early stopping used these rows.

    With `recalibrate=True` the standard deviations of every member are multiplied by one factor c,
    the maximiser of the log density of the out-of-fold distributions, with means m_i and P_i
    observed outputs in row i::

        sum_i w_i (log p_i(m_i + (y_i - m_i) / c) - P_i log c)

    If each p_i is one normal, c^2 = sum_i w_i d_i^2 / sum_i w_i P_i, with the Mahalanobis distance
    d_i of y_i; otherwise c comes from a one-dimensional search between 1/1000 and 1000.

    Parameters
    ----------
    estimator : estimator
        Regressor of which :func:`skgp.predict_dist` finds the predictive distribution: one of this
        package, or a pipeline or search around one. Of a pipeline, held-out rows go through its
        fitted steps to the last one; a search or a `TransformedTargetRegressor` is just fitted.
    cv : int, cross-validation generator or iterable, default=5
        An integer is a number of shuffled folds, the same in each fit; with `groups` they are folds
        of whole groups. The test sets of a splitter must be a partition of the rows.
    recalibrate : bool, default=False
        Whether to scale the distributions of the members by `scale_`.
    n_jobs : int, default=None
        Number of processes that fit the members; None means 1 unless in a joblib context. Results
        do not depend on it.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted members, in the order of the folds.
    oof_dist_ : predictive distribution of shape (n,) or (n, P)
        For each training row, in the order of the rows, by the member that was fitted without it.
        Scaled by `scale_`.
    scale_ : float
        Factor of the standard deviations; 1.0 unless `recalibrate`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array of shape (n_features,)
        Names of the columns of X, if all are strings.

    See Also
    --------
    CrossFittedClassifier : The same for classification.
    skgp.scoring.cross_val_predict_dist : Out-of-fold distributions alone.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import SVGPRegressor
    >>> from skgp.compose import CrossFittedRegressor
    >>> from skgp.scoring import coverage
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (100, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(100)
    >>> member = SVGPRegressor(n_inducing=10, max_iter=100, random_state=0)
    >>> model = CrossFittedRegressor(member, cv=3).fit(X, y)
    >>> print(f"{model.predict([[0.5]])[0]:.1f}")
    0.5
    >>> bool(coverage(y, model.oof_dist_, coverage=0.9) > 0.8)
    True
    """

    # -------------------------------------------------------------- predict

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> Array | tuple[Array, Array]:
        """Mean of the predictive distribution, on request with standard deviation or covariance.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        return_std : bool
            Also return the standard deviation of y, noise included.
        return_cov : bool
            Also return the covariance of y over the rows of X, noise included. The covariance over
            the outputs of each row is that of `predict_dist(X).cov()`.

        Returns
        -------
        mean : array of shape (n,) or (n, P)
            In the units of y.
        std : array of the same shape
            Only if `return_std`.
        cov : array of shape (n, n) or (n, n, P)
            Only if `return_cov`.

        Raises
        ------
        RuntimeError
            If both are asked for.
        NotImplementedError
            If a covariance over rows is asked for, and the members have none.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        dist = self.predict_dist(X)
        mean: Array = dist.mean()
        if return_std:
            return mean, dist.std()
        return (mean, self._joint_covariance(X)) if return_cov else mean

    def predict_proba(self, X: Any) -> Any:
        """The distribution of `predict_dist`, under the name that Pipeline forwards.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        predictive distribution of shape (n,) or (n, P)
        """
        return self.predict_dist(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean over outputs of the R^2 of `predict`, each over its observed entries.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,) or (n, P)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For columns of y in another order than those of the fit.
        """
        dist = self.predict_dist(X)
        return r2_of_observed(y, dist.mean(), dist.output_names, sample_weight)

    def predict_latent(self, X: Any) -> Any:
        """Distribution of the noiseless function: the equal mixture of those of the members.

        It is scaled as the distribution of y is, so that recalibration keeps the share of noise.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        predictive distribution of shape (n,) or (n, P)

        Raises
        ------
        TypeError
            If the members have no method `predict_latent`.
        """
        check_is_fitted(self)
        members, scale = self.estimators_, self.scale_
        return mixed([self._scaled(predict_latent(member, X), scale) for member in members])

    def predict_quantiles(self, X: Any, q: Any) -> Array:
        """Quantiles of y.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        q : float or array-like of shape (k,)
            Levels in [0, 1].

        Returns
        -------
        array of shape (n,) or (n, P), with a last axis k if q is an array
        """
        quantiles: Array = self.predict_dist(X).ppf(q)
        return quantiles

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Central interval that holds y with the probability `coverage`.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        coverage : float in [0, 1]

        Returns
        -------
        lower, upper : arrays of shape (n,) or (n, P)
        """
        lower, upper = self.predict_dist(X).interval(coverage)
        return lower, upper

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draws of y, noise included: joint over rows and outputs, as those of the members.

        A draw is one of a member, which is chosen with equal probabilities, and scaled about the
        mean of that member as its distribution is. `predict_dist(X).rvs(n_samples)` draws each row
        for itself, which is faster.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        n_samples : int
        random_state : int, RandomState or None

        Returns
        -------
        array of shape (n, n_samples) or (n, P, n_samples)

        Raises
        ------
        NotImplementedError
            If the members have no joint distribution over rows, or no `sample_y`.
        """
        check_is_fitted(self)
        members, scale = self.estimators_, self.scale_
        check_scalar(n_samples, "n_samples", Integral, min_val=0)
        rng = check_random_state(random_state)
        chosen = rng.randint(len(members), size=int(n_samples))
        numbers = np.unique(chosen) if n_samples else [0]  # draws of none have a shape, too
        parts = []
        for number in numbers:
            draws = sample_joint(members[number], X, int((chosen == number).sum()), rng)
            if scale != 1.0:
                mean = predict_dist(members[number], X).mean()[..., None]
                draws = mean + scale * (draws - mean)
            parts.append(draws)
        # The draws of a member are scattered over the places where it was chosen.
        place = np.argsort(np.argsort(chosen, kind="stable"))
        in_place: Array = np.concatenate(parts, axis=-1)[..., place]
        return in_place

    # ------------------------------------------------------------- helpers

    def _joint_covariance(self, X: Any) -> Array:
        """Covariance of the mixture over the rows of X, by the law of total covariance."""
        members = [predict_joint(member, X) for member in self.estimators_]
        means, covs = zip(*members, strict=True)
        # (n, n) or (n, n, P): the first two axes are those of the rows
        spread = np.stack(means) - np.mean(means, axis=0)
        of_means = np.einsum("ki...,kj...->ij...", spread, spread) / len(members)
        within: Array = self.scale_**2 * np.mean(covs, axis=0)
        return within + of_means

    def _checked(self, y: Any) -> Any:
        if self.recalibrate:
            check_scalable(self.estimator, y)
        return y

    def _of_targets(self, y: Any, weight: Array) -> dict[str, Any]:
        return {}

    def _best_scale(self, dist: Any, y: Any, weight: Array) -> float:
        return best_scale(dist, target_values(y, "y"), weight)

    def _scaled(self, dist: Any, scale: float) -> Any:
        return dist if scale == 1.0 else stretched(dist, scale)
