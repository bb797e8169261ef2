"""The ranked probability score against its definitions elsewhere."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import cross_val_score

from skgp.distributions import Categorical
from skgp.scoring import neg_rps_scorer, rps


def make(rng: np.random.Generator, n: int = 40, n_classes: int = 4) -> tuple:
    p = rng.dirichlet(np.ones(n_classes), n)
    return np.array(list("abcd"))[rng.integers(n_classes, size=n)], p


def test_it_is_the_crps_of_the_number_of_the_class(rng: np.random.Generator) -> None:
    """E|X - y| - E|X - X'| / 2 by sums over pairs of classes."""
    y, p = make(rng)
    number = np.arange(4.0)
    apart = abs(number[:, None] - number)
    codes = np.searchsorted(list("abcd"), y)
    desired = [
        row @ apart[code] - 0.5 * row @ apart @ row for row, code in zip(p, codes, strict=True)
    ]
    assert rps(y, p) == pytest.approx(np.mean(desired))
    weight = rng.uniform(size=len(y))
    assert rps(y, p, sample_weight=weight) == pytest.approx(np.average(desired, weights=weight))
    some = codes < 2
    with pytest.raises(ValueError, match="pass labels"):
        rps(y[some], p[some])
    value = rps(y[some], p[some], labels=list("abcd"))
    assert value == pytest.approx(np.mean(np.array(desired)[some]))


def test_of_two_classes_it_is_the_brier_score(rng: np.random.Generator) -> None:
    y, p = rng.integers(2, size=30), rng.uniform(size=30)
    assert rps(y, p) == pytest.approx(brier_score_loss(y, p))


def test_it_is_proper_and_knows_the_order() -> None:
    true = np.array([0.1, 0.2, 0.4, 0.3])
    y = np.repeat(np.arange(4), (1000 * true).astype(int))

    def expected(p: np.ndarray) -> float:
        return rps(y, np.tile(p, (len(y), 1)))

    best = expected(true)
    for _, other in pairwise([true, true[::-1], [0.25] * 4, [0.1, 0.2, 0.5, 0.2]]):
        assert expected(np.array(other)) > best + 1e-3
    near, far = (
        rps([2], [[0.0, 0.5, 0.5, 0.0]], labels=range(4)),
        rps([2], [[0.5, 0.0, 0.5, 0.0]], labels=range(4)),
    )
    assert near < far


def test_scorer(rng: np.random.Generator) -> None:
    X = rng.standard_normal((60, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(60), [-0.5, 0.5])
    scores = cross_val_score(LogisticRegression(), X, y, cv=3, scoring=neg_rps_scorer)
    assert (scores < 0.0).all()
    assert (scores > -0.4).all()


NAMES = ["low", "mid", "high"]
P = [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.2, 0.6, 0.2]]


def test_labels_go_with_the_columns_in_the_order_given() -> None:
    """Not in that of sorting, which is high, low, mid."""
    right = rps([0, 2, 1], P)
    assert rps(["low", "high", "mid"], P, labels=NAMES) == pytest.approx(right)
    dist = Categorical(P, classes=NAMES)
    assert rps(["low", "high", "mid"], dist) == pytest.approx(right)
    assert rps(["2"], [[0.9, 0.1, 0.0]], labels=["1", "2", "10"]) == pytest.approx(0.81)
    with pytest.raises(ValueError, match=r"labels must be different, got \['a', 'a', 'b'\]"):
        rps(["a"], P[:1], labels=["a", "a", "b"])


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_ordered_categories_have_the_order_of_the_columns(package: str) -> None:
    frames = pytest.importorskip(package)
    labels = ["low", "high", "mid"]
    if package == "pandas":
        y = frames.Categorical(labels, categories=NAMES, ordered=True)
        unordered = frames.Categorical(labels)
    else:
        y = frames.Series(labels, dtype=frames.Enum(NAMES))
        unordered = frames.Series(labels)
    assert rps(y, P, labels=NAMES) == pytest.approx(rps([0, 2, 1], P))
    assert rps(unordered, P) == pytest.approx(rps([1, 0, 2], P))
    with pytest.raises(ValueError, match=r"low < mid < high, and the columns of y_proba another"):
        rps(y, P)  # whose columns are then high, low, mid


def test_masks_are_no_decoration() -> None:
    masked = np.ma.masked_array([0, 2, 1], [False, True, False])
    with pytest.raises(ValueError, match="y_true is a masked array with 1 masked entries"):
        rps(masked, P)
    with pytest.raises(ValueError, match="y_proba contains NaN"):
        rps([0, 2, 1], np.ma.masked_array(P, np.eye(3, dtype=bool)))
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        rps([0, 2, 1], P, sample_weight=np.ma.masked_array(np.ones(3), [1, 0, 0]))
    assert rps(masked[[0, 2]], P[::2], labels=[0, 1, 2]) == rps([0, 1], P[::2], labels=[0, 1, 2])
