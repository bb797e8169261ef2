"""Epochs found by cross-validation: the same numbers by separate fits, and what they are worth."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skgp import DSPPClassifier, DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.core.folds import fold_numbers
from skgp.core.layers.sparse import SparseGP
from skgp.core.layers.two_bases import DecoupledGP
from skgp.core.nodes.sigma_points import LearnedNodes, MatchedNodes
from skgp.core.subsample import row_keys
from skgp.core.training import schedules
from skgp.core.training.run import Run
from skgp.core.training.schedules import gradual
from skgp.estimators import _estimator, dspp, ppgpr
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting import cross_validation, folds
from skgp.fitting.cross_validation import best_length
from skgp.fitting.plans import (
    Epochs,
    Minibatch,
    Stopping,
    continued_plan,
    limited_plan,
    minibatch_plan,
    without_search,
)
from skgp.fitting.search import falls_short
from skgp.scoring import coverage, nll

LONGEST = 30
SMALL = {
    "ppgpr": PPGPRRegressor(n_inducing=10, random_state=0),
    "dspp": DSPPRegressor(n_inducing=10, n_sites=4, width=2, random_state=0),
}


@pytest.fixture
def problem(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(60, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * np.abs(X[:, 1]) * rng.normal(size=60)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppgpr, "PREDICTIVE_EPOCHS", Epochs(longest=LONGEST))
    monkeypatch.setattr(dspp, "SIGMA_POINT_EPOCHS", Epochs(longest=LONGEST))


def test_scores_and_model_are_those_of_separate_fits(problem, short, monkeypatch) -> None:
    """With all rows for inducing inputs nothing of a fit is random."""
    X, y = problem
    params = {"n_inducing": 60, "learning_rate_init": 0.1, "random_state": 0}
    model = PPGPRRegressor(**params).fit(X, y)
    monkeypatch.setattr(schedules, "one_cycle", partial(gradual, LONGEST, 1.0))
    folds = fold_numbers(row_keys(X, y[:, None]), np.ones((60, 1), dtype=bool), 5)
    scores = []
    for fold in range(5):
        part = PPGPRRegressor(max_iter=LONGEST, early_stopping=False, **params)
        out = folds == fold
        part.fit(X[~out], y[~out], X_val=X[out], y_val=y[out])
        scores.append(part.validation_scores_)
    expected = np.mean(scores, axis=0)  # folds of 12 rows each
    np.testing.assert_allclose(model.validation_scores_, expected, rtol=1e-9, atol=1e-9)
    assert model.best_validation_score_ == max(model.validation_scores_)
    assert 1 < model.n_iter_ < LONGEST
    assert model.n_iter_ == 1 + int(np.argmax(expected >= expected.max() - 1e-4))

    monkeypatch.setattr(schedules, "one_cycle", partial(gradual, model.n_iter_, 1.0))
    alone = PPGPRRegressor(max_iter=model.n_iter_, early_stopping=False, **params)
    alone.fit(X, y)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-9)


@pytest.mark.parametrize("model", SMALL.values(), ids=SMALL)
def test_repeated_weighted_and_shuffled_rows_find_the_same(model, problem, short, rng) -> None:
    X, y = problem
    weight = rng.integers(1, 4, size=60)
    repeated = np.repeat(np.arange(60), weight)
    repeated = rng.permutation(repeated)
    model.fit(X, y, sample_weight=weight)
    found = model.validation_scores_, model.n_iter_, model.predict(X[:5])
    model.fit(X[repeated], y[repeated])
    np.testing.assert_allclose(model.validation_scores_, found[0], rtol=1e-5, atol=1e-5)
    assert model.n_iter_ == found[1]
    np.testing.assert_allclose(model.predict(X[:5]), found[2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", SMALL.values(), ids=SMALL)
def test_a_warm_start_trains_as_long_again(model, problem, short) -> None:
    X, y = problem
    model = clone(model).set_params(warm_start=True).fit(X, y)
    epochs, scores = model.n_iter_, model.validation_scores_
    assert scores is not None
    model.fit(X, y)
    assert model.n_iter_ == epochs
    assert model.validation_scores_ is None


def test_rows_of_the_user_are_scored_as_he_asks(problem, short) -> None:
    X, y = problem
    model = PPGPRRegressor(random_state=0).fit(X[10:], y[10:], X_val=X[:10], y_val=y[:10])
    score = model.predict_dist(X[:10]).logpdf(y[:10]).mean()
    assert model.validation_scores_[-1] == pytest.approx(score)
    assert len(model.validation_scores_) == model.n_iter_


def test_rows_of_the_user_do_not_change_how_long_a_fit_is(problem, monkeypatch) -> None:
    """They are no training rows, of which the numbers of epochs and batches are made."""
    monkeypatch.setattr(ppgpr, "PREDICTIVE_EPOCHS", Epochs(usual=5, least_steps=20, longest=9))
    X, y = problem
    X_val, y_val = np.tile(X, (2, 1)), np.tile(y, 2)
    for early_stopping in ("auto", False):
        params = {"n_inducing": 5, "batch_size": 60, "early_stopping": early_stopping}
        alone, watched = (
            PPGPRRegressor(**params, random_state=0).fit(X, y, X_val=held_out, y_val=of_held_out)
            for held_out, of_held_out in ((None, None), (X_val, y_val))
        )
        assert watched.n_iter_ == alone.n_iter_ == len(watched.validation_scores_)
        np.testing.assert_array_equal(watched.predict(X), alone.predict(X))


def test_the_search_ends_when_scores_have_not_risen_for_long(monkeypatch) -> None:
    monkeypatch.setattr(cross_validation, "_PATIENCE", 4)
    assert not cross_validation._is_stale([])
    assert not cross_validation._is_stale([0.0, 1.0, 0.9, 0.8, 0.7, 0.6])
    assert cross_validation._is_stale([0.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5])
    rising = list(range(100))
    assert not cross_validation._is_stale([*rising, *[0.0] * 49])
    assert cross_validation._is_stale([*rising, *[0.0] * 51])


def test_a_search_falls_short_if_the_rise_of_its_last_half_would_not_reach_the_goal() -> None:
    rising = [*range(60), 50]  # by one an epoch, 29 at the end of the first half
    best, rise = 59.0, (59.0 - 29.0) / 31
    reached = best + rise * (100 - 61)
    assert not falls_short(rising, reached - 1e-9, 100)
    assert falls_short(rising, reached + 1e-9, 100)
    assert not falls_short(rising[:59], 1e9, 100)  # too few to tell
    assert not falls_short(rising, -np.inf, 100)
    assert not falls_short([0.0] * 60, 0.0, 100)  # it has been reached
    assert not falls_short([], 0.0, 100)


def test_the_fewest_epochs_within_the_tolerance_are_best() -> None:
    assert best_length([0.0, 0.5, 0.95, 1.0, 0.2], tol=0.1) == 3
    assert best_length([0.0, 0.5, 0.95, 1.0, 0.2], tol=0.0) == 4


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The runs that begin during a test."""
    begun: list[Run] = []
    begin = Run.__init__

    def watched(run: Run, *args, **kwargs) -> None:
        begin(run, *args, **kwargs)
        begun.append(run)

    monkeypatch.setattr(Run, "__init__", watched)
    return begun


