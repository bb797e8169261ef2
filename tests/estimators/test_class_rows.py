"""Rows of classifiers: repeated ones, and those that early stopping holds out."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skgp import DGPClassifier, DSPPClassifier, PPGPRClassifier, SVGPClassifier, SVGPRegressor
from skgp.compose import CrossFittedClassifier
from skgp.fitting.rows import Rows
from skgp.fitting.splits import split_by_class

SMALL = {"n_inducing": 10, "max_iter": 10, "random_state": 0, "dtype": "float64"}


def table(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (X.sum(1) > 0).astype(int) + (X[:, 0] > 1.0)


def test_merged_rows_against_a_dictionary() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (60, 2)).astype(float), rng.integers(0, 2, 60).astype(float)
    for weight in (None, rng.uniform(0.5, 2.0, 60)):
        sums: dict[tuple[float, ...], float] = {}
        for i in range(60):
            key = (*X[i], y[i])
            sums[key] = sums.get(key, 0.0) + (1.0 if weight is None else weight[i])
        rows = Rows(X, y, weight).merged()
        keys = sorted(sums)
        np.testing.assert_array_equal(np.column_stack([rows.X, rows.y]), keys)
        np.testing.assert_allclose(rows.weight, [sums[key] for key in keys], rtol=1e-12)
    distinct = Rows(X[:1], y[:1], None).merged()
    assert distinct.weight is None


@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_repeated_rows_in_any_order_are_weights_though_rows_are_drawn(likelihood: str) -> None:
    X, y = table()
    times = np.random.default_rng(1).integers(0, 4, len(y))
    order = np.random.default_rng(2).permutation(times.sum())
    model = DGPClassifier(n_samples=2, likelihood=likelihood, **SMALL)
    p = model.fit(X, y, sample_weight=times).predict_proba(X)
    assert model.n_samples_seen_ == times.sum()
    repeated = X.repeat(times, 0)[order], y.repeat(times)[order]
    np.testing.assert_allclose(model.fit(*repeated).predict_proba(X), p, rtol=1e-7)
    assert model.n_samples_seen_ == times.sum()


@pytest.mark.parametrize("likelihood", ["probit", "softmax", "ordinal"])
def test_rare_classes_start_with_their_share_where_rows_repeat(likelihood: str) -> None:
    y = np.repeat([0, 1, 2], [990, 0, 10] if likelihood == "probit" else [975, 15, 10])
    share = np.unique(y, return_counts=True)[1] / len(y)
    model = SVGPClassifier(likelihood=likelihood, random_state=0).fit(np.zeros((len(y), 1)), y)
    np.testing.assert_allclose(model.predict_proba([[0.0]])[0], share, rtol=0.2)


def test_rows_of_one_batch_draw_for_themselves() -> None:
    """Not so few draws that the fit depends on which they are: another seed of them is alike."""
    X, y = table(100)
    fits = []
    for seed in (0, 1):
        params = SMALL | {"max_iter": 80, "random_state": seed}
        fits.append(DGPClassifier(**params).fit(X, y).predict_proba(X))
    assert np.abs(fits[0] - fits[1]).mean() < 0.05


def test_in_batches_rows_stay_as_they_are() -> None:
    X, y = table()
    X, y = np.concatenate([X, X]), np.concatenate([y, y])
    steps = []
    for batch_size in (20, 200):
        model = SVGPClassifier(batch_size=batch_size, **SMALL)
        rows = model._condensed(Rows(X, y, None))
        steps.append(len(rows.X))
    assert steps == [80, 40]


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.5])
def test_classes_keep_their_shares_in_both_parts(fraction: float) -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0.0, 1.0, 2.0, 3.0], [200, 60, 11, 1]))
    rows = Rows(np.arange(272.0)[:, None], y, np.arange(272.0))
    for seed in range(5):
        training, held_out = split_by_class(rows, fraction, np.random.RandomState(seed))
        ids = np.concatenate([training.X[:, 0], held_out.X[:, 0]])
        np.testing.assert_array_equal(np.sort(ids), np.arange(272))
        np.testing.assert_array_equal(training.weight, training.X[:, 0])
        np.testing.assert_array_equal(held_out.y, y[held_out.X[:, 0].astype(int)])
        assert len(held_out.y) == np.ceil(fraction * 272)
        counts = np.bincount(held_out.y.astype(int), minlength=4)
        assert np.all(np.abs(counts[:3] - fraction * np.array([200, 60, 11])) <= 2.0)
        assert counts[3] == 0
    other = split_by_class(rows, fraction, np.random.RandomState(99))[1]
    assert set(other.X[:, 0]) != set(held_out.X[:, 0])


def test_every_row_but_the_last_of_its_class_may_be_held_out() -> None:
    rows = Rows(np.arange(20.0)[:, None], np.repeat([0.0, 1.0], [15, 5]), None)
    times = np.zeros(20)
    for seed in range(300):
        held_out = split_by_class(rows, 0.25, np.random.RandomState(seed))[1]
        times[held_out.X[:, 0].astype(int)] += 1
    # a row is held out with probability 5 / 18 * 14 / 15 or 5 / 18 * 4 / 5
    expected = 300 * 5 / 18 * np.repeat([14 / 15, 4 / 5], [15, 5])
    assert np.all(np.abs(times - expected) < 4.5 * np.sqrt(expected))


def test_early_stopping_keeps_a_class_of_one_row_for_training() -> None:
    X, y = table()
    y[5] = 7
    model = SVGPClassifier(early_stopping=True, validation_fraction=0.4, **SMALL).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 7])
    with pytest.raises(ValueError, match=r"validation_fraction=0.95.*some class"):
        SVGPClassifier(early_stopping=True, validation_fraction=0.95, **SMALL).fit(X, y)


@pytest.mark.parametrize("cls", [DSPPClassifier, PPGPRClassifier])
def test_rows_that_are_held_out_decide_when_training_stops(
    cls: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though without them the others are one batch, in which equal rows are one."""
    rng = np.random.default_rng(0)
    X = rng.permutation(np.indices((4, 4)).reshape(2, -1).T.repeat(7, 0))[:105].astype(float)
    y = rng.random(105) < 0.1 + 0.2 * X[:, 0]
    counts = []
    searched = "skgp.estimators._estimator.found_plan"
    monkeypatch.setattr(searched, lambda *_: pytest.fail("a search has nothing to find"))
    make = cls._recipe

    def spied(self: Any) -> Any:
        made = make(self)

        def plan(n: int) -> Any:
            counts.append(n)
            return made.plan(n)

        return dataclasses.replace(made, plan=plan)

    monkeypatch.setattr(cls, "_recipe", spied)
    model = cls(n_inducing=10, batch_size=65, max_iter=10, random_state=0).fit(X, y)
    assert set(counts) == {105}
    assert len(model.validation_scores_) == model.n_iter_
    assert model.n_samples_seen_ == 94


