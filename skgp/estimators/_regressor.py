"""Regressors: targets that are scaled and may be missing, and predictive distributions."""

import math
from numbers import Integral
from typing import Any, Literal, Self, overload

from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.metaestimators import available_if

from skgp.distributions import ContinuousDistribution, NormalMixture
from skgp.estimators import _attributes
from skgp.estimators._estimator import Estimator
from skgp.fitting.arguments import output_names
from skgp.fitting.draws import joint_draws
from skgp.fitting.fit import Targets, observed
from skgp.fitting.joint import joint_covariance
from skgp.fitting.predict import Chunks, normal_mixtures
from skgp.fitting.rows import (
    Rows,
    check_counts,
    check_observed,
    check_rows,
    check_same_names,
    check_same_outputs,
    split_rows,
)
from skgp.fitting.table import Array
from skgp.recipes.outputs import COUNTS


def _takes_streams(estimator: Any) -> bool:
    """Whether it is trained by minibatches."""
    return hasattr(estimator, "batch_size")


class Regressor(MultiOutputMixin, RegressorMixin, Estimator):
    """Abstract base of the regressors that torch trains.

    Means, quantiles and intervals are those of `predict_dist`, bit for bit, but are taken from one
    chunk of rows after another, so that the distributions of all rows never exist at once.
    """

    # Parameters that every family stores in its constructor.
    normalize_X: bool
    normalize_y: bool

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n, D)
            Inputs; finite numbers.
        y : array-like of shape (n,) or (n, P)
            Targets, in any units. NaN in an (n, P) array marks a missing entry, which is skipped.
        sample_weight : array-like of shape (n,), optional
            Multiplies a row's term in the objective; weight 0 equals dropping the row. Zero or
            between 1e-15 and 1e15.
        X_val, y_val, sample_weight_val : array-like, optional
            Held-out rows: their mean log density is recorded after each epoch and, with
            `early_stopping`, decides when to stop. Without them `early_stopping` holds out
            `validation_fraction` of the rows. A row counts as -20 nats per output in standardised
            units at least, so that one wrong target cannot decide.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument has a wrong shape, type or value; the message names it.
        NonFiniteLossError
            If training diverges and does not recover.
        """
        with self._becoming() as (working, report):
            working._validate_params()
            reset = not working._continues()
            rows = working._rows(X, y, sample_weight, reset=reset)
            check_same_names("y_val", output_names(y_val), output_names(y))
            check_observed(rows.y)
            report += working._outliers_to_check(rows)
            rng = check_random_state(working.random_state)
            given = X_val, y_val, sample_weight_val
            rows, held_out = working._split_off(
                rows, given, rng, read=working._rows_to_validate, split=split_rows
            )
            kind = working._targets(), working._remembered(y, rows, reset=reset)
            report += working._train(X, y, rows, held_out, rng, *kind)
        return self

    @available_if(_takes_streams)
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, n_total: float | None = None
    ) -> Self:
        """Train one epoch on a chunk of rows, going on from the calls before.

        The scales and the initial inducing inputs come from the first rows: while there are few,
        the model starts anew whenever their number has doubled. Rows that lie far outside of these
        are left out, with a warning. The learning rate stays at `learning_rate_init`.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,) or (n, P)
        sample_weight : array-like of shape (n,), optional
        n_total : float, optional
            Rows (or sum of weights) of the whole stream, by which the divergence is divided, if the
            objective has one; the rows seen so far if None.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `early_stopping` is set, if a parameter has changed that the model was built with,
            or as in `fit`.

        Warns
        -----
        OutlierWarning
            Naming the rows that are left out.
        """
        with self._becoming() as (working, report):
            working._check_chunk(n_total)
            reset = not working._is_fitted()
            rows = working._rows(X, y, sample_weight, reset=reset)
            kind = working._targets(), working._remembered(y, rows, reset=reset)
            report += working._train_chunk(rows, n_total, *kind)
        return self

    # -------------------------------------------------------------- predict

    def predict_dist(self, X: Any) -> ContinuousDistribution:
        """Predictive distribution of y, in its units, noise included.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        NormalMixture with n rows, CountMixture for counts
        """
        fitted = self._snapshot()
        model, shape = fitted.model_, fitted._output_shape
        chunks = normal_mixtures(model, fitted._inputs(X), model.predictor(), shape)
        dist = fitted._observed(NormalMixture.gather(chunks.parts, chunks.n_rows))
        return dist.with_output_names(fitted._names)

    @overload
    def predict(
        self, X: Any, return_std: Literal[False] = False, return_cov: Literal[False] = False
    ) -> Array: ...

    @overload
    def predict(
        self, X: Any, return_std: Literal[True], return_cov: bool = False
    ) -> tuple[Array, Array]: ...

    @overload
    def predict(
        self, X: Any, return_std: bool = False, *, return_cov: Literal[True]
    ) -> tuple[Array, Array]: ...

    @overload
    def predict(
        self, X: Any, return_std: bool, return_cov: bool = False
    ) -> Array | tuple[Array, Array]: ...

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
            Also return the covariance of y over the rows of X, noise included, as scikit-learn's
            Gaussian process does. The covariance over the outputs of each row is that of
            `predict_dist(X).cov()`.

        Returns
        -------
        mean : array of shape (n,) or (n, P)
            In the units of y.
        std : array of the same shape
            Only if `return_std`.
        cov : array of shape (n, n) or (n, n, P)
            Only if `return_cov`. Its diagonal is the square of std. Where hidden functions are
            sampled, it is an average over draws of them, and agrees with that up to their number.

        Raises
        ------
        RuntimeError
            If both are asked for.
        NotImplementedError
            If a covariance over rows is asked for, and the model is not one of GP layers alone: if
            it has a readout, latent covariates or no GPs; or if hidden functions are sampled, and
            their kernel has no known spectral density.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        chunks = self._predictive(X)
        if return_std:
            mean, std = chunks.gather(lambda dist: (dist.mean(), dist.std()))
            return mean, std
        cov = self._joint_covariance(X) if return_cov else None
        (mean,) = chunks.gather(lambda dist: (dist.mean(),))
        return mean if cov is None else (mean, cov)

    def predict_proba(self, X: Any) -> ContinuousDistribution:
        """The distribution of `predict_dist`, under the name that Pipeline forwards.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        distribution with n rows
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
        (quantiles,) = self._predictive(X).gather(lambda dist: (dist.ppf(q),))
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
        chunks = self._predictive(X)
        lower, upper = chunks.gather(lambda dist: dist.interval(coverage))
        return lower, upper

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draws of y, noise included: joint over rows and outputs, as in scikit-learn.

        A draw is one function at all rows, plus noise of each row. Up to 1,000 rows it comes from
        the joint distribution over them, beyond and where hidden functions are sampled from
        draws of functions. `predict_dist(X).rvs(n_samples)` draws each row for itself, which is
        faster.

        Parameters
        ----------
        X : array-like of shape (n, D)
        n_samples : int
        random_state : int, RandomState or None

        Returns
        -------
        array of shape (n, n_samples) or (n, P, n_samples)

        Raises
        ------
        NotImplementedError
            If the model is not one of GP layers alone: if it has a readout, latent covariates or no
            GPs; or if functions are to be drawn of a kernel without a known spectral density.
        """
        fitted = self._snapshot()
        X = fitted._inputs(X)
        check_scalar(n_samples, "n_samples", Integral, min_val=0)
        if not fitted.model_.has_gp_latents:
            raise NotImplementedError(
                f"sample_y asks for the joint distribution over rows, which {type(self).__name__} "
                "does not have; predict_dist(X).rvs(n_samples) draws each row for itself"
            )
        rng, shape = check_random_state(random_state), fitted._output_shape
        return joint_draws(fitted.model_, X, int(n_samples), rng, shape, fitted._observed)

    # --------------------------------------------------- fitted attributes

    noise_variance_ = property(_attributes.noise_variance)
    likelihood_parameters_ = property(_attributes.likelihood_parameters)

    # ------------------------------------------------------------- helpers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    def _rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        """Validated rows; if not `reset`, those that the fitted model can go on with."""
        rows = check_rows(self, X, y, sample_weight, reset=reset)
        if self._has_counts:
            check_counts(rows.y)
        if not reset:
            check_same_outputs("y", rows.y, self._output_shape)
            check_same_names("y", output_names(y), self._names)
        return rows

    def _rows_to_validate(self, X: Any, y: Any, sample_weight: Any, training: Rows) -> Rows:
        rows = check_rows(self, X, y, sample_weight, reset=False, suffix="_val")
        check_same_outputs("y_val", rows.y, training.y.shape[1:])
        if self._has_counts:
            check_counts(rows.y, "y_val")
        return rows

    @property
    def _names(self) -> tuple[str, ...] | None:
        """Names of the outputs; files of earlier versions have none."""
        return getattr(self, "output_names_", None)

    def _remembered(self, y: Any, rows: Rows, *, reset: bool) -> dict[str, Any]:
        """What a fit remembers of its targets; if not `reset`, it goes on with a model."""
        names = output_names(y) or (None if reset else self._names)
        shape = rows.y.shape[1:]
        return {"n_outputs_": math.prod(shape), "_output_shape": shape, "output_names_": names}

    @property
    def _has_counts(self) -> bool:
        return getattr(self, "likelihood", "normal") in COUNTS

    def _targets(self) -> Targets:
        is_scaled = self.normalize_y and not self._has_counts
        return Targets((self.normalize_X, is_scaled), ("y", "normalize_y"), observed)

    def _joint_covariance(self, X: Any) -> Array:
        """Covariance of y over the rows of X, noise included."""
        fitted = self._snapshot()
        if not fitted.model_.has_gp_outputs:
            raise NotImplementedError(
                f"return_cov asks for the covariance over rows, which {type(self).__name__} does "
                "not have; predict_dist(X).cov() is the covariance over the outputs of each row"
            )
        return joint_covariance(fitted.model_, fitted._inputs(X), fitted._output_shape)

    def _predictive(self, X: Any) -> Chunks[Any]:
        """Predictive distributions of y of chunks of rows, in its units, noise included."""
        fitted = self._snapshot()
        model, shape = fitted.model_, fitted._output_shape
        chunks = normal_mixtures(model, fitted._inputs(X), model.predictor(), shape)
        return Chunks(chunks.n_rows, map(fitted._observed, chunks.parts))

    def _observed(self, dist: NormalMixture) -> Any:
        """The distribution of y, of that which the likelihood gives for it."""
        return self.model_.likelihood.observed(dist)


class GPRegressor(Regressor):
    """Abstract base of the regressors whose model is a stack of GP layers."""

    def predict_latent(self, X: Any) -> NormalMixture:
        """Distribution of the noiseless function f, in the units of y.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        NormalMixture with n rows
        """
        fitted = self._snapshot()
        model, shape = fitted.model_, fitted._output_shape
        chunks = normal_mixtures(model, fitted._inputs(X), model.noiseless_predictor(), shape)
        dist = NormalMixture.gather(chunks.parts, chunks.n_rows)
        return dist.with_output_names(fitted._names)

    posterior = _attributes.posterior
    sample_functions = _attributes.sample_functions
    sample_prior_functions = _attributes.sample_prior_functions
    lengthscales_ = property(_attributes.lengthscales)
    input_powers_ = property(_attributes.input_powers)
    inducing_points_ = property(_attributes.inducing_points)
    stack_ = property(_attributes.stack)
