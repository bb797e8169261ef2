"""What a model that goes on cannot change, what an interruption leaves, wrong validation rows."""

import warnings
from typing import Any

import numpy as np
import pytest
from contract_cases import REPRESENTATIVES, Case, Data, for_minibatches
from sklearn.base import clone
from test_continued_training import (
    Recorder,
    interrupt_at,
    reported_interruption,
)

from skgp import SVGPRegressor
from skgp.exceptions import InterruptedFitWarning, OutlierWarning
from skgp.fitting.model import Model

pytestmark = pytest.mark.usefixtures("short_start")
QUICK = REPRESENTATIVES


_OTHER_VALUES = {
    "kernel": "rbf",
    "n_inducing": 7,
    "normalize_X": False,
    "noise_floor": 0.3,
    "jitter": 1e-3,
    "hidden_layer_sizes": [4],
    "n_sites": 2,
    "width": 2,
    "n_restarts": 2,
}


def test_a_model_that_goes_on_names_the_parameters_it_cannot_change(case: Case, data: Data) -> None:
    model = case.make(warm_start=True, max_iter=1).fit(data.X, data.y)
    before = model.predict(data.X_new)
    other = {
        name: value
        for name, value in case.known(_OTHER_VALUES).items()
        if model.get_params()[name] != value
    }
    methods = [model.fit] + ([model.partial_fit] if hasattr(model, "partial_fit") else [])
    for method in methods:
        for name, value in other.items():
            old = model.get_params()[name]
            model.set_params(**{name: value})
            with pytest.raises(ValueError, match=rf"cannot change {name}:"):
                method(data.X, data.y)
            model.set_params(**{name: old})
        model.set_params(**other)
        with pytest.raises(ValueError, match="cannot change " + ", ".join(sorted(other))):
            method(data.X, data.y)
        model.set_params(**{name: case.make().get_params()[name] for name in other})
    np.testing.assert_array_equal(model.predict(data.X_new), before)


@pytest.mark.parametrize("form", [list, np.array])
def test_a_parameter_that_changes_in_place_is_named(data: Data, form: Any) -> None:
    widths = form([4, 2])
    model = SVGPRegressor(feature_extractor=widths, warm_start=True, max_iter=1, n_inducing=5)
    model.fit(data.X, data.y)
    widths[0] = 3
    with pytest.raises(ValueError, match="cannot change feature_extractor:"):
        model.fit(data.X, data.y)
    widths[0] = 4
    model.fit(data.X, data.y)


@pytest.mark.parametrize(
    ("old", "new"), [(np.array([4, 2]), "dkl"), ("dkl", np.array([4, 2])), ([4, 2], None)]
)
def test_a_sequence_is_never_a_name(data: Data, old: Any, new: Any) -> None:
    model = SVGPRegressor(feature_extractor=old, warm_start=True, max_iter=1, n_inducing=5)
    model.fit(data.X, data.y).set_params(feature_extractor=new)
    with pytest.raises(ValueError, match="cannot change feature_extractor:"):
        model.fit(data.X, data.y)


@for_minibatches
def test_what_a_step_reads_may_change(case: Case, data: Data) -> None:
    """Other values of these have other losses and other lengths of steps."""
    loud, quiet = (case.make(dtype="float64").partial_fit(data.X, data.y) for _ in range(2))
    values = {"beta_reg": 7.0, "weight_decay": 3.0, "learning_rate_init": 1e-12}
    changed = {
        name: value for name, value in case.known(values).items() if name in loud._changeable
    }
    assert len(changed) >= 2 or "kernel" in changed
    for _ in range(2):
        loud.set_params(**changed).partial_fit(data.X, data.y)
        quiet.partial_fit(data.X, data.y)
    assert (loud.predict(data.X_new) != quiet.predict(data.X_new)).any()


@for_minibatches
def test_rows_of_other_units_are_named_when_a_model_goes_on(make: Any, data: Data) -> None:
    model = make(warm_start=True, max_iter=2).fit(data.X, data.y)
    message = r"^y in row\(s\) 0, 1, 2, 3, 4 and 55 more .* fit a new one"
    with pytest.warns(OutlierWarning, match=message):
        model.fit(data.X, data.y * 1e6)
    X = data.X.copy()
    X[7, 1] = 1e9
    message = r"^X in row\(s\) 7 is .* the step leaves them out"
    with pytest.warns(OutlierWarning, match=message):
        model.partial_fit(X, data.y)


# -------------------------------------------------------------- interruption


def test_an_interrupted_clone_keeps_its_state_and_ends_what_it_belongs_to(
    make: Any, data: Data, monkeypatch: Any
) -> None:
    """A search would take the fit for complete, and go on with the next."""
    interrupt_at(monkeypatch, step=3)
    copy = clone(make(max_iter=8))
    with pytest.raises(KeyboardInterrupt), pytest.warns(InterruptedFitWarning, match="after 3 of"):
        copy.fit(data.X, data.y)
    assert copy.n_iter_ == 3
    assert np.isfinite(copy.predict(data.X_new)).all()


def test_an_interrupted_model_is_kept_where_warnings_are_errors(
    make: Any, data: Data, monkeypatch: Any
) -> None:
    interrupt_at(monkeypatch, step=3)
    model = make(max_iter=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InterruptedFitWarning):
            model.fit(data.X, data.y)
    assert model.n_iter_ == 3
    assert np.isfinite(model.predict(data.X_new)).all()


def test_an_interruption_in_validation_leaves_no_half_of_an_epoch(
    make: Any, data: Data, held_out: Data, monkeypatch: Any
) -> None:
    """What is kept is the state of the last epoch that has both a loss and a score."""
    states: list[Any] = []
    watch = {"X_val": held_out.X, "y_val": held_out.y}
    make(max_iter=8).set_callbacks(Recorder(states, data.X_new)).fit(data.X, data.y, **watch)
    original, calls = Model.mean_log_density, iter(range(10**6))

    def interrupted(self: Any, *args: Any) -> float:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(Model, "mean_log_density", interrupted)
    model = make(max_iter=8)
    with reported_interruption("interrupted after 3 of 8 epochs"):
        model.fit(data.X, data.y, **watch)
    assert len(model.loss_curve_) == len(model.validation_scores_) == model.n_iter_ == 3
    np.testing.assert_array_equal(model.predict(data.X_new), states[2])


# ------------------------------------------------------------ validation rows


def test_a_wrong_validation_target_counts_the_same_however_wrong(
    make: Any, data: Data, held_out: Data
) -> None:
    """Its log density is as low as that of a target 45 standard deviations off, and no lower."""
    scores = []
    for wrong in (1e4, 1e9, 1e140):
        y_val = np.append(held_out.y, wrong)
        X_val = np.vstack([held_out.X, held_out.X[:1]])
        model = make(max_iter=3).fit(data.X, data.y, X_val=X_val, y_val=y_val)
        scores.append(model.validation_scores_)
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-9)
    np.testing.assert_allclose(scores[2], scores[0], rtol=1e-9)
    clean = make(max_iter=3).fit(data.X, data.y, X_val=held_out.X, y_val=held_out.y)
    floor = -1000.0 - np.log(data.y.std())
    expected = (60.0 * np.array(clean.validation_scores_) + floor) / 61.0
    np.testing.assert_allclose(scores[0], expected, atol=1e-4)
