"""What a regressor offers as soon as it can predict distributions of chunks of rows."""

from abc import ABCMeta, abstractmethod
from typing import Any, Self

from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from skgp.distributions import NormalMixture
from skgp.estimators._chunks import Chunks
from skgp.estimators._table import Array


class DistributionRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator, metaclass=ABCMeta):
    """Abstract base: `predict_dist` and its kin.

    Means, quantiles and intervals are those of `predict_dist`, bit for bit, but are taken from one
    chunk of rows after another, so that the distributions of all rows never exist at once.
    """

    _doc_link_module = "skgp"

    @abstractmethod
    def _snapshot(self) -> Self:
        """The estimator as it is now, which a fit in another thread does not change."""

    @abstractmethod
    def _predictive(self, X: Any) -> Chunks[NormalMixture]:
        """Predictive distributions of y of chunks of rows, in its units, noise included."""

    def predict_dist(self, X: Any) -> NormalMixture:
        """Predictive distribution of y, in its units, noise included.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        NormalMixture with n rows
        """
        chunks = self._snapshot()._predictive(X)
        return NormalMixture.gather(chunks.parts, chunks.n_rows)

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> Array | tuple[Array, Array]:
        """Mean of the predictive distribution, on request with its deviation or covariance.

        Parameters
        ----------
        X : array-like of shape (n, D)
        return_std : bool
            Also return the standard deviation of y, noise included.
        return_cov : bool
            Also return the covariance over the outputs of each row, noise included.

        Returns
        -------
        mean : array of shape (n,) or (n, P)
            In the units of y.
        std : array of the same shape
            Only if `return_std`.
        cov : array of shape (n, P, P)
            Only if `return_cov`; P = 1 for a one-dimensional y.

        Raises
        ------
        RuntimeError
            If both are asked for.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        chunks = self._snapshot()._predictive(X)
        if return_std:
            mean, std = chunks.gather(lambda dist: (dist.mean(), dist.std()))
            return mean, std
        if return_cov:
            mean, cov = chunks.gather(lambda dist: (dist.mean(), dist.cov()))
            return mean, cov
        (mean,) = chunks.gather(lambda dist: (dist.mean(),))
        return mean

    def predict_proba(self, X: Any) -> NormalMixture:
        """The distribution of `predict_dist`, under the name that Pipeline forwards.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        NormalMixture with n rows
        """
        return self.predict_dist(X)

    def predict_quantiles(self, X: Any, q: Any) -> Array:
        """Quantiles of y.

        Parameters
        ----------
        X : array-like of shape (n, D)
        q : float or array-like of shape (k,)
            Levels in [0, 1].

        Returns
        -------
        array of shape (n,) or (n, P), with a last axis k if q is an array
        """
        (quantiles,) = self._snapshot()._predictive(X).gather(lambda dist: (dist.ppf(q),))
        return quantiles

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Central interval that holds y with the probability `coverage`.

        Parameters
        ----------
        X : array-like of shape (n, D)
        coverage : float in (0, 1)

        Returns
        -------
        lower, upper : arrays of shape (n,) or (n, P)
        """
        chunks = self._snapshot()._predictive(X)
        lower, upper = chunks.gather(lambda dist: dist.interval(coverage))
        return lower, upper

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draws of y: joint over the outputs of a row, independent between rows.

        Parameters
        ----------
        X : array-like of shape (n, D)
        n_samples : int
        random_state : int, RandomState or None

        Returns
        -------
        array of shape (n, n_samples) or (n, P, n_samples)
        """
        return self.predict_dist(X).rvs(n_samples, random_state=random_state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags
