"""Training that goes on, stops early, starts several times or is interrupted."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from contract_cases import (
    ONE_OUTPUT,
    REGRESSORS,
    REPRESENTATIVES,
    Case,
    Data,
    assert_trained_for,
    for_gps,
    for_minibatches,
    for_variational,
)

from skgp.core.training.optimizers import NaturalGradient
from skgp.core.training.run import Run
from skgp.exceptions import InterruptedFitWarning, NonFiniteLossError
from skgp.scoring import crps, nll

pytestmark = pytest.mark.usefixtures("short_start")

CASES = REGRESSORS + ONE_OUTPUT
QUICK = REPRESENTATIVES


@pytest.fixture
def at_rest(case: Case, monkeypatch: Any) -> dict[str, float]:
    """Arguments with which parameters stay where they are.

    Natural-gradient steps and those of a chain have lengths of their own, which
    `learning_rate_init` leaves alone. With less friction a chain would go on by its momentum.
    """

    def resting(posteriors: Any, rate: float, *rest: Any) -> NaturalGradient:
        return NaturalGradient(posteriors, 1e-12, *rest)

    monkeypatch.setattr("skgp.recipes.optimizers.NaturalGradient", resting)
    return case.known({"learning_rate_init": 1e-12, "step_size": 1e-12, "friction": 1.0})


# ---------------------------------------------------------------- warm start


def test_warm_start_goes_on(case: Case, data: Data) -> None:
    """With one batch and nothing dropped the first loss of a fit is that of its starting point."""
    without_chance = case.known({"dropout": 0.0})
    model = case.make(warm_start=True, max_iter=30, **without_chance).fit(data.X, data.y)
    curve = model.loss_curve_
    predictions = model.predict(data.X_new)
    model.set_params(max_iter=5).fit(data.X, data.y)
    assert_trained_for(model, 5)
    # The loss of a deep GP is an average over its draws, that of a chain one of its draws.
    tolerance = 0.2 if "n_prediction_samples" in case.params else 0.02
    assert model.loss_curve_[0] == pytest.approx(curve[-1], abs=tolerance)
    assert model.loss_curve_[0] < curve[0] - 0.02
    moved = (model.predict(data.X_new) != predictions).any()
    assert moved or model.n_iter_ < 5  # an optimum that the first fit has reached stays
    fresh = case.make(max_iter=5, **without_chance).fit(data.X, data.y)
    assert fresh.loss_curve_[0] == curve[0]


@for_minibatches
def test_a_fit_that_goes_on_does_not_leave_the_optimum(case: Case, data: Data) -> None:
    """At the full rate the loss rises at once, most where the memory of gradients is lost."""
    case.skip_if_a_network_is_the_mean()
    without_chance = case.known({"dropout": 0.0})
    model = case.make(warm_start=True, max_iter=200, **without_chance).fit(data.X, data.y)
    last = np.mean(model.loss_curve_[-10:])
    model.set_params(max_iter=20).fit(data.X, data.y)
    tolerance = 0.2 if "n_prediction_samples" in case.params else 0.15
    assert max(model.loss_curve_) < last + tolerance


@for_minibatches
def test_warm_start_keeps_scales_and_inducing_inputs(
    make: Any, data: Data, at_rest: dict[str, float]
) -> None:
    """A step of no length leaves the predictions, even on other rows."""
    model = make(warm_start=True).fit(data.X, data.y)
    before = model.predict(data.X_new, return_std=True)
    model.set_params(**at_rest, max_iter=1)
    model.fit(data.X_new * 2.0 + 7.0, data.y_new * 3.0 - 50.0)
    for a, b in zip(model.predict(data.X_new, return_std=True), before, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@for_gps
def test_warm_start_goes_on_from_the_hyper_parameters(
    make: Any, data: Data, monkeypatch: Any
) -> None:
    """Whatever the new rows are; the scales, which are the units of all else, stay as well."""
    model = make(warm_start=True).fit(data.X, data.y)
    before = model.lengthscales_, model.noise_variance_
    monkeypatch.setattr(Run, "_batches", lambda self: iter(()))
    model.fit(data.X_new * 2.0 + 7.0, data.y_new * 3.0 - 50.0)
    np.testing.assert_allclose(model.lengthscales_, before[0], rtol=1e-6)
    np.testing.assert_allclose(model.noise_variance_, before[1], rtol=1e-6)


def test_warm_start_does_not_change_the_first_fit(make: Any, data: Data) -> None:
    warm = make(warm_start=True, max_iter=5).fit(data.X, data.y)
    cold = make(max_iter=5).fit(data.X, data.y)
    np.testing.assert_array_equal(warm.predict(data.X_new), cold.predict(data.X_new))


# --------------------------------------------------------------- partial fit


@for_minibatches
@pytest.mark.usefixtures("full_start")
def test_partial_fit_over_chunks_reaches_the_quality_of_a_fit(case: Case, data: Data) -> None:
    case.skip_if_a_network_is_the_mean()
    make = case.make
    # A network takes longer than a Gaussian process, and so does a model with latent covariates
    # or hidden units.
    slow = case.has_covariates or case.has_readout or not hasattr(make(), "kernel")
    n_passes, bound = (25, 0.4) if slow else (15, 0.2)
    whole = make(max_iter=2 * n_passes).fit(data.X, data.y)
    stream = make(learning_rate_init=0.05)
    for _ in range(n_passes):
        for rows in np.split(np.arange(60), 3):
            stream.partial_fit(data.X[rows], data.y[rows], n_total=60)
    scores = [crps(data.y_new, m.predict_dist(data.X_new)) for m in (whole, stream)]
    # The first chunk, a third of the rows, has fixed the scales and the first inducing inputs. A
    # normal distribution that ignores the inputs has a CRPS of 0.56 standard deviations of y.
    assert scores[1] < 1.6 * scores[0] < bound * data.y.std()
    assert stream.n_iter_ == len(stream.loss_curve_) == 3 * n_passes
    assert stream.n_features_in_ == 3


@for_minibatches
def test_partial_fit_continues_a_fit(make: Any, data: Data) -> None:
    """Its first loss is that of the fitted parameters, as in a fit with warm start."""
    partial, warm = (make(warm_start=True, max_iter=20).fit(data.X, data.y) for _ in range(2))
    before = partial.predict(data.X_new)
    partial.partial_fit(data.X, data.y, n_total=60)
    warm.fit(data.X, data.y)
    assert partial.n_iter_ == len(partial.loss_curve_) == 21
    assert partial.loss_curve_[-1] == pytest.approx(warm.loss_curve_[0], abs=1e-5)
    assert (partial.predict(data.X_new) != before).any()


@for_minibatches
def test_partial_fit_after_fit_counts_the_rows_of_the_fit(make: Any, data: Data) -> None:
    """A small chunk must not multiply the weight of the divergence."""
    implicit, explicit = (make(max_iter=10, dtype="float64").fit(data.X, data.y) for _ in range(2))
    implicit.partial_fit(data.X_new[:3], data.y_new[:3])
    explicit.partial_fit(data.X_new[:3], data.y_new[:3], n_total=63)
    assert implicit.loss_curve_ == explicit.loss_curve_
    assert implicit.n_samples_seen_ == 63


@for_minibatches
def test_partial_fit_counts_rows_and_weights(make: Any, data: Data) -> None:
    model = make().partial_fit(data.X, data.y)
    assert model.n_samples_seen_ == 60
    model.partial_fit(data.X_new, data.y_new, np.full(25, 2.0))
    assert model.n_samples_seen_ == 110


@for_variational
def test_n_total_divides_the_divergence(make: Any, data: Data) -> None:
    """loss = -fit + beta KL / n_total, so doubling both changes nothing.

    Natural steps of the objective n_total * loss are divided by beta where that is above one.
    """
    a = make(beta_reg=1.0, dtype="float64")
    b = make(beta_reg=2.0, dtype="float64")
    c = make(beta_reg=2.0, dtype="float64")
    for _ in range(3):
        a.partial_fit(data.X, data.y, n_total=100)
        b.partial_fit(data.X, data.y, n_total=200)
        c.partial_fit(data.X, data.y, n_total=100)
    np.testing.assert_allclose(a.loss_curve_, b.loss_curve_, rtol=1e-9)
    assert c.loss_curve_ != b.loss_curve_


@for_minibatches
def test_partial_fit_keeps_the_state_of_its_optimiser(make: Any, data: Data) -> None:
    """Two calls with a full batch are two epochs: Adam's moments go on, not anew."""
    model = make(dtype="float64")
    losses = [model.partial_fit(data.X, data.y, n_total=60).loss_curve_[-1] for _ in range(4)]
    again = make(dtype="float64")
    for _ in range(4):
        again.partial_fit(data.X, data.y, n_total=60)
        again._optimizer_state = None
    assert losses[:2] == pytest.approx(again.loss_curve_[:2], rel=1e-9)
    assert losses[3] != pytest.approx(again.loss_curve_[3], rel=1e-6)