def test_balanced_classes_count_the_weights_of_their_rows() -> None:
    X, y = table()
    times = np.random.default_rng(1).integers(0, 4, len(y))
    model = SVGPClassifier(class_weight="balanced", **SMALL).fit(X, y, sample_weight=times)
    totals = np.bincount(y, times)
    np.testing.assert_allclose(model.class_weight_, totals.sum() / (3 * totals))


def test_weights_of_classes_and_of_rows_multiply() -> None:
    X, y = table()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    of_classes = {0: 0.5, 1: 2.0, 2: 3.0}
    model = SVGPClassifier(class_weight=of_classes, **SMALL).fit(X, y, sample_weight=weight)
    product = weight * np.array([of_classes[label] for label in y])
    same = SVGPClassifier(**SMALL).fit(X, y, sample_weight=product)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))
    unweighted = SVGPClassifier(class_weight=of_classes, **SMALL).fit(X, y)
    assert np.abs(unweighted.predict_proba(X) - same.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize(
    "weight", [-1.0, 0, np.nan, np.inf, "1", None, 10**400], ids=lambda w: str(w)[:4]
)
@pytest.mark.parametrize(
    "cls",
    [SVGPClassifier, DGPClassifier, PPGPRClassifier, DSPPClassifier],
    ids=lambda c: c.__name__,
)
def test_weights_that_no_class_can_have(cls: type, weight: object) -> None:
    X, y = table()
    labels = np.array(["a", "b", "c"])[y]
    model = cls(class_weight={"a": 1.0, "b": weight, "c": 1.0}, **SMALL)
    for fit in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"class_weight of class 'b' .*drop its rows"):
            fit(X, labels)