def test_a_chunk_of_a_stream_does_not_go_back(problem, runs) -> None:
    SMALL["ppgpr"].__sklearn_clone__().partial_fit(*problem)
    (run,) = runs
    assert (run.plan.n_folds, run.plan.n_retreats) == (0, 0)


def test_steps_of_all_rows_that_are_too_long_end_at_the_lowest_loss(short, runs) -> None:
    """The losses of folds and of the fit leap by more than half a nat, and training goes back."""
    X = np.linspace(-2.0, 2.0, 60)[:, None]
    y = np.sin(3.0 * X[:, 0])
    PPGPRRegressor(learning_rate_init=1.0, n_inducing=10, random_state=0).fit(X, y)
    assert [run._n_retreats for run in runs] == [2] * 5 + [1]
    run = runs[-1]
    assert max(run.history.loss_curve) > min(run.history.loss_curve) + 2.0
    ended = run.loss(run.data.batch(torch.arange(60)), run.n_steps).item()
    assert ended < min(run.history.loss_curve) + 0.1


def test_only_a_search_and_what_follows_it_go_back_to_the_lowest_loss() -> None:
    """A fit that goes on and a chunk of a stream begin where others have ended."""
    groups = Minibatch("auto", 100), Stopping("auto", 10, 1e-4), Epochs(longest=9)
    one, many = (minibatch_plan(*groups, n) for n in (90, 900))
    assert (one.n_folds, one.n_retreats, one.rise) == (5, 2, 0.5)
    assert (many.n_folds, many.n_retreats, many.rise) == (0, 6, 2.0)
    assert continued_plan(one, 5).n_retreats == without_search(one).n_retreats == 0
    assert without_search(many) == many
    assert limited_plan(one, 3).n_retreats == 2