@for_minibatches
def test_a_failed_partial_fit_changes_nothing(make: Any, data: Data) -> None:
    model = make().partial_fit(data.X, data.y)
    before = model.predict(data.X_new)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.partial_fit(data.X, np.full(60, np.nan))
    np.testing.assert_array_equal(model.predict(data.X_new), before)
    assert model.n_samples_seen_ == 60
    assert model.n_iter_ == 1


# ------------------------------------------------------------ early stopping


@pytest.mark.parametrize("weighted", [False, True])
def test_validation_scores_are_log_densities_in_the_units_of_y(
    make: Any, data: Data, held_out: Data, weighted: bool
) -> None:
    y, y_val = data.y * 1e3 + 5.0, held_out.y * 1e3 + 5.0
    weight = np.arange(60) % 3 if weighted else None
    model = make(max_iter=4).fit(data.X, y, X_val=held_out.X, y_val=y_val, sample_weight_val=weight)
    # A row counts as -1,000 nats or more, in units of the standard deviation of y.
    densities = np.maximum(model.predict_dist(held_out.X).logpdf(y_val), -1000.0 - np.log(y.std()))
    score = np.average(densities, weights=weight)
    assert len(model.validation_scores_) == 4
    assert model.validation_scores_[-1] == pytest.approx(score, abs=1e-4)
    assert model.best_validation_score_ == max(model.validation_scores_)


