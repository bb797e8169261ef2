"""Regressors: targets that are scaled and may be missing, and predictive distributions."""

import math
from functools import partial
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from skgp._r2 import r2_of_observed
from skgp._typing import Array
from skgp._validation import output_names
from skgp.distributions import ContinuousDistribution, NormalMixture
from skgp.estimators import _attributes, _joint
from skgp.estimators._estimator import Estimator
from skgp.fitting.fit import TargetSpec, observed
from skgp.fitting.kinds import KINDS, REALS, Kind
from skgp.fitting.predict import Chunks, normal_mixtures
from skgp.fitting.row_checks import check_observed, check_rows, check_same_names, check_same_shape
from skgp.fitting.rows import Rows
from skgp.fitting.splits import split_rows


def _takes_streams(estimator: Any) -> bool:
    """Whether it is trained by minibatches."""
    return hasattr(estimator, "batch_size")


class Regressor(MultiOutputMixin, RegressorMixin, Estimator):
    """Abstract base of the regressors that torch trains.

    Means, quantiles and intervals are those of `predict_dist`, up to rounding, but come from one
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
            With ``likelihood="censored"`` an (n, 2) array holds lower and upper bounds.
        sample_weight : array-like of shape (n,), optional
            Multiplies a row's term in the objective; weight 0 equals dropping the row. Zero or
            between 1e-15 and 1e15.
        X_val, y_val, sample_weight_val : array-like, optional
            Held-out rows: their mean log density is recorded after each epoch and, depending on
            `early_stopping`, decides when to stop. Without them `early_stopping` holds out
            `validation_fraction` of the rows, copies of a row together. No row counts less than
            -1,000 nats per output in standardised units, so that wrong targets have a limited
            effect.

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
            report += working._fit(X, y, sample_weight, (X_val, y_val, sample_weight_val))
        return self

    @available_if(_takes_streams)
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, n_total: float | None = None
    ) -> Self:
        """Train one epoch on a chunk of rows, going on from the calls before.

        Scales and initial inducing inputs come from the first rows: while these are few, the model
        starts anew whenever their number has doubled. Later rows far outside their range are left
        out, with a warning. The learning rate is `learning_rate_init`; after a `fit` it starts
        lower and rises to that.

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
            reset = not working.__sklearn_is_fitted__()
            rows = working._rows(X, y, sample_weight, reset=reset)
            remembered = working._remembered(y, rows, reset=reset)
            report += working._train_chunk(rows, n_total, working._targets(), remembered)
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
        """Mean of the predictive distribution, on request with standard deviation or covariance.

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
            If a covariance over rows is asked for, and the model has a readout, latent covariates,
            a likelihood other than "normal" and "censored", or no GPs; or if hidden functions are
            sampled, and their kernel has no known spectral density.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        fitted = self._snapshot()
        chunks = fitted._predictive(X, joint=False)
        if return_std:
            mean, std = chunks.gather(lambda dist: (dist.mean(), dist.std()))
            return mean, std
        cov = _joint.covariance_over_rows(fitted, X) if return_cov else None
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
        chunks = self._snapshot()._predictive(X, joint=False)
        (quantiles,) = chunks.gather(lambda dist: (dist.ppf(q),))
        return quantiles

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Central interval that holds y with the probability `coverage`.

        Parameters
        ----------
        X : array-like of shape (n, D)
        coverage : float in [0, 1]

        Returns
        -------
        lower, upper : arrays of shape (n,) or (n, P)
        """
        chunks = self._snapshot()._predictive(X, joint=False)
        lower, upper = chunks.gather(lambda dist: dist.interval(coverage))
        return lower, upper

    sample_y = _joint.sample_y

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean over outputs of the R^2 of `predict`, each over its observed entries.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,) or (n, P)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For bounds of censored targets, which have none, and for columns in another order.
        """
        if self._kind.are_bounds and np.ndim(y) == 2:
            raise ValueError(
                "bounds of censored targets have no R^2: pass scoring=skgp.scoring.neg_nll_scorer"
            )
        fitted = self._snapshot()
        return r2_of_observed(y, fitted.predict(X), fitted._names, sample_weight)

    # --------------------------------------------------- fitted attributes

    noise_variance_ = property(_attributes.noise_variance)
    likelihood_parameters_ = property(_attributes.likelihood_parameters)

    # ------------------------------------------------------------- helpers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = not self._kind.are_bounds
        return tags

    def _fit(
        self, X: Any, y: Any, weight: Any, held_out: Any, noise: Any = None, noise_val: Any = None
    ) -> list[Warning]:
        """Validate the arguments of `fit`, with known variances of noise, and train."""
        self._validate_params()
        reset = not self._continues()
        rows = self._rows(X, y, weight, noise, reset=reset)
        check_same_names("y_val", self._names_of(held_out[1]), self._names_of(y))
        check_observed(rows.y, missing=self._kind.missing, remedy=self._kind.remedy)
        report, rng = self._outliers_to_check(rows), check_random_state(self.random_state)
        read = partial(self._rows_to_validate, noise=noise_val)
        split = self._split_off(rows, held_out, rng, read=read, split=split_rows)
        remembered = self._remembered(y, split.rows, reset=reset)
        return report + self._train(X, y, split, rng, self._targets(), remembered)

    def _rows(self, X: Any, y: Any, weight: Any, noise: Any = None, *, reset: bool) -> Rows:
        """Validated rows; if not `reset`, those that the fitted model can go on with."""
        kind, known = self._kind, {"noise_variance": noise}
        rows = check_rows(self, X, y, weight, reset=reset, read=kind.read, **known)
        kind.check(rows.y, "y")
        if not reset:
            check_same_shape("y", rows.y, kind.shape(rows.y), self._output_shape)
            check_same_names("y", self._names_of(y), self._names)
        return rows

    def _rows_to_validate(self, X: Any, y: Any, weight: Any, training: Rows, noise: Any) -> Rows:
        kind, of_val = self._kind, {"suffix": "_val", "noise_variance": noise}
        rows = check_rows(self, X, y, weight, reset=False, read=kind.read, **of_val)
        check_same_shape("y_val", rows.y, kind.shape(rows.y), kind.shape(training.y))
        kind.check(rows.y, "y_val")
        return rows

    @property
    def _kind(self) -> Kind:
        return KINDS.get(getattr(self, "likelihood", "normal"), REALS)

    @property
    def _names(self) -> tuple[str, ...] | None:
        """Names of the outputs; files of earlier versions have none."""
        return getattr(self, "output_names_", None)

    def _names_of(self, y: Any) -> tuple[str, ...] | None:
        """Those that targets give to the outputs: bounds are no outputs."""
        return None if self._kind.are_bounds else output_names(y)

    def _targets(self) -> TargetSpec:
        kind = self._kind
        scales = self.normalize_X, self.normalize_y and kind.can_scale
        return TargetSpec(scales, ("y", "normalize_y"), observed, kind.values)

    def _remembered(self, y: Any, rows: Rows, *, reset: bool) -> dict[str, Any]:
        """What a fit remembers of its targets; if not `reset`, it goes on with a model."""
        names = self._names_of(y) or (None if reset else self._names)
        shape = self._kind.shape(rows.y)
        return {"n_outputs_": math.prod(shape), "_output_shape": shape, "output_names_": names}

    def _predictive(self, X: Any, *, joint: bool = True) -> Chunks[Any]:
        """Predictive distributions of chunks of rows by one fit, in units of y, noise included.

        Without the covariance over outputs, if not `joint`: its factors take long.
        """
        predictor = self.model_.predictor()
        of_rows = predictor if joint else lambda x: predictor(x).marginals()
        chunks = normal_mixtures(self.model_, self._inputs(X), of_rows, self._output_shape)
        return Chunks(chunks.n_rows, map(self._observed, chunks.parts))

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

    posterior = _joint.posterior
    sample_functions = _joint.sample_functions
    sample_prior_functions = _joint.sample_prior_functions
    lengthscales_ = property(_attributes.lengthscales)
    input_powers_ = property(_attributes.input_powers)
    inducing_points_ = property(_attributes.inducing_points)
    stack_ = property(_attributes.stack)
