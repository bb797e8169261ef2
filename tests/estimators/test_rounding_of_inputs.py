"""What changes inputs or weights by rounding errors alone changes predictions by as little."""

from typing import Any

import numpy as np
import pytest

from skgp import DGPRegressor, DSPPClassifier, DSPPRegressor, PPGPRRegressor, SVGPRegressor

pytestmark = pytest.mark.usefixtures("short_start")

N = 120
MODELS = [
    SVGPRegressor(n_inducing=64, max_iter=5, random_state=0),
    PPGPRRegressor(n_inducing=64, max_iter=5, early_stopping=False, random_state=0),
    DSPPRegressor(n_inducing=64, max_iter=5, early_stopping=False, random_state=0),
    DGPRegressor(n_inducing=64, max_iter=5, early_stopping=False, random_state=0),
    DSPPClassifier(n_inducing=64, max_iter=5, early_stopping=False, random_state=0),
]


def numbers(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict_proba(X) if isinstance(model, DSPPClassifier) else model.predict(X)


@pytest.mark.parametrize("change", ["order", "units", "weights"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_centres_of_half_of_the_rows(model: Any, change: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N, 2))
    y = np.sin(6.0 * X[:, 0]) + 0.2 * rng.normal(size=N)
    if isinstance(model, DSPPClassifier):
        y = np.where(y > 0.0, "high", "low")
    known = numbers(model.fit(X, y), X)
    if change == "order":
        order = rng.permutation(N)
        found = numbers(model.fit(X[order], y[order]), X)
    elif change == "units":
        found = numbers(model.fit(3.7 * X - 1.1, y), 3.7 * X - 1.1)
    else:
        found = numbers(model.fit(X, y, sample_weight=np.ones(N)), X)
    np.testing.assert_allclose(found, known, atol=1e-5)