def test_validation_rows_without_early_stopping_only_watch(
    make: Any, data: Data, held_out: Data
) -> None:
    watched = make(n_iter_no_change=1, tol=1e6, max_iter=20)
    watched.fit(data.X, data.y, X_val=held_out.X, y_val=held_out.y)
    alone = make(max_iter=20).fit(data.X, data.y)
    assert_trained_for(watched, 20)
    np.testing.assert_array_equal(watched.predict(data.X_new), alone.predict(data.X_new))


def _overfitting(case: Case) -> Any:
    return case.make(
        max_iter=200,
        early_stopping=True,
        n_iter_no_change=5,
        **case.known({"learning_rate_init": 0.2, "beta_reg": 0.0, "n_inducing": 40}),
    )


def test_early_stopping_restores_the_best_epoch(case: Case, data: Data, held_out: Data) -> None:
    y, y_val = data.y * 1e-3, held_out.y * 1e-3
    model = _overfitting(case).fit(data.X, y, X_val=held_out.X, y_val=y_val)
    scores = model.validation_scores_
    assert model.n_iter_ == len(scores) == len(model.loss_curve_) < 200
    assert model.best_validation_score_ == max(scores) > scores[-1]
    score = -nll(y_val, model.predict_dist(held_out.X))
    assert score == pytest.approx(model.best_validation_score_, abs=1e-4)
    # It stopped five epochs after the last one that was better by tol.
    best, last_better = -np.inf, 0
    for epoch, value in enumerate(scores):
        if value > best + 1e-4:
            last_better = epoch
        best = max(best, value)
    assert len(scores) - 1 - last_better == 5


def test_early_stopping_holds_out_rows_of_its_own(make: Any, data: Data) -> None:
    params = {"early_stopping": True, "validation_fraction": 0.25, "max_iter": 6}
    model = make(**params).fit(data.X, data.y)
    assert len(model.validation_scores_) == model.n_iter_
    # Outliers among a quarter of the rows would be noticed by whoever trains on them.
    assert model.best_validation_score_ == max(model.validation_scores_)
    whole = make(max_iter=6).fit(data.X, data.y)
    assert not np.allclose(model.predict(data.X_new), whole.predict(data.X_new), rtol=1e-6)


