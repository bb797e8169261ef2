"""Long tables whose rows come in some order give what they give shuffled.

Without `short_start`: it is the rows of the start that an order can mislead.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st
from profiles import profile, search
from strategies import CASES, Array, is_classifier, is_embedding

N = 3500  # more rows than a start looks at
NOISE = 0.1  # in nats, of scores of such small models that differ in their batches


@dataclass(frozen=True)
class SortedTable:
    """A table whose noise and signal begin beyond some value of one input.

    Attributes
    ----------
    case : str
    key : str
        What the rows are sorted by.
    reverse : bool
    quiet : float
        Share of the rows without signal.
    seed : int
    """

    case: str
    key: str = "input"
    reverse: bool = False
    quiet: float = 0.6
    seed: int = 0

    def rows(self) -> tuple[Array, Array]:
        rng = np.random.default_rng(self.seed)
        X = rng.uniform(0.0, 1.0, (N + 1000, 2))
        active = X[:, 0] > self.quiet
        f = np.where(active, np.sin(12.0 * X[:, 0]) + X[:, 1], 0.0)
        y = f + np.where(active, 0.3, 0.02) * rng.normal(size=len(X))
        return X, np.digitize(y, [-0.1, 0.1]) if is_classifier(self.case) else y

    def order(self, X: Array, y: Array) -> Array:
        """Numbers of the training rows."""
        values = {"input": X[:N, 0], "other input": X[:N, 1], "target": y[:N]}[self.key]
        order = np.argsort(values, kind="stable")
        return order[::-1] if self.reverse else order


def sorted_tables(name: str) -> st.SearchStrategy[SortedTable]:
    return st.builds(
        SortedTable,
        st.just(name),
        st.sampled_from(["input", "target", "other input"]),
        st.booleans(),
        st.sampled_from([0.6, 0.3, 0.9]),
        st.integers(0, 2**16),
    )


# tests/contract/test_row_order.py has one of each class.
NAMES = ["svgp-full", "dspp-qr3", "svgp-classifier"]
if not profile().is_quick:
    NAMES += ["ppgpr-decoupled", "mogp", "fitc", "dspp-classifier", "mogp-embedding"]


@pytest.mark.parametrize("name", NAMES)
def test_sorted_rows_score_like_shuffled_ones(name: str) -> None:
    search(check_that_order_does_not_matter, sorted_tables(name), quick=1, name=name)


def check_that_order_does_not_matter(table: SortedTable) -> None:
    X, y = table.rows()
    shuffled = np.random.default_rng(table.seed).permutation(N)
    scores = [score(table, X, y, order) for order in (table.order(X, y), shuffled)]
    assert abs(scores[0] - scores[1]) < NOISE, scores


def score(table: SortedTable, X: Array, y: Array, order: Array) -> float:
    """Mean log density, or log probability, of new rows after a short fit."""
    case = CASES[table.case]
    model = case.make(**case.known({"max_iter": 3, "batch_size": 500, "n_inducing": 10}))
    if is_embedding(table.case):
        rows = np.column_stack([X, y])
        return float(model.fit(rows[order]).score_samples(rows[N : N + 50]).mean())
    model.fit(X[order], y[order])
    if is_classifier(table.case):
        return float(model.predict_log_proba(X[N:])[np.arange(len(X) - N), y[N:]].mean())
    return float(model.predict_dist(X[N:]).logpdf(y[N:]).mean())