def test_few_rows_and_a_number_of_epochs_are_not_searched(problem, short) -> None:
    X, y = problem
    assert PPGPRRegressor(random_state=0).fit(X[:19], y[:19]).validation_scores_ is None
    exact = PPGPRRegressor(max_iter=3, early_stopping=False, random_state=0).fit(X, y)
    assert exact.validation_scores_ is None
    assert exact.n_iter_ == 3
    # Twenty equal rows are one, which has no fold.
    model = PPGPRRegressor(random_state=0).fit(np.ones((30, 2)), np.ones(30))
    assert model.validation_scores_ is None


def test_max_iter_bounds_the_search(problem, short, monkeypatch) -> None:
    X, y = problem
    monkeypatch.setattr(cross_validation, "share_of_first", lambda *given: 1.0)
    free, longer, shorter = (
        PPGPRRegressor(random_state=0, **params).fit(X, y)
        for params in ({}, {"max_iter": 50}, {"max_iter": 2})
    )
    for model, most in ((free, LONGEST), (longer, 50), (shorter, 2)):
        assert len(model.validation_scores_) == most
        assert model.n_iter_ == best_length(model.validation_scores_, tol=1e-4)
    np.testing.assert_allclose(longer.validation_scores_[:LONGEST], free.validation_scores_)
    np.testing.assert_allclose(free.validation_scores_[:2], shorter.validation_scores_)


@pytest.mark.parametrize("model", SMALL.values(), ids=SMALL)
def test_several_batches_are_stopped_by_held_out_rows(model, problem) -> None:
    """The model kept is that of the best score, an average over epochs; X_val may hold the rows."""
    X, y = problem
    model = clone(model).set_params(batch_size=20, max_iter=12)
    model.fit(X, y, X_val=X[::2], y_val=y[::2])
    assert len(model.validation_scores_) == model.n_iter_ == 12
    best = model.best_validation_score_
    assert best == max(model.validation_scores_)
    np.testing.assert_allclose(model.predict_dist(X[::2]).logpdf(y[::2]).mean(), best, rtol=1e-4)
    assert model.fit(X, y).n_samples_seen_ == 54.0  # without a tenth
    assert len(model.validation_scores_) == 12
    many = clone(model).set_params(batch_size=20, max_iter=1)
    X_long, y_long = np.tile(X, (34, 1)), np.tile(y, 34)
    assert many.fit(X_long, y_long).validation_scores_ is None  # 102 batches


def test_rows_that_are_held_out_are_used_even_if_the_others_make_one_batch(
    problem, monkeypatch
) -> None:
    """Of 42 rows five are held out; the other 37 are less than one and a half batches of 26."""

    def refused(*args: object) -> None:
        raise AssertionError("a search beside the held-out rows")

    monkeypatch.setattr(_estimator, "found_plan", refused)
    X, y = problem[0][:42], problem[1][:42]
    model = PPGPRRegressor(batch_size=26, max_iter=8, n_inducing=5, random_state=0).fit(X, y)
    assert model.n_samples_seen_ == 37.0
    assert len(model.validation_scores_) == model.n_iter_