def test_the_fraction_held_out(make: Any, data: Data, monkeypatch: Any) -> None:
    """fit scales by the training rows alone."""
    model = make(early_stopping=True, validation_fraction=0.25, max_iter=1, random_state=5)
    tables: list[Any] = []
    original = Run.__init__

    def spy(self: Any, candidate: Any, rows: Any, *args: Any) -> None:
        tables.append(rows)
        original(self, candidate, rows, *args)

    monkeypatch.setattr(Run, "__init__", spy)
    model.fit(data.X, data.y)
    assert [len(table) for table in tables] == [45]
    (offset,) = model.model_.y_scale.offset
    assert offset == pytest.approx(tables[0].Y.mean(), rel=1e-9)
    assert offset != pytest.approx(data.y.mean(), abs=1e-6)


def test_a_large_tolerance_stops_at_once(make: Any, data: Data, held_out: Data) -> None:
    model = make(early_stopping=True, n_iter_no_change=3, tol=1e6, max_iter=50)
    model.fit(data.X, data.y, X_val=held_out.X, y_val=held_out.y)
    assert model.n_iter_ == 4  # the first epoch beats minus infinity, three do not beat it by tol


# ------------------------------------------------------------------ restarts


def test_restarts_keep_the_candidate_with_the_lowest_loss(
    case: Case, data: Data, monkeypatch: Any
) -> None:
    curves: dict[int, list[float]] = {}
    original = Run._record

    def spy(self: Any, loss: float, score: float | None) -> None:
        curves.setdefault(id(self), []).append(loss)
        original(self, loss, score)

    monkeypatch.setattr(Run, "_record", spy)
    chosen: set[int] = set()
    for seed in range(12):  # until each of the two has won
        curves.clear()
        model = case.make(n_restarts=2, max_iter=8, random_state=seed).fit(data.X, data.y)
        first, second = curves.values()
        trial = 1 if hasattr(model, "batch_size") else 5  # a twentieth of the epochs, or L-BFGS
        assert {len(first), len(second)} == {trial, 8}
        winner = int(second[trial - 1] < first[trial - 1])
        chosen.add(winner)
        assert model.loss_curve_ == (first, second)[winner]
        assert model.n_iter_ == 8
        if len(chosen) == 2:
            break
    assert chosen == {0, 1}


def test_restarts_share_nothing(make: Any, data: Data) -> None:
    """A fit with two candidates is one of the fits, whatever the other did."""
    model = make(n_restarts=3, max_iter=20).fit(data.X, data.y)
    assert_trained_for(model, 20)
    assert model.score(data.X_new, data.y_new) > 0.5


# -------------------------------------------------------------- interruption


@contextmanager
def reported_interruption(message: str) -> Iterator[None]:
    """The interruption ends as a warning; one that gets through must not end the test run."""
    try:
        with pytest.warns(InterruptedFitWarning, match=message):
            yield
    except KeyboardInterrupt:
        pytest.fail("the fit did not catch KeyboardInterrupt")


def interrupt_at(monkeypatch: Any, step: int) -> None:
    original, steps = Run._record, iter(range(10**6))

    def record(self: Any, loss: float, score: float | None) -> None:
        if next(steps) == step:  # the epoch has changed the parameters when the key is pressed
            raise KeyboardInterrupt
        original(self, loss, score)

    monkeypatch.setattr(Run, "_record", record)


def test_an_interrupted_fit_keeps_its_last_complete_epoch(
    make: Any, data: Data, monkeypatch: Any
) -> None:
    states = []
    model = make(max_iter=8)
    model.set_callbacks(Recorder(states, data.X_new)).fit(data.X, data.y)
    interrupt_at(monkeypatch, step=3)
    interrupted = make(max_iter=8)
    with reported_interruption("interrupted after 3 of 8 epochs"):
        interrupted.fit(data.X, data.y)
    assert interrupted.n_iter_ == len(interrupted.loss_curve_) == 3
    np.testing.assert_array_equal(interrupted.predict(data.X_new), states[2])


