"""What the package promises of every estimator, for the classifiers."""

import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from contract_cases import CLASSIFIERS, Case, Data, make_labels
from matplotlib.figure import Figure
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibrationDisplay
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_callbacks import Watcher
from test_docstrings import (  # noqa: F401  (tests, which run here over other cases)
    entries,
    test_attributes_exist_after_a_fit,
    test_defaults_are_those_of_the_signature,
    test_no_placeholder_is_left,
    test_parameters_are_those_of_the_constructor_in_its_order,
)
from test_invalid_arguments import BAD_PARAMETERS

from skgp import predict_dist
from skgp.scoring import neg_expected_calibration_error_scorer

pytestmark = pytest.mark.usefixtures("short_start")
CASES = CLASSIFIERS
BAD_OF_CLASSIFIERS: dict[str, list[Any]] = {
    "likelihood": ["gaussian", "", None, 1],
    "label_noise": [0.0, 1.0, np.nan, None],
    "class_weight": ["even", 1.0],
    "share_kernel": ["yes", None],
}


@pytest.fixture(scope="module")
def data() -> Data:
    return make_labels()


@pytest.fixture(scope="module")
def model(make: Any, data: Data) -> Any:
    return make().fit(data.X, data.y)


def probabilities(model: Any, data: Data) -> Any:
    return model.fit(data.X, data.y).predict_proba(data.X_new)


def test_every_constructor_parameter_has_a_constraint_and_a_default(case: Case) -> None:
    parameters = inspect.signature(case.cls.__init__).parameters
    names = set(parameters) - {"self"}
    assert names == set(case.cls._parameter_constraints)
    for name in names:
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY, name
        assert parameters[name].default is not inspect.Parameter.empty, name
    case.cls()._validate_params()


def test_constructor_parameters_are_validated_by_fit(case: Case, data: Data) -> None:
    bad = BAD_PARAMETERS | BAD_OF_CLASSIFIERS
    for name in case.cls().get_params():
        for value in bad[name][:2]:
            model = case.make(**{"max_iter": 1, name: value})
            for method in (model.fit, model.partial_fit):
                with pytest.raises((ValueError, TypeError), match=f"\\b{name}\\b"):
                    method(data.X, data.y)


def test_tags(model: Any) -> None:
    tags = model.__sklearn_tags__()
    assert is_classifier(model)
    assert tags.target_tags.single_output
    assert not tags.target_tags.multi_output
    assert tags.classifier_tags.multi_class
    assert not tags.non_deterministic
    assert not tags.input_tags.allow_nan


def test_one_seed_gives_one_result(make: Any, model: Any, data: Data) -> None:
    expected = model.predict_proba(data.X_new)
    torch_state = torch.get_rng_state()
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002  (the global one is what this is about)
    np.testing.assert_array_equal(probabilities(make(), data), expected)
    np.testing.assert_array_equal(probabilities(clone(model), data), expected)
    assert torch.equal(torch.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002  (as above)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(data.X_new), expected)
    other = probabilities(make(random_state=1, batch_size=30), data)
    assert not np.array_equal(other, expected)


def test_rows_do_not_influence_each_other(model: Any, data: Data) -> None:
    p = model.predict_proba(data.X_new)
    order = np.random.default_rng(0).permutation(len(p))
    np.testing.assert_allclose(model.predict_proba(data.X_new[order]), p[order], rtol=1e-10)
    np.testing.assert_allclose(model.predict_proba(data.X_new[3:4]), p[3:4], rtol=1e-10)
    np.testing.assert_array_equal(model.predict_proba(data.X_new), p)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "latent_mean_and_variance"])