def annealed(scores: np.ndarray) -> int:
    """Epochs in which the rate falls: a quarter of those up to the best score."""
    return int(np.ceil((1 + np.argmax(scores)) / 4))


def steady(scores: np.ndarray, patience: int) -> int:
    """Epochs until the patience runs out with no gain of 0.01 since it last did, or ever."""
    mark, before, stale = -np.inf, -np.inf, 0
    for n_epochs, score in enumerate(scores, 1):
        stale += 1
        if score > mark + 0.01:
            mark, stale = score, 0
        if stale == patience:
            if mark == before:
                return n_epochs
            before, stale = mark, 0
    raise AssertionError("training has ended before")


def test_training_ends_where_held_out_rows_no_longer_gain(rng) -> None:
    """A hundred steps without a gain, or `n_iter_no_change` epochs if these are more, twice."""
    X, y = rng.normal(size=(200, 5)), rng.normal(size=200)  # nothing to learn
    params = {"n_inducing": 10, "n_inducing_mean": 10, "batch_size": 20, "random_state": 0}
    model = PPGPRRegressor(max_iter=200, **params).fit(X, y)
    scores = np.array(model.validation_scores_)
    n_steady = steady(scores, 10)  # of ten batches, with those of the held-out rows
    assert 20 < model.n_iter_ == n_steady + annealed(scores[:n_steady]) < 200
    model.set_params(n_iter_no_change=20).fit(X, y)
    scores = np.array(model.validation_scores_)
    n_steady = steady(scores, 20)
    assert 40 < model.n_iter_ == n_steady + annealed(scores[:n_steady]) < 200


@pytest.mark.slow
@pytest.mark.parametrize("cls", [PPGPRRegressor, DSPPRegressor])
def test_a_small_table_is_not_overfitted(cls, rng) -> None:
    """Of five inputs none tells anything; long training makes predictions far too certain."""
    X, y = rng.normal(size=(1120, 5)), rng.normal(size=1120)
    train, test = slice(120), slice(120, None)
    scores = {}
    for name, model in {
        "default": cls(random_state=0),
        "longer": cls(random_state=0, max_iter=1000),
        "long": cls(random_state=0, max_iter=200, early_stopping=False),
        "SVGP": SVGPRegressor(random_state=0),
    }.items():
        dist = model.fit(X[train], y[train]).predict_dist(X[test])
        scores[name] = nll(y[test], dist), coverage(y[test], dist, coverage=0.9)
    assert scores["default"][0] < scores["SVGP"][0] + 0.05
    assert scores["default"][1] > scores["SVGP"][1] - 0.03
    assert scores["longer"] == scores["default"]
    assert scores["long"][0] > scores["default"][0] + 0.1


def test_automatic_weights_and_sizes_depend_on_the_rows(problem, rng) -> None:
    X, y = problem
    short = {"max_iter": 1, "early_stopping": False, "random_state": 0}
    X_long = rng.normal(size=(1500, 2))
    y_long = X_long[:, 0]
    for cls, least, params in (
        (PPGPRRegressor, 0.2, {"n_inducing": 5, "n_inducing_mean": 5}),
        (DSPPRegressor, 0.05, {"n_inducing": 5}),
    ):
        assert cls(**short, **params).fit(X, y).beta_reg_ == 1.0
        assert cls(**short, **params).fit(X_long, y_long).beta_reg_ == pytest.approx(2 / 3)
        heavy = np.full(60, 1e6)
        assert cls(**short, **params).fit(X, y, sample_weight=heavy).beta_reg_ == least
        assert cls(**short, **params, beta_reg=0.3).fit(X, y).beta_reg_ == 0.3
    noisy = y_long[:200] + rng.standard_normal(200)
    model = DSPPRegressor(**short).fit(X_long[:200], noisy)
    assert model.inducing_points_.shape == (3, 64, 2)
    assert isinstance(model.model_.nodes, MatchedNodes)
    assert model.stack_.bottom.slope is None
    assert model.stack_.top.Z.shape == (1, 64, 5)
    model = DSPPRegressor(**short, topology="skip-all").fit(X_long[:200], y_long[:200])
    assert model.stack_.bottom.slope is not None
    middle = DSPPRegressor(**short, batch_size=500).fit(X_long, y_long)
    assert middle.inducing_points_.shape == (3, 117, 2)  # three times the root of 1,500
    assert isinstance(middle.model_.nodes, MatchedNodes)
    assert middle.stack_.top.Z.shape == (1, 117, 5)
    long = DSPPRegressor(**short, batch_size=142).fit(X_long, y_long)
    stream = DSPPRegressor(random_state=0).partial_fit(X_long[:400], y_long[:400])
    for model in (long, stream):
        assert model.inducing_points_.shape == (3, 300, 2)
        assert isinstance(model.model_.nodes, LearnedNodes)
        assert model.stack_.bottom.slope is not None
        assert model.stack_.top.Z.shape == (1, 300, 3)
    assert isinstance(PPGPRRegressor(**short).fit(X, y).stack_.top, SparseGP)
    long = PPGPRRegressor(**short, batch_size=500, n_inducing=5).fit(X_long, y_long)
    assert isinstance(long.stack_.top, DecoupledGP)