class Recorder:
    """Callback that stores the predictions of each epoch."""

    def __init__(self, states: list[Any], X: Any, method: str = "predict") -> None:
        self.states = states
        self.X = X
        self.method = method

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any) -> None:
        if context.task_name == "epoch":
            self.states.append(getattr(fitted_estimator, self.method)(self.X))


def test_an_interruption_before_the_first_epoch_ends(
    make: Any, data: Data, monkeypatch: Any
) -> None:
    interrupt_at(monkeypatch, step=0)
    model = make(max_iter=8)
    with reported_interruption("interrupted after 0 of 8 epochs"):
        model.fit(data.X, data.y)
    assert model.n_iter_ == 0
    monkeypatch.setattr(Run, "_batches", lambda self: iter(()))
    start = make(max_iter=1).fit(data.X, data.y)
    for actual, desired in zip(
        model.predict(data.X_new, return_std=True),
        start.predict(data.X_new, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(actual, desired, rtol=1e-5)


def test_an_interruption_during_the_restarts(make: Any, data: Data, monkeypatch: Any) -> None:
    interrupt_at(monkeypatch, step=1)
    model = make(max_iter=8, n_restarts=3)
    with reported_interruption("interrupted"):
        model.fit(data.X, data.y)
    assert np.isfinite(model.predict(data.X_new)).all()


def test_an_interruption_with_early_stopping_keeps_the_best_epoch(
    make: Any, data: Data, held_out: Data, monkeypatch: Any
) -> None:
    interrupt_at(monkeypatch, step=4)
    model = make(max_iter=8, early_stopping=True)
    with reported_interruption("interrupted after 4 of 8 epochs"):
        model.fit(data.X, data.y, X_val=held_out.X, y_val=held_out.y)
    score = -nll(held_out.y, model.predict_dist(held_out.X))
    assert score == pytest.approx(max(model.validation_scores_), abs=1e-4)


def test_an_interrupted_fit_can_go_on(make: Any, data: Data, monkeypatch: Any) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=5)
        model = make(max_iter=30, warm_start=True)
        with reported_interruption("interrupted after 5 of 30 epochs"):
            model.fit(data.X, data.y)
    assert_trained_for(model.fit(data.X, data.y), 30)
    assert model.score(data.X_new, data.y_new) > 0.7


# ---------------------------------------------------------------- divergence


def test_a_fit_that_cannot_be_saved_raises_with_a_remedy(
    make: Any, data: Data, monkeypatch: Any
) -> None:
    monkeypatch.setattr(Run, "gradients", diverge)
    model = make()
    with pytest.raises(NonFiniteLossError, match=r"did not recover .*; keep normalize_X") as error:
        model.fit(data.X, data.y)
    advice = str(error.value).rpartition(";")[2]
    named = set(re.findall(r"\w+", advice)) - {"keep", "on", "and", "lower", "raise"}
    assert named <= set(model.get_params())
    for name in ("normalize_y", "learning_rate_init", "step_size", "jitter", "noise_floor"):
        assert (name in named) == (name in model.get_params())
    if hasattr(model, "partial_fit"):
        with pytest.raises(NonFiniteLossError, match=re.escape(advice)):
            model.partial_fit(data.X, data.y)
    assert not hasattr(model, "loss_curve_")


def diverge(self: Any, batch: Any, step: int) -> float:
    raise NonFiniteLossError("loss nan")


@for_minibatches
@pytest.mark.parametrize("rate", [10.0, 1e4])
def test_a_far_too_large_step_ends_in_numbers_or_in_an_error(
    make: Any, data: Data, rate: float
) -> None:
    model = make(learning_rate_init=rate)
    if ends_in_numbers(model, data):
        mean, std = model.predict(data.X_new, return_std=True)
        assert np.isfinite(mean).all()
        assert (std > 0.0).all()
        assert np.isfinite(std).all()


def ends_in_numbers(model: Any, data: Data) -> bool:
    """Whether a fit ends without the error that training diverged; any other error is a failure."""
    try:
        model.fit(data.X, data.y)
    except NonFiniteLossError:
        return False
    return True


def test_registered_cases_stop_and_continue() -> None:
    """The tests above rely on these parameters in every family."""
    for case in REGRESSORS:
        assert {"warm_start", "early_stopping", "n_restarts"} <= set(case.make().get_params())
