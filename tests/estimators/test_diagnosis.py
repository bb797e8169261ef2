"""What a fit says against itself: each message where it is true, and silence elsewhere."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from skgp import (
    Checkpoint,
    DGPRegressor,
    DSPPRegressor,
    ExactGPRegressor,
    MOGPEmbedding,
    PPGPRRegressor,
    SVGPClassifier,
    SVGPRegressor,
)
from skgp.core.folds import fold_numbers
from skgp.core.subsample import row_keys
from skgp.core.training import schedules
from skgp.core.training.history import History
from skgp.core.training.schedules import constant, gradual, one_cycle
from skgp.estimators import ppgpr
from skgp.exceptions import FitQualityWarning, NotPositiveDefiniteError
from skgp.fitting import cross_validation, folds
from skgp.fitting.coverage import Coverage, coverage_of
from skgp.fitting.diagnosis import _calibration, _divergence, _last_fall, _length
from skgp.fitting.fit import validation_score
from skgp.fitting.model import Model
from skgp.fitting.plans import Epochs, Minibatch, Stopping, minibatch_plan
from skgp.fitting.rows import Rows
from skgp.fitting.search import NO_SEARCH
from skgp.fitting.table import Table

Problem = tuple[np.ndarray, np.ndarray]
svgp = partial(SVGPRegressor, n_inducing=20, max_iter=100, random_state=0)
FOUND = Stopping("auto", 1, 0.0)
ppgpr_ = partial(PPGPRRegressor, n_inducing=20, early_stopping=False, random_state=0)


@pytest.fixture
def problem(rng: np.random.Generator) -> Problem:
    X = rng.normal(size=(120, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=120)


# ------------------------------------------------------------------ convergence


def test_a_large_learning_rate_has_diverged(problem: Problem) -> None:
    with pytest.warns(ConvergenceWarning, match=r"^training diverged: .* lower learn"):
        svgp(learning_rate_init=3.0).fit(*problem)
    svgp(learning_rate_init=0.1).fit(*problem)


@pytest.mark.parametrize("rate", [3.0, 10.0])
def test_training_that_diverges_in_its_first_epoch(rng: np.random.Generator, rate: float) -> None:
    """All that the epochs have seen is as bad; the first step was better."""
    X = rng.normal(size=(600, 2))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=600)
    batches = {"n_inducing": 20, "batch_size": 120, "max_iter": 20, "random_state": 0}
    for model, targets in ((SVGPRegressor(**batches), y), (SVGPClassifier(**batches), y > 0.0)):
        with pytest.warns(ConvergenceWarning, match=r"^training diverged: .* lower learn"):
            clone(model).set_params(learning_rate_init=rate).fit(X, targets)
        model.set_params(learning_rate_init=0.03).fit(X, targets)


def test_a_classifier_with_a_large_learning_rate_has_diverged(problem: Problem) -> None:
    X, y = problem
    model = SVGPClassifier(n_inducing=20, max_iter=100, random_state=0, learning_rate_init=3.0)
    with pytest.warns(ConvergenceWarning, match=r"^training diverged: .* lower learn"):
        model.fit(X, y > 0.0)
    model.set_params(learning_rate_init=0.03).fit(X, y > 0.0)


def test_with_early_stopping_the_loss_of_the_best_score_counts(problem: Problem) -> None:
    """The loss ends far above its lowest value, but the model is that of an earlier epoch."""
    X, y = problem
    model, like = svgp().fit(X, y).model_, torch.zeros((), dtype=torch.float64)
    table = Table(Rows(X, y[:, None], None), model.x_scale, model.y_scale, like)
    plan = minibatch_plan(Minibatch(3, 1000), Stopping(True, 5, 1e-4), Epochs(), 120)
    history = History([1.0, 0.5, 3.0], [0.0, 1.0, -1.0])
    assert not _divergence(model, history, plan, table, {})
    assert _divergence(model, History(history.loss_curve), plan, table, {})
    to_the_end = replace(plan, n_iter_no_change=None)
    assert _divergence(model, history, to_the_end, table, {})
    # A fit of one batch that may go back has gone back to its lowest loss.
    assert not _divergence(model, history, replace(to_the_end, n_retreats=1), table, {})
    batches = replace(to_the_end, n_retreats=1, batch_size=table.n_rows // 2)
    assert _divergence(model, history, batches, table, {})


def test_a_fit_worse_than_a_normal_distribution_has_failed(problem: Problem) -> None:
    """Adam does not reach a noise variance of 1e4 from 0.1; with scaled targets it need not."""
    X, y = problem
    with pytest.warns(ConvergenceWarning, match=r"^training failed: .* set normalize_y=True$"):
        svgp(normalize_y=False).fit(X, 1000.0 * y)
    svgp().fit(X, 1000.0 * y)


def test_the_normal_distribution_is_that_of_weighted_rows(rng: np.random.Generator) -> None:
    """Rows that hardly count, of little variance or with fewer outputs, do not set the measure."""
    exact = partial(ExactGPRegressor, max_iter=20, random_state=0)
    X, y = np.ones((100, 1)), 0.01 * rng.normal(size=100)
    y[90:] = rng.normal(size=10)
    weight = np.where(np.arange(100) < 90, 1e-3, 1.0)
    exact(normalize_y=False).fit(X, y, weight)
    Y = rng.normal(size=(100, 3))
    Y[:90, 1:] = np.nan
    exact().fit(X, Y, weight)


def test_a_constant_is_no_normal_distribution_without_variance(problem: Problem) -> None:
    """The mean of a hundred times 0.1 is off by rounding."""
    ExactGPRegressor(normalize_y=False, random_state=0).fit(problem[0], np.full(120, 0.1))


@pytest.mark.filterwarnings("ignore")
def test_validation_rows_do_not_keep_a_fit_from_healing(monkeypatch) -> None:
    """Where a step has left no predictions, the next one goes back; without early stopping."""
    random = np.random.RandomState(0)
    X = random.uniform(-2.0, 2.0, (400, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * random.randn(400)
    model = PPGPRRegressor(
        n_inducing=15,
        batch_size=60,
        max_iter=20,
        early_stopping=False,
        learning_rate_init=10.0,
        random_state=0,
    )
    expected = model.fit(X[:300], y[:300]).predict(X)
    # Whether a step of this rate leaves none depends on rounding.
    score, tables = Model.mean_log_density, []

    def third_fails(model: Model, table: Table) -> float:
        tables.append(table)
        if len(tables) == 3:
            raise NotPositiveDefiniteError("")
        return score(model, table)

    monkeypatch.setattr(Model, "mean_log_density", third_fails)
    model.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    assert model.validation_scores_[2] == -np.inf
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.slow
def test_few_epochs_end_while_the_loss_falls(problem: Problem) -> None:
    message = r"^the loss was still falling after max_iter=40 epochs, .* raise max_iter$"
    model = DSPPRegressor(n_inducing=20, max_iter=40, early_stopping=False, random_state=0)
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        model.fit(*problem)
    assert len(caught) == 1
    model.set_params(max_iter=600).fit(*problem)
    deep = DGPRegressor(n_inducing=10, random_state=0)
    with pytest.warns(ConvergenceWarning, match="still falling"):
        deep.set_params(max_iter=30).fit(*problem)
    deep.set_params(max_iter="auto").fit(*problem)  # whose loss falls as well


def test_a_callback_or_a_validation_score_may_end_a_fit_early(problem: Problem) -> None:
    X, y = problem
    model = DSPPRegressor(n_inducing=20, max_iter=300, random_state=0, early_stopping=True)
    model.set_params(n_iter_no_change=1, tol=1.0).fit(X, y)
    assert model.n_iter_ < 10


@pytest.mark.parametrize("schedule", [constant, one_cycle])
def test_the_fall_is_that_over_the_sum_of_the_rates(schedule: Any) -> None:
    """Against sums over small steps; a loss that is linear in this sum falls by a quarter."""
    rate = np.array([schedule((i + 0.5) / 1000) for i in range(1000)])
    way = rate.cumsum() / rate.sum()
    curve = np.exp(-3.0 * way) + 0.2 * rate
    is_third, is_last = (way > 0.5) & (way <= 0.75), way > 0.75
    expected = np.average(curve[is_third], weights=rate[is_third])
    expected -= np.average(curve[is_last], weights=rate[is_last])
    assert _last_fall(list(curve), schedule) == pytest.approx(expected, rel=0.01)
    assert _last_fall(list(-way), schedule) == pytest.approx(0.25, abs=0.001)
    assert _last_fall([1.0], schedule) == pytest.approx(0.0)


def test_the_noise_of_the_steps_is_not_a_fall() -> None:
    """It ends with the cycle: at half of the way the rate is still 0.7, at the end zero."""
    rate = [one_cycle((i + 0.5) / 100) for i in range(100)]
    assert rate[-1] < 0.01
    assert _last_fall([0.2 * r for r in rate], one_cycle) < 0.1


def test_a_search_that_ends_at_its_limit(problem: Problem) -> None:
    X, y = problem
    model, like = svgp().fit(X, y).model_, torch.zeros((), dtype=torch.float64)
    table = Table(Rows(X, y[:, None], None), model.x_scale, model.y_scale, like)
    plan = minibatch_plan(Minibatch("auto", 1000), FOUND, Epochs(longest=40), 120)
    history = History([1.0, 0.0])  # which does not count
    rising = list(0.02 * np.arange(40.0))
    search = NO_SEARCH._replace(scores=rising, limit=40)
    (warning,) = _length(history, plan, table, search, {})
    assert "its limit of 40 with held-out scores still rising" in str(warning)
    assert not _length(history, plan, table, search._replace(scores=rising[:39]), {})
    assert not _length(history, plan, table, search._replace(scores=[0.1 * s for s in rising]), {})


# ------------------------------------------------------------------- quality


def test_targets_that_a_column_gives_away(problem: Problem) -> None:
    X, y = problem
    with pytest.warns(FitQualityWarning, match=r"ended at noise_floor=1e-05, .* lower noise_fl"):
        ExactGPRegressor().fit(X, X[:, 0])
    ExactGPRegressor().fit(X, y)
    ExactGPRegressor(noise_floor=1e-2).fit(X, X[:, 0])
    ExactGPRegressor().fit(X, np.ones(120))
    # Of a predictive objective the functions have the variance, and the noise may go.
    model = ppgpr_(max_iter=150, noise_floor=1e-3).fit(X, y)
    assert model.noise_variance_ < 8e-2 * y.var()


@pytest.mark.parametrize(
    ("size", "message"),
    [(5.0, "are too narrow: .* raise beta_reg"), (0.0, "are too wide: .* varies with X")],
)
def test_intervals_that_do_not_hold_what_they_say(
    size: float, message: str, rng: np.random.Generator
) -> None:
    X = rng.normal(size=(600, 2))
    y, noise = np.sin(2 * X[:, 0]), 0.3 * rng.normal(size=600)
    model = svgp()
    with pytest.warns(FitQualityWarning, match=message) as caught:
        model.fit(X[:200], (y + noise)[:200], X_val=X[200:], y_val=(y + size * noise)[200:])
    assert len(caught) == 1
    model.fit(X[:200], (y + noise)[:200], X_val=X[200:], y_val=(y + noise)[200:])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_coverage_is_that_of_predict_interval(rng: np.random.Generator) -> None:
    X = rng.normal(size=(250, 2))
    Y = X @ rng.normal(size=(2, 3)) + rng.normal(size=(250, 3)) * (1 + 4 * (X[:, :1] > 0))
    Y[::7, 1] = np.nan
    Y[::14] = np.nan
    Y_val = 3.0 * Y[150:]
    model = DSPPRegressor(n_inducing=10, max_iter=30, random_state=0)
    with pytest.warns(FitQualityWarning) as caught:
        model.fit(X[:150], Y[:150], X_val=X[150:], y_val=Y_val)
    lower, upper = model.predict_interval(X[150:], coverage=0.9)
    seen = ~np.isnan(Y_val)
    share = ((lower <= Y_val) & (Y_val <= upper))[seen].mean()
    assert f"{share:.0%} of {seen.sum()} held-out entries of y" in str(caught[-1].message)


def of_equal_rows(n_inside: int, n_targets: int, n_rows: int) -> Coverage:
    return Coverage(n_inside, n_targets, n_targets, n_rows, n_rows)


def test_coverage_of_folds_is_that_of_separate_fits(problem: Problem, monkeypatch: Any) -> None:
    X, y = problem
    monkeypatch.setattr(ppgpr, "PREDICTIVE_EPOCHS", Epochs(longest=30))
    seen: list[Coverage] = []
    monkeypatch.setattr("skgp.fitting.diagnosis._calibration", lambda c, _: seen.append(c) or [])
    # With all rows for inducing inputs nothing of a fit is random.
    scores = PPGPRRegressor(random_state=0).fit(X, y).validation_scores_
    n_epochs = 1 + int(np.argmax(scores))
    monkeypatch.setattr(schedules, "one_cycle", partial(gradual, n_epochs, 1.0))
    folds = fold_numbers(row_keys(X, y[:, None]), np.ones((120, 1), dtype=bool), 5)
    n_inside = 0
    for fold in range(5):
        out = folds == fold
        part = PPGPRRegressor(max_iter=n_epochs, random_state=0).fit(X[~out], y[~out])
        lower, upper = part.predict_interval(X[out], coverage=0.9)
        n_inside += int(((lower <= y[out]) & (y[out] <= upper)).sum())
    assert seen[0] == of_equal_rows(n_inside, 120, 120)


def test_coverage_of_folds_is_that_at_the_best_score(monkeypatch: Any, tmp_path: Path) -> None:
    """Neither at the first nor at the last one, and also if a search goes on after its best.

    Seeds 4 to 7 give data whose best score is in between.
    """
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * np.abs(X[:, 1]) * rng.normal(size=60)
    monkeypatch.setattr(ppgpr, "PREDICTIVE_EPOCHS", Epochs(longest=20))
    seen: list[Coverage] = []
    monkeypatch.setattr("skgp.fitting.diagnosis._calibration", lambda c, _: seen.append(c) or [])
    counted: list[Coverage] = []

    def score(recipe: Any, table: Table, held_out: Table, model: Any) -> float:
        counted.append(coverage_of(model, held_out))
        return validation_score(recipe, table, held_out, model)

    model = PPGPRRegressor(n_inducing=60, learning_rate_init=0.3, random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr(folds, "validation_score", score)
        model.fit(X, y)
    inside = np.reshape([c.inside for c in counted], (20, 5)).sum(1)
    best = int(np.argmax(model.validation_scores_))
    assert 0 < best < 15
    assert inside[best] not in (inside[0], inside[-1])

    def interrupts(scores: list[float]) -> bool:
        if len(scores) == 16:
            raise KeyboardInterrupt
        return False

    model.set_params(checkpoint=Checkpoint(tmp_path, every=0))
    with monkeypatch.context() as patch:
        patch.setattr(cross_validation, "_is_stale", interrupts)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    model.fit(X, y)
    assert seen == 2 * [of_equal_rows(inside[best], 60, 60)]


@pytest.mark.parametrize(
    ("n_inside", "n_rows", "warns"),
    # 0.9 - 0.05 less what 1 in 1,000 binomial shares is below: of 100 rows 0.80, of 1,000 0.87.
    [
        (77, 100, False),
        (74, 100, True),
        (825, 1000, False),
        (815, 1000, True),
        (0, 0, False),
        (100, 100, False),
        (970, 1000, False),
        (985, 1000, True),
    ],
)
def test_chance_and_a_margin_are_tolerated(n_inside: int, n_rows: int, warns: bool) -> None:
    assert bool(_calibration(of_equal_rows(n_inside, n_rows, n_rows), {"beta_reg": 1.0})) == warns


def test_outputs_of_a_row_may_miss_together() -> None:
    assert not _calibration(
        of_equal_rows(1540, 2000, 100), ["beta_reg"]
    )  # 0.77 of 2,000 independent ones is too few
    assert _calibration(of_equal_rows(1540, 2000, 2000), {"beta_reg": 1.0})


@pytest.mark.parametrize("cls", [SVGPRegressor, SVGPClassifier])
def test_weights_that_sum_to_one_weigh_next_to_nothing(cls: Any, problem: Problem) -> None:
    X, y = problem
    y = y if cls is SVGPRegressor else y > 0.0
    model = cls(n_inducing=10, max_iter=30, random_state=0)
    with pytest.warns(FitQualityWarning, match="sums to 1, so all rows together count as 1:"):
        model.fit(X, y, sample_weight=np.full(120, 1.0 / 120.0))
    model.fit(X, y, sample_weight=np.full(120, 0.1))


@pytest.mark.parametrize("factors", [[1.0, 1e6], [1e3, 1e3], [1e-3, 1e-3]])
def test_inputs_that_nobody_scaled(factors: list[float], problem: Problem) -> None:
    X, y = problem
    message = r"^with normalize_X=False the columns of X have .* set normalize_X=True$"
    with pytest.warns(FitQualityWarning, match=message) as caught:
        svgp(normalize_X=False).fit(X * factors, y)
    assert len(caught) == 1
    svgp().fit(X * factors, y)
    svgp(normalize_X=False).fit(np.column_stack([X * [3.0, 0.3], np.full(120, 1e6)]), y)
    # Here it is the network of the user that scales.
    network = lambda n_features: torch.nn.BatchNorm1d(n_features, affine=False)  # noqa: E731
    svgp(normalize_X=False, feature_extractor=network).fit(X * factors, y)


# ------------------------------------------------------------------- manners


@pytest.mark.parametrize(
    "cls",
    [
        SVGPRegressor,
        PPGPRRegressor,
        pytest.param(DSPPRegressor, marks=pytest.mark.slow),
        SVGPClassifier,
    ],
)
def test_ordinary_fits_by_default_are_silent(cls: Any, rng: np.random.Generator) -> None:
    """All warnings are errors here."""
    X = rng.normal(size=(200, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=200)
    cls(random_state=0).fit(X, y > 0.0 if cls is SVGPClassifier else y)


def test_the_warning_points_at_the_call_of_fit(problem: Problem) -> None:
    with pytest.warns(ConvergenceWarning) as caught:
        svgp(learning_rate_init=3.0).fit(*problem)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_each_fit_of_a_search_warns_once(problem: Problem) -> None:
    search = GridSearchCV(svgp(), {"learning_rate_init": [0.03, 3.0]}, cv=2, refit=False)
    with pytest.warns(ConvergenceWarning) as caught:
        search.fit(*problem)
    assert len(caught) == 2


def test_an_embedding_may_be_too_short(rng: np.random.Generator) -> None:
    table = rng.normal(size=(60, 1)) * np.arange(1.0, 5.0) + 0.1 * rng.normal(size=(60, 4))
    model = MOGPEmbedding(n_components=1, n_inducing=10, max_iter=20, random_state=0)
    with pytest.warns(ConvergenceWarning, match="still falling after max_iter=20"):
        model.fit(table)


@pytest.mark.filterwarnings("ignore:the loss was still falling")
def test_remedies_of_an_embedding_are_about_its_table(rng: np.random.Generator) -> None:
    """It has no y, and nobody scales its inputs."""
    table = rng.normal(size=(60, 1)) * np.arange(1.0, 5.0)
    make = partial(MOGPEmbedding, n_components=1, n_inducing=10, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"^training failed: .* set normalize_X=True$"):
        make(max_iter=5, normalize_X=False).fit(1e-5 * table)
    fast = make(max_iter=300, learning_rate_init=0.1, noise_floor=1e-3)
    with pytest.warns(FitQualityWarning, match="if X has no noise, lower noise_floor"):
        fast.fit(table)
    fast.set_params(normalize_X=False)
    with pytest.warns(FitQualityWarning, match="in units of X unless normalize_X=True"):
        fast.fit(table)
