"""Regressors that are trained by minibatches and take streams of chunks."""

from typing import Any, ClassVar, Self

from skgp.estimators._minibatch import MinibatchEstimator
from skgp.estimators._trained_regressor import TrainedRegressor


class MinibatchRegressor(MinibatchEstimator, TrainedRegressor):
    """Abstract base of the regressors whose loss is a mean over the rows of a batch."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MinibatchEstimator._parameter_constraints,
        **TrainedRegressor._parameter_constraints,
    }

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
        arguments = {"X": X, "y": y, "sample_weight": sample_weight}
        return self._become(lambda working: working._fit_chunk(arguments, n_total))
