"""A prediction is that of one fit, though another one ends in a thread meanwhile."""

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skgp import IWDGPRegressor, MOGPEmbedding, SVGPRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
FRAME = pd.DataFrame(X, columns=["a", "b"])
Y = pd.DataFrame({"sine": np.sin(X[:, 0]), "cosine": np.cos(X[:, 1])})


def overtaken(estimator: Any, *tables: Any, after: Any) -> tuple[Any, Any]:
    """A fitted estimator, and one like it that becomes another once a prediction has begun."""
    fitted = estimator.fit(*tables)
    other = copy.deepcopy(estimator).fit(*after)

    class Overtaken(type(estimator)):  # type: ignore[misc]
        def _snapshot(self) -> Any:
            now = super()._snapshot()
            if self is live:
                vars(self).update(vars(other))
            return now

    live = copy.copy(fitted)
    live.__class__ = Overtaken
    return fitted, live


SVGP = SVGPRegressor(n_inducing=8, max_iter=2, random_state=0)
IWDGP = IWDGPRegressor(n_inducing=8, max_iter=2, random_state=0)
EMBEDDING = MOGPEmbedding(n_inducing=8, max_iter=2, random_state=0)
CALLS = {
    "cov": (SVGP, lambda model: model.predict(X[:3], return_cov=True)[1]),
    "mean beside cov": (SVGP, lambda model: model.predict(X[:3], return_cov=True)[0]),
    "score": (SVGP, lambda model: model.score(X, Y)),
    "draws": (SVGP, lambda model: model.sample_y(X[:3])),
    "names": (SVGP, lambda model: model.predict_dist(X[:3]).output_names),
    "names of draws": (
        IWDGP,
        lambda model: model.predict_dist(X[:3], method="kde").output_names,
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_a_prediction_reads_is_of_one_fit(call: str) -> None:
    estimator, number = CALLS[call]
    others = 3.0 * Y.rename(columns=str.upper) + 1.0
    fitted, live = overtaken(estimator, X, Y, after=(X, others))
    known = number(fitted)
    np.testing.assert_array_equal(number(live), known)
    assert not np.array_equal(number(live), known)  # by now it is the other


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_names_of_the_columns_of_an_embedding() -> None:
    after = FRAME.rename(columns=str.upper)
    fitted, live = overtaken(EMBEDDING, FRAME, after=(after,))
    latent = np.zeros((2, fitted.embedding_.shape[1]))
    assert live.predict_dist(latent).output_names == ("a", "b")