def test_classes_without_a_weight_and_weights_without_a_class() -> None:
    """As scikit-learn has it: a label that is missing weighs one, unless another one is unknown."""
    X, y = table()
    model = SVGPClassifier(class_weight={0: 2.0}, **SMALL).fit(X, y)
    np.testing.assert_array_equal(model.class_weight_, [2.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"classes, \[1, 2\], are not in class_weight"):
        SVGPClassifier(class_weight={0: 1.0, 7: 1.0}, **SMALL).fit(X, y)


def test_a_rare_class_is_held_out_as_often_as_its_share_says() -> None:
    """Two free rows of 38, of which four are held out: 0.21 of them on average."""
    rows = Rows(np.arange(40.0)[:, None], np.repeat([0.0, 1.0], [37, 3]), None)
    splits = [split_by_class(rows, 0.1, np.random.RandomState(seed)) for seed in range(300)]
    n_held_out = sum((held_out.y == 1.0).sum() for _, held_out in splits)
    assert abs(n_held_out - 300 * 4 * 2 / 38) < 4.0 * np.sqrt(300 * 0.21 * 0.79)


def test_a_warm_start_weighs_the_classes_of_its_own_rows() -> None:
    X, y = table()
    model = SVGPClassifier(class_weight="balanced", warm_start=True, **SMALL).fit(X, y)
    kept = np.concatenate([np.flatnonzero(y == 0)[:5], np.flatnonzero(y != 0)])
    before = model.class_weight_
    model.fit(X[kept], y[kept])
    counts = np.bincount(y[kept])
    np.testing.assert_allclose(model.class_weight_, counts.sum() / (3 * counts))
    some = np.flatnonzero(y != 2)  # of a class without rows nothing is known
    model.fit(X[some], y[some])
    counts = np.bincount(y[some])
    np.testing.assert_allclose(model.class_weight_[:2], counts.sum() / (2 * counts))
    assert model.class_weight_[2] != before[2]


@pytest.mark.parametrize("missing", [None, pd.NA, np.nan])
def test_labels_that_are_missing_are_counted(missing: Any) -> None:
    y = pd.Series(["a", missing, "b"], dtype="string" if missing is pd.NA else object)
    X = np.arange(3.0)[:, None]
    for model in (SVGPClassifier(), CrossFittedClassifier(SVGPClassifier(), cv=2)):
        with pytest.raises(
            ValueError, match="y has no label, None or NaN, in 1 of 3 rows: drop these rows"
        ):
            model.fit(X, y)
    with pytest.raises(ValueError, match="y_val has no label, None or NaN, in 1 of 3 rows"):
        SVGPClassifier(max_iter=1).fit(X, ["a", "a", "b"], X_val=X, y_val=y)


def test_labels_may_be_booleans_in_an_array_of_objects() -> None:
    X, y = table(30)
    model = SVGPClassifier(**SMALL).fit(X, np.array([bool(label) for label in y > 0], dtype=object))
    assert model.classes_.dtype == bool
    expected = SVGPClassifier(**SMALL).fit(X, y > 0).predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_labels_that_do_not_sort_are_named() -> None:
    X, y = np.arange(4.0)[:, None], np.array(["a", 1, "a", 1], dtype=object)
    with pytest.raises(ValueError, match="y has labels of the types int, str, which do not sort"):
        SVGPClassifier().fit(X, y)


@pytest.mark.parametrize("name", ["X", "y"])
def test_complex_numbers_are_named_in_one_line(name: str) -> None:
    rows = {"X": np.ones((30, 2)), "y": np.ones(30)}
    rows[name] = rows[name] + 1j
    with pytest.raises(ValueError, match=rf"^Complex data not supported: {name} holds .* columns$"):
        SVGPRegressor().fit(**rows)