def test_the_weight_of_a_stream_is_that_of_its_rows_so_far(problem) -> None:
    """Or of all of them, if their number is known; not of the latest chunk alone."""
    X, y = problem
    model = PPGPRRegressor(n_inducing=5, random_state=0)
    heavy = np.full(60, 20.0)
    for n_total, beta_reg in ((None, 1000 / 1200), (None, 1000 / 2400), (4000, 0.25), (1e5, 0.2)):
        model.partial_fit(X, y, heavy, n_total=n_total)
        assert model.beta_reg_ == pytest.approx(beta_reg)


def test_a_fold_that_has_no_start_does_not_fail_the_fit(problem, monkeypatch) -> None:
    def no_start(*args, **kwargs):
        raise NotPositiveDefiniteError("no factor")

    monkeypatch.setattr(folds, "first_models", no_start)
    model = PPGPRRegressor(random_state=0).fit(*problem)
    assert model.n_iter_ == 100
    assert model.validation_scores_ is None


def test_restarts_are_compared_after_a_twentieth_of_the_epochs_found() -> None:
    plan = PPGPRRegressor()._recipe().plan(60)
    assert (limited_plan(plan, 200).n_trial_epochs, limited_plan(plan, 7).n_trial_epochs) == (10, 1)


@pytest.mark.parametrize("steady", [1.0, 3.0])
@pytest.mark.parametrize("n_steps", [5, 30, 400])
def test_a_short_fit_is_the_beginning_of_a_long_one(n_steps: int, steady: float) -> None:
    """The rate rises by a twentieth in each of the first steps, up to a steady one."""
    rates = [gradual(n_steps, steady, step / n_steps) for step in range(n_steps)]
    expected = [min(steady, (1 + step) / 20) for step in range(n_steps)]
    np.testing.assert_allclose(rates, expected, rtol=1e-12)


@pytest.mark.parametrize("cls", [PPGPRRegressor, DSPPRegressor])
@pytest.mark.parametrize(
    ("n_rows", "steady"), [(1000, 1.0), (1600, 3.0), (10_500, 3.0), (10_501, 1.0)]
)
def test_several_batches_have_longer_steps(cls, n_rows: int, steady: float) -> None:
    """Where the model is an average of few; without one a cycle has the rate that is given."""
    plan = cls()._recipe().plan(n_rows)
    second = 1 / (plan.max_iter * plan.n_batches(n_rows))  # step
    rates = [plan.schedule(share) for share in (0.0, second, 0.5)]
    np.testing.assert_allclose(rates, [0.05, 0.1, steady], rtol=1e-12)
    of_classes = DSPPClassifier()._recipe().plan(n_rows)
    assert of_classes.schedule(0.5) == 1.0
    one_cycle = cls(early_stopping=False)._recipe().plan(n_rows)
    assert max(one_cycle.schedule(share) for share in np.linspace(0, 1, 101)) <= 1.0
