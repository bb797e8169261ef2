"""Calibration of probabilities of classes, against loops over bins and scikit-learn's curve."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from skgp.scoring import expected_calibration_error, neg_expected_calibration_error_scorer


def table(n_classes: int = 3, n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels "a", "b", ... drawn from probabilities that are then sharpened."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), n)
    codes = [rng.choice(n_classes, p=row) for row in p]
    sharp = p**2 / (p**2).sum(1, keepdims=True)
    return np.array([*"abcde"])[codes], sharp


def naive(p: np.ndarray, hit: np.ndarray, weight: np.ndarray, edges: np.ndarray) -> float:
    """Bin by bin, (lower, upper]; the first bin holds what is below it too."""
    total = 0.0
    for b in range(len(edges) - 1):
        inside = [
            i
            for i in range(len(p))
            if (p[i] > edges[b] or b == 0) and (p[i] <= edges[b + 1] or b == len(edges) - 2)
        ]
        if inside:
            w = weight[inside]
            gap = np.average(hit[inside], weights=w) - np.average(p[inside], weights=w)
            total += w.sum() / weight.sum() * abs(gap)
    return total


@pytest.mark.parametrize("kind", ["top-label", "class-wise"])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_classes", "n_bins"), [(2, 10), (4, 7), (3, 1)])
def test_against_a_loop(
    kind: str, strategy: str, weighted: bool, n_classes: int, n_bins: int
) -> None:
    y, p = table(n_classes)
    weight = np.random.default_rng(1).uniform(0.0, 3.0, len(y)) if weighted else np.ones(len(y))
    labels = np.array([*"abcde"])[:n_classes]
    if kind == "top-label":
        columns = [(p.max(1), y == labels[p.argmax(1)])]
    else:
        columns = [(p[:, c], y == label) for c, label in enumerate(labels)]
    levels = np.linspace(0.0, 1.0, n_bins + 1)
    errors = [
        naive(q, hit, weight, levels if strategy == "uniform" else np.quantile(q, levels))
        for q, hit in columns
    ]
    value = expected_calibration_error(
        y, p, sample_weight=weight if weighted else None, n_bins=n_bins, strategy=strategy,
        kind=kind,
    )  # fmt: skip
    np.testing.assert_allclose(value, np.mean(errors), rtol=1e-12)


def test_two_classes_against_the_calibration_curve() -> None:
    """Class-wise, both classes have the same bins seen from two sides."""
    y, p = table(2, n=150)
    shares, means = calibration_curve(y == "b", p[:, 1], n_bins=6)
    counts = np.bincount(np.minimum(np.ceil(p[:, 1] * 6) - 1, 5).astype(int), minlength=6)
    expected = (counts[counts > 0] / 150) @ np.abs(shares - means)
    value = expected_calibration_error(y, p, n_bins=6, kind="class-wise")
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(
        expected_calibration_error(y, p[:, 1], n_bins=6, kind="class-wise"), value, rtol=1e-12
    )


def test_repeated_rows_are_weights_and_calibrated_rows_have_no_error() -> None:
    y, p = table()
    times = np.random.default_rng(2).integers(0, 4, len(y))
    repeated = expected_calibration_error(y.repeat(times), p.repeat(times, 0))
    weighted = expected_calibration_error(y, p, sample_weight=times)
    np.testing.assert_allclose(repeated, weighted, rtol=1e-12)
    ten = np.array(["a"] * 7 + ["b"] * 3)
    assert expected_calibration_error(ten, np.tile([0.7, 0.3], (10, 1))) < 1e-15
    wrong = expected_calibration_error(ten, np.tile([0.0, 1.0], (10, 1)))
    np.testing.assert_allclose(wrong, 0.7)


def test_a_class_may_be_missing_if_labels_are_given() -> None:
    y, p = table(3)
    some = y != "b"
    value = expected_calibration_error(y[some], p[some], labels=["a", "b", "c"])
    assert 0.0 < value < 1.0
    with pytest.raises(ValueError, match="3 columns for 2 classes: pass labels"):
        expected_calibration_error(y[some], p[some])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_bins": 0}, "n_bins"),
        ({"strategy": "equal"}, "strategy"),
        ({"kind": "all"}, "kind"),
        ({"y_proba": [[0.9, 0.3]] * 4}, "sum to one"),
        ({"y_proba": [[1.5, -0.5]] * 4}, "at least zero"),
        ({"y_proba": [[0.5, np.nan]] * 4}, "NaN"),
        ({"y_true": [0, 1]}, "inconsistent"),
        ({"labels": [0, 2]}, r"\[1\], which are not among labels"),
        ({"sample_weight": [0.0] * 4}, "zero for every row"),
        ({"sample_weight": [1.0, 1.0, 1.0, -1.0]}, "egative"),
    ],
)
def test_invalid_arguments(changes: dict, message: str) -> None:
    arguments = {"y_true": [0, 1, 0, 1], "y_proba": [[0.5, 0.5]] * 4} | changes
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(**arguments)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scorer_is_the_function_with_a_sign(n_classes: int) -> None:
    y, p = table(n_classes)
    model = LogisticRegression().fit(p, y)
    weight = np.linspace(0.0, 1.0, len(y))
    value = neg_expected_calibration_error_scorer(model, p, y, sample_weight=weight)
    expected = expected_calibration_error(y, model.predict_proba(p), sample_weight=weight)
    np.testing.assert_allclose(value, -expected, rtol=1e-12)
    scores = cross_val_score(model, p, y, scoring=neg_expected_calibration_error_scorer, cv=3)
    assert np.all((scores < 0.0) & (scores > -1.0))


def test_a_probability_on_an_edge_belongs_to_the_bin_below() -> None:
    value = expected_calibration_error([1, 1], [[0.5, 0.5], [0.2, 0.8]], n_bins=2, labels=[0, 1])
    np.testing.assert_allclose(value, (abs(0.0 - 0.5) + abs(1.0 - 0.8)) / 2)


def test_labels_go_with_the_columns_in_the_order_given() -> None:
    p = [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.2, 0.6, 0.2]]
    desired = expected_calibration_error([0, 2, 1], p, n_bins=3)
    named = expected_calibration_error(
        ["low", "high", "mid"], p, n_bins=3, labels=["low", "mid", "high"]
    )
    assert named == pytest.approx(desired)
