"""Classifiers of ordered classes: fits, order, files, and what they refuse."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict, cross_val_score

from skgp import DGPClassifier, DSPPClassifier, PPGPRClassifier, SVGPClassifier
from skgp.distributions import Bernoulli, Categorical
from skgp.files import load, save
from skgp.scoring import neg_rps_scorer, rps

pytestmark = pytest.mark.usefixtures("short_start")

N = 200
CUTS = [-1.2, -0.5, 0.3, 1.0]
FAMILIES: dict[str, Any] = {
    "svgp": lambda **p: SVGPClassifier(n_inducing=20, max_iter=80, random_state=0, **p),
    "ppgpr": lambda **p: PPGPRClassifier(
        n_inducing=20, max_iter=100, early_stopping=False, random_state=0, **p
    ),
    "dgp": lambda **p: DGPClassifier(
        n_inducing=15, max_iter=100, n_samples=3, n_prediction_samples=8, random_state=0, **p
    ),
    "dspp": lambda **p: DSPPClassifier(
        n_inducing=15, max_iter=40, n_sites=4, early_stopping=False, random_state=0, **p
    ),
}


def make_rows() -> tuple[Any, Any]:
    """Five grades of a noisy function."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2 * N, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    return X, 3 + np.searchsorted(CUTS, f + 0.25 * rng.standard_normal(2 * N))


def tiny(**params: Any) -> SVGPClassifier:
    settings = {"n_inducing": 10, "max_iter": 20, "dtype": "float64", "random_state": 0}
    return SVGPClassifier(**{**settings, "likelihood": "ordinal", **params})


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=() if name == "svgp" else pytest.mark.slow) for name in FAMILIES],
)
def test_better_than_classes_without_an_order(family: str, tmp_path: Any) -> None:
    X, y = make_rows()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the loss was still falling")
        model = FAMILIES[family](likelihood="ordinal").fit(X[:N], y[:N])
        other = FAMILIES[family]().fit(X[:N], y[:N])
    X_new, y_new = X[N:], y[N:]
    p = model.predict_proba(X_new)
    assert p.shape == (N, 5)
    np.testing.assert_array_equal(model.classes_, [3, 4, 5, 6, 7])
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
    assert log_loss(y_new, p) < log_loss(y_new, other.predict_proba(X_new))
    assert rps(y_new, p) < rps(y_new, other.predict_proba(X_new))
    assert model.score(X_new, y_new) > 0.6
    thresholds = model.likelihood_parameters_["thresholds"]
    # Up to shift and scale they are those of the data.
    correlation = np.corrcoef(thresholds, CUTS)[0, 1]
    assert correlation > 0.98
    assert other.likelihood_parameters_ == {}
    assert type(model.predict_dist(X_new)) is Categorical
    mean, variance = model.latent_mean_and_variance(X_new)
    assert mean.shape == variance.shape == (N,)
    save(model, tmp_path / "model.skgp")
    for copy in (pickle.loads(pickle.dumps(model)), load(tmp_path / "model.skgp")):
        np.testing.assert_array_equal(copy.predict_proba(X_new), p)


def test_two_classes_are_those_of_the_probit(tmp_path: Any) -> None:
    X, y = make_rows()
    X, y = X[:100], np.where(y[:100] > 5, "yes", "no")
    ordinal, probit = tiny().fit(X, y), tiny(likelihood="probit").fit(X, y)
    np.testing.assert_allclose(ordinal.predict_proba(X), probit.predict_proba(X), rtol=1e-9)
    assert type(ordinal.predict_dist(X)) is Bernoulli
    np.testing.assert_array_equal(ordinal.likelihood_parameters_["thresholds"], [0.0])
    save(ordinal, tmp_path / "model.skgp")
    np.testing.assert_array_equal(load(tmp_path / "model.skgp").predict(X), ordinal.predict(X))


def test_categories_of_pandas() -> None:
    X, y = make_rows()
    X, y = X[:100], y[:100]
    plain = tiny().fit(X, y)
    grades = pd.Series(pd.Categorical(y, categories=range(2, 9), ordered=True))
    for labels in (grades, grades.array, grades.to_frame()[0]):
        model = tiny().fit(X, labels)
        np.testing.assert_array_equal(model.classes_, [3, 4, 5, 6, 7])  # those that there are
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    names = pd.Series(np.array(["low", "middle", "high"])[(y > 4).astype(int) + (y > 5)])
    order = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
    wrong = names.astype(order)
    message = r"y has ordered categories, low < middle < high.*their numbers, the codes"
    with pytest.raises(ValueError, match=message):
        tiny().fit(X, wrong)
    with pytest.raises(ValueError, match=message):
        tiny().partial_fit(X, wrong)
    with pytest.raises(ValueError, match="y_val has ordered categories"):
        tiny().fit(X, wrong.cat.codes, X_val=X, y_val=wrong)
    with pytest.raises(ValueError, match="classes has ordered categories"):
        tiny().partial_fit(X, names, classes=wrong)
    for unsorted in (["low", "middle", "high"], np.array(["low", "high", "low", "middle"])):
        with pytest.raises(ValueError, match="are in another order than that of sorting"):
            tiny().partial_fit(X, names, classes=unsorted)
    assert tiny().fit(X, wrong.cat.codes).score(X, wrong.cat.codes) > 0.6
    tiny(likelihood="softmax").fit(X, wrong)  # to others no order matters


def test_scikit_learn_sees_a_classifier() -> None:
    X, y = make_rows()
    X, y = X[:120], y[:120]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the loss was still falling")
        for scoring in (neg_rps_scorer, "neg_log_loss", "accuracy"):
            assert np.isfinite(cross_val_score(tiny(), X, y, cv=2, scoring=scoring)).all()
        p = cross_val_predict(tiny(max_iter=40), X, y, cv=2, method="predict_proba")
    assert rps(y, p) < 0.8 * rps(y, np.tile(np.bincount(y - 3) / len(y), (len(y), 1)))
    model = tiny()
    for rows in np.array_split(np.arange(120), 3):
        model.partial_fit(X[rows], y[rows], classes=[3, 4, 5, 6, 7, 8])  # 8 never comes
    assert model.predict_proba(X).shape == (120, 6)
    assert np.diff(model.likelihood_parameters_["thresholds"]).min() > 0.0


@pytest.mark.usefixtures("full_start")
def test_a_class_that_comes_late_in_a_stream_is_learned() -> None:
    """Within twenty chunks, although no row of the first chunk has it."""
    rng = np.random.default_rng(0)

    def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.uniform(-3, 3, (n, 1))
        return X, np.digitize(X[:, 0] + 0.5 * rng.standard_normal(n), [-1.0, 1.0])

    X, y = rows(2000)
    model = SVGPClassifier(likelihood="ordinal", n_inducing=8, random_state=0)
    model.partial_fit(X[y != 1], y[y != 1], classes=[0, 1, 2])
    for _ in range(20):
        model.partial_fit(*rows(200))
    X, y = rows(2000)
    p = model.predict_proba(X)
    assert p[:, 1].mean() == pytest.approx((y == 1).mean(), rel=0.25)
    assert log_loss(y, p) < 0.6  # 0.3 once it is known, 2.4 if the class hardly exists
