"""One batch of rows in another order gives the same model, but for rounding."""

from typing import Any

import numpy as np
import pytest
from contract_cases import (
    CLASSIFIERS,
    EMBEDDINGS,
    MINIBATCH_REGRESSORS,
    ONE_PER_CLASS,
    Case,
    make_labels,
)
from sklearn.preprocessing import scale

pytestmark = pytest.mark.usefixtures("short_start")
CASES = (*MINIBATCH_REGRESSORS, *EMBEDDINGS, *CLASSIFIERS)
QUICK = (*(case for case in MINIBATCH_REGRESSORS if case in ONE_PER_CLASS), *EMBEDDINGS)
N = 40


def rows(case: Case) -> tuple[np.ndarray, ...]:
    """Two inputs and two outputs: of either, principal axes tie in size of their entries."""
    if case in CLASSIFIERS:
        labels = make_labels(N)
        return labels.X[:, :2], labels.y
    rng = np.random.default_rng(0)
    X = scale(rng.normal(size=(N, 2)))
    Y = scale(np.column_stack([np.sin(X[:, 0]), X[:, 1]]) + 0.2 * rng.normal(size=(N, 2)))
    return (np.hstack([X, Y]),) if case in EMBEDDINGS else (X, Y)


def numbers(model: Any, X: np.ndarray) -> np.ndarray:
    if hasattr(model, "embedding_"):
        return np.hstack([model.embedding_, model.embedding_std_])
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


def test_the_order_of_one_batch_makes_no_difference(case: Case) -> None:
    tables = rows(case)
    params = case.known({"max_iter": 5, "early_stopping": False, "dtype": "float64"})
    known = numbers(case.make(**params).fit(*tables), tables[0])
    order = np.random.default_rng(1).permutation(N)
    again = case.make(**params).fit(*(table[order] for table in tables))
    X = tables[0]
    found = numbers(again, X) if case not in EMBEDDINGS else numbers(again, X)[np.argsort(order)]
    np.testing.assert_allclose(found, known, atol=1e-6)
