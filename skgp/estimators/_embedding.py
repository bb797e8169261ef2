"""Models of a table whose inputs are latent: scikit-learn's transformers."""

import copy
from collections.abc import Iterator
from typing import Any, Final, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import pairwise_distances_argmin, pairwise_distances_chunked
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import validate_data

from skgp._typing import Array
from skgp._validation import refuse_times, unmasked
from skgp.core.data import Targets
from skgp.core.numerics.gradients import recorded_gradients
from skgp.core.numerics.principal import principal_scores
from skgp.core.objectives.objective import ELBO
from skgp.core.stacks.row_posterior import RowMoments
from skgp.core.training.inversion import N_COMPARED, Inversion
from skgp.distributions import NormalMixture
from skgp.estimators import _attributes
from skgp.estimators._estimator import Estimator
from skgp.fitting.arguments import reading, refuse_sparse
from skgp.fitting.fit import TargetSpec, observed
from skgp.fitting.model import Model
from skgp.fitting.predict import Chunks, normal_mixtures
from skgp.fitting.row_checks import check_magnitude, check_observed
from skgp.fitting.rows import Rows
from skgp.fitting.splits import Split
from skgp.fitting.table import Scale

_CELLS: Final = 2**18  # rows times draws times nodes, each of which takes some numbers per column
_START_DECIMALS: Final = 9  # of where latent inputs of unit variance start
_ROWS: Final = 1024  # whose inputs are looked for at a time, at most


class Embedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Abstract base of the transformers whose embedding is a posterior of latent inputs."""

    # Parameters that every family stores in its constructor.
    n_components: int
    n_importance: int
    n_samples: int
    normalize_X: bool

    _rows: Array

    # ------------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model and the posterior of each row's latent inputs.

        Parameters
        ----------
        X : array-like of shape (n, P)
            Data in any units. NaN marks a missing entry, which is skipped.
        y : None
            Ignored.

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
            rows = working._rows_of_table(X)
            rng = check_random_state(working.random_state)
            remembered = {"_rows": rows.y, "_output_shape": rows.y.shape[1:]}
            report += working._train(X, y, Split(rows), rng, working._targets(), remembered)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit the model; the posterior means of the rows' latent inputs.

        Parameters
        ----------
        X : array-like of shape (n, P)
        y : None
            Ignored.

        Returns
        -------
        array of shape (n, n_components)
        """
        return self.fit(X).embedding_

    # ------------------------------------------------- from data to inputs

    def transform(self, X: Any) -> Array:
        """Posterior means of the latent inputs of rows.

        Parameters
        ----------
        X : array-like of shape (n, P)
            NaN marks a missing entry.

        Returns
        -------
        array of shape (n, n_components)
            The means of `transform_dist`.
        """
        return self._snapshot()._latent_inputs(X)[1].mean.cpu().numpy()

    def transform_dist(self, X: Any) -> NormalMixture:
        """Posterior of the latent inputs of rows: a normal with independent entries.

        That of a row maximises its evidence lower bound with everything else fixed, from where the
        training row nearest to it is, over the entries that both have. A training row has the
        posterior that the fit gave it.

        Parameters
        ----------
        X : array-like of shape (n, P)
            NaN marks a missing entry.

        Returns
        -------
        NormalMixture with n rows
            One component, of n_components outputs.
        """
        return _normal(self._snapshot()._latent_inputs(X)[1])

    def score_samples(self, X: Any) -> Array:
        """Estimate of the log density of rows, in nats and in the units of X.

        log 1/K sum_k p(y | x_k) p(x_k) / q(x_k), with K = `n_importance` draws x_k from the row's
        own posterior q (see `transform_dist`) and p(y | x) the density of `predict_dist`, of the
        observed entries. The mean is unbiased for the density of the row; its logarithm is too
        low on average, the less so the larger K is and the closer q is to the exact posterior.

        Parameters
        ----------
        X : array-like of shape (n, P)
            NaN marks a missing entry.

        Returns
        -------
        array of shape (n,)
        """
        fitted = self._snapshot()
        Y, local = fitted._latent_inputs(X)
        inversion = _inversion(fitted.model_)
        n_latents = fitted.stack_.readout.units.n_latents  # numbers per column, draw and node
        n_nodes = len(fitted.model_.log_weights)
        size = max(1, _CELLS // (fitted.n_importance * n_nodes * n_latents))
        densities = -(~np.isnan(Y) @ np.log(fitted.model_.y_scale.unit))
        for rows, local_of_chunk, targets in _parts(fitted.model_, Y, local, size):
            log_density = inversion.log_density(local_of_chunk, targets, fitted.n_importance)
            densities[rows] += log_density.cpu().numpy()
        return densities

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n, P)
        y : None
            Ignored.
        """
        return float(self.score_samples(X).mean())

    # ------------------------------------------------- from inputs to data

    def predict_dist(self, Z: Any) -> NormalMixture:
        """Predictive distribution of a row of X at latent inputs, noise included.

        Parameters
        ----------
        Z : array-like of shape (m, n_components)

        Returns
        -------
        NormalMixture with m rows
            Joint over the columns of X, in their units.
        """
        fitted = self._snapshot()
        chunks = fitted._predictive(Z)
        dist = NormalMixture.gather(chunks.parts, chunks.n_rows)
        return dist.with_output_names(getattr(fitted, "feature_names_in_", None))

    def inverse_transform(self, Z: Any) -> Array:
        """Mean of `predict_dist`.

        Parameters
        ----------
        Z : array-like of shape (m, n_components)

        Returns
        -------
        array of shape (m, P)
        """
        (mean,) = self._snapshot()._predictive(Z).gather(lambda dist: (dist.mean(),))
        return mean

    # --------------------------------------------------- fitted attributes

    @property
    def embedding_(self) -> Array:
        """Posterior means of the training rows' latent inputs, (n, n_components)."""
        return self._training_posterior().mean.cpu().numpy().copy()

    @property
    def embedding_std_(self) -> Array:
        """Posterior standard deviations of the same."""
        return self._training_posterior().log_std.exp().cpu().numpy()

    noise_variance_ = property(_attributes.noise_variance)
    lengthscales_ = property(_attributes.lengthscales)
    inducing_points_ = property(_attributes.inducing_points)
    stack_ = property(_attributes.stack)

    # ------------------------------------------------------------- helpers

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self._trained().mean.shape[1]

    def _targets(self) -> TargetSpec:
        # Inputs are not scaled: their prior is N(0, I).
        return TargetSpec((False, self.normalize_X), ("X", "normalize_X"), observed)

    def _predictive(self, Z: Any) -> Chunks[NormalMixture]:
        """Predictive distributions of a snapshot of chunks of latent inputs."""
        model = self.model_
        return normal_mixtures(model, self._inputs(Z), model.predictor(), self._output_shape)

    def _training_posterior(self) -> RowMoments:
        """Of each row: equal rows were trained one by one, and all have that of the first."""
        fitted = self._snapshot()
        first = _find_equal(fitted._rows, fitted._rows)
        return RowMoments(*(moment[first] for moment in fitted._trained()))

    def _trained(self) -> RowMoments:
        """The posterior of each training row, as it was trained."""
        inputs = self._snapshot().model_.inputs
        assert inputs is not None
        return RowMoments(*(m.detach() for m in inputs.posterior.of_rows(slice(None))))

    def _rows_of_table(self, X: Any) -> Rows:
        """Outputs are the table, inputs where the means of the latent inputs start."""
        Y = self._table_rows(X, reset=True)
        check_observed(Y, "X")
        check_magnitude(Y, "X")
        scaled = Scale(Y, None, self.normalize_X).apply(Y)
        start = np.zeros((len(Y), self.n_components))
        seen = ~np.isnan(Y).all(axis=1)  # the mean of the others is that of the prior
        of_seen = torch.from_numpy(scaled[seen]).nan_to_num()
        # Rounded: the keys of rows hash these numbers, whose last digits depend on the row order.
        start[seen] = principal_scores(of_seen, self.n_components).numpy().round(_START_DECIMALS)
        return Rows(start, Y, None)

    def _table_rows(self, X: Any, *, reset: bool) -> Array:
        # A copy, because the training rows are kept.
        finite: Any = "allow-nan"
        refuse_sparse(X, "X")
        refuse_times(X, "X")
        X = unmasked(X, "X", fill=True)
        with reading("X", X):
            checked = validate_data(
                self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite, copy=True
            )
        return np.asarray(checked)

    def _inputs(self, X: Any) -> Array:
        """Validated latent inputs of a prediction."""
        refuse_sparse(X, "Z")
        refuse_times(X, "Z")
        with reading("Z"):
            Z = np.asarray(check_array(unmasked(X, "Z"), dtype=np.float64, input_name="Z"))
        n_inputs = self._n_features_out
        if Z.shape[1] != n_inputs:
            raise ValueError(
                f"Z has {Z.shape[1]} columns, but there are n_components={n_inputs} latent inputs: "
                "pass what transform returns"
            )
        return Z

    def _latent_inputs(self, X: Any) -> tuple[Array, RowMoments]:
        """Validated rows (n, P), and the posteriors of their latent inputs."""
        trained = self._training_posterior()
        Y = self._table_rows(X, reset=False)
        number = _find_equal(Y, self._rows)
        is_new = number >= len(self._rows)
        if not is_new.any():
            return Y, RowMoments(*(moment[number] for moment in trained))
        apply = self.model_.y_scale.apply
        number[is_new] = _find_nearest(apply(Y[is_new]), apply(self._rows))
        local = RowMoments(*(moment[number] for moment in trained))
        new = torch.from_numpy(is_new)
        found = self._find(Y[is_new], RowMoments(*(moment[new] for moment in local)))
        for moment, of_new in zip(local, found, strict=True):
            moment[new] = of_new
        return Y, local

    @recorded_gradients()
    def _find(self, Y: Array, start: RowMoments) -> RowMoments:
        """Posteriors of rows (n, P) that start at others."""
        found = RowMoments(*(moment.clone() for moment in start))
        model = copy.deepcopy(self.model_).requires_grad_(False).train()
        inversion = _inversion(model)
        size = max(1, min(_ROWS, _CELLS // (N_COMPARED * self.n_samples)))
        for rows, start_of_chunk, targets in _parts(model, Y, start, size):
            of_chunk = inversion.posterior(start_of_chunk, targets)
            for moment, part in zip(found, of_chunk, strict=True):
                moment[rows] = part
        return found


def _inversion(model: Model) -> Inversion:
    """What finds the inputs of further rows."""
    return Inversion(ELBO, model.stack, model.likelihood, model.nodes)


def _parts(
    model: Model, Y: Array, local: RowMoments, size: int
) -> Iterator[tuple[slice, RowMoments, Targets]]:
    """Rows, moments and scaled targets, some at a time."""
    for first in range(0, len(Y), size):
        rows = slice(first, first + size)
        y = torch.from_numpy(model.y_scale.apply(Y[rows])).to(local.mean)
        targets = Targets(y.nan_to_num(), (~y.isnan()).to(y))
        yield rows, RowMoments(*(moment[rows] for moment in local)), targets


def _find_equal(X: Array, among: Array) -> Array:
    """For each row of X the number of the first equal one, or a larger number than there are."""
    rows = np.nan_to_num(np.concatenate([among, X]), nan=np.inf)
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[inverse.ravel()[len(among) :]])  # NumPy 2.0 has an axis more


def _find_nearest(X: Array, among: Array) -> Array:
    """For each row of X the number of the nearest one, over the entries that both have."""
    if not np.isnan(X).any() and not np.isnan(among).any():
        return np.asarray(pairwise_distances_argmin(X, among))

    def closest(distances: Array, start: int) -> Array:
        # Rows without a common entry have no distance.
        return np.asarray(np.nan_to_num(distances, nan=np.inf).argmin(1))

    chunks = pairwise_distances_chunked(X, among, reduce_func=closest, metric="nan_euclidean")
    return np.concatenate(list(chunks))


def _normal(local: RowMoments) -> NormalMixture:
    mean, std = (moment.unsqueeze(1).cpu().numpy() for moment in (local.mean, local.log_std.exp()))
    return NormalMixture(np.zeros(1), mean, std, None)