def test_prediction_needs_a_fit(make: Any, data: Data, method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(make(), method)(data.X)


def test_containers(make: Any, model: Any, data: Data) -> None:
    """Numbers are exact in float32, so everything is the same, frames with names included."""
    expected = model.predict_proba(data.X_new)
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"])
    for X, y in (
        (data.X.astype(np.float32), pd.Series(data.y, index=np.arange(60)[::-1])),
        (frame, pd.Categorical(data.y)),
        (np.asfortranarray(data.X), data.y.astype(object)),
    ):
        fitted = make().fit(X, y)
        X_new = pd.DataFrame(data.X_new, columns=frame.columns) if X is frame else data.X_new
        np.testing.assert_allclose(fitted.predict_proba(X_new), expected, rtol=1e-9)
        assert list(fitted.classes_) == ["bottom", "middle", "top"]


def test_search_pipeline_and_scores(make: Any, data: Data) -> None:
    pipeline = make_pipeline(StandardScaler(), make(max_iter=3))
    name = pipeline.steps[-1][0]
    search = GridSearchCV(pipeline, {f"{name}__n_inducing": [5, 8]}, cv=2, scoring="neg_log_loss")
    search.fit(data.X, data.y)
    p = search.predict_proba(data.X_new)
    np.testing.assert_allclose(p, np.asarray(predict_dist(search, data.X_new)), rtol=1e-12)
    for scoring in ("roc_auc_ovr", neg_expected_calibration_error_scorer):
        scores = cross_val_score(make(max_iter=3), data.X, data.y, cv=2, scoring=scoring)
        assert np.all(np.isfinite(scores))


def test_calibration_display(make: Any, data: Data) -> None:
    model = make(max_iter=3).fit(data.X, data.y == "bottom")
    ax = Figure().subplots()  # not of pyplot, which would keep it for the tests after this one
    display = CalibrationDisplay.from_estimator(
        model, data.X_new, data.y_new == "bottom", n_bins=4, ax=ax
    )
    np.testing.assert_array_equal(display.y_prob, model.predict_proba(data.X_new)[:, 1])


def test_training_goes_on(make: Any, data: Data) -> None:
    model = make(warm_start=True, max_iter=15).fit(data.X, data.y)
    first = model.loss_curve_[-1]  # the bound, not the log loss, is what training lowers
    centres = model.inducing_points_.copy()
    model.set_params(learning_rate_init=1e-9).fit(data.X, data.y)
    np.testing.assert_allclose(model.inducing_points_, centres, rtol=1e-5)
    model.set_params(learning_rate_init=0.03).fit(data.X, data.y)
    assert model.loss_curve_[-1] < first
    model.partial_fit(data.X, data.y)
    assert model.n_samples_seen_ == 2 * len(data.y)
    restored = pickle.loads(pickle.dumps(model)).partial_fit(data.X, data.y)
    expected = model.partial_fit(data.X, data.y).predict_proba(data.X_new)
    np.testing.assert_array_equal(restored.predict_proba(data.X_new), expected)


def test_validation_scores_are_log_probabilities(make: Any, data: Data) -> None:
    weight = np.linspace(0.5, 2.0, 25)
    model = make(max_iter=3).fit(
        data.X, data.y, X_val=data.X_new, y_val=data.y_new, sample_weight_val=weight
    )
    p = model.predict_proba(data.X_new)
    expected = -log_loss(data.y_new, p, sample_weight=weight, labels=model.classes_)
    np.testing.assert_allclose(model.validation_scores_[-1], expected, rtol=1e-6)


def test_callbacks_watch_every_epoch(make: Any, data: Data) -> None:
    class ClassWatcher(Watcher):
        def on_fit_task_end(
            self, estimator: Any, context: Any, *, X: Any, y: Any, fitted_estimator: Any
        ) -> bool:
            if context.task_name != "epoch":
                return False
            self.scores.append(log_loss(y, fitted_estimator.predict_proba(X)))
            return len(self.scores) == self.stop_after

    watcher = ClassWatcher(stop_after=3)
    model = make().set_callbacks(watcher).fit(data.X, data.y)
    assert model.n_iter_ == len(watcher.scores) == 3
    last = log_loss(data.y, model.predict_proba(data.X))
    np.testing.assert_allclose(watcher.scores[-1], last, rtol=1e-12)


def test_memory_and_restarts(make: Any, model: Any, data: Data, tmp_path: Path) -> None:
    stored = probabilities(make(memory=str(tmp_path)), data)
    np.testing.assert_array_equal(stored, model.predict_proba(data.X_new))
    assert make(n_restarts=2, max_iter=3).fit(data.X, data.y).n_iter_ == 3


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (lambda X: np.where(X == X[3, 1], np.nan, X), "X contains NaN"),
        (lambda X: np.where(X == X[3, 1], np.inf, X), "X contains infinity"),
        (lambda X: X[:, :0], r"0 feature\(s\)"),
        (lambda X: X[:-1], "inconsistent numbers of samples"),
    ],
)
def test_fit_refuses_inputs(make: Any, data: Data, X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make().fit(X(data.X), data.y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.linspace(0.0, 1.0, 60), "Unknown label type"),
        ([None, *["a"] * 59], "NaN|None|[Uu]nknown label type|not supported"),
        (np.array([["a", "b"]] * 60), "1d array|y should be"),
        ([np.nan, *[1.0] * 59], "NaN"),
    ],
)
def test_fit_refuses_labels(make: Any, data: Data, y: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make().fit(data.X, y)


def test_hostile_inputs(make: Any, data: Data) -> None:
    """Constant columns, absurd units, two rows, equal rows of different labels."""
    constant = np.column_stack([data.X, np.full(60, 7.0)])
    far = data.X.copy()
    far[0] = 1e12
    for X, y in (
        (constant, data.y),
        (1e12 * data.X, data.y),
        (far, data.y),
        (np.zeros((60, 1)), data.y),
        (data.X[:2], [0, 1]),
        (data.X.repeat(2, 0), np.array([0, 1] * 60)),
    ):
        p = make(max_iter=3).fit(X, y).predict_proba(np.concatenate([X, 1e15 * X[:1]]))
        np.testing.assert_allclose(p.sum(1), 1.0, rtol=0, atol=1e-12)
        assert np.all(p > 0.0)


@pytest.mark.parametrize("name", ["svgp", "dgp", "dspp"])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_classes_may_share_a_kernel(name: str, covariance: str, data: Data) -> None:
    (case,) = (case for case in CASES if case.name == name)
    model = case.make(share_kernel=True, covariance=covariance, max_iter=60).fit(data.X, data.y)
    assert model.lengthscales_.shape == (3,)
    assert model.inducing_points_.shape == (8, 3)
    assert model.latent_mean_and_variance(data.X)[1].shape == (60, 3)
    assert model.score(data.X, data.y) > 0.7
    layers = model.stack_.layers
    assert all(layer.Z.shape[0] == 1 for layer in layers)
