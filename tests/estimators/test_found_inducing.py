"""How many inducing inputs a fit takes if it may choose."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal, norm

from skgp import DSPPClassifier, DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.core.kernels.choice import make_kernel
from skgp.core.layers.posteriors import FullPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.starts import bound_per_row
from skgp.core.networks.warping import InputWarp
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting import cross_validation, folds
from skgp.fitting.folds import FoldedRows
from skgp.fitting.rows import Rows
from skgp.fitting.search import exceeds_its_error, scores_of_rows
from skgp.fitting.table import Table

pytestmark = pytest.mark.usefixtures("short_start")


def _rows(n, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(4.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + noise * rng.standard_normal(n)


def _numbers(model):
    return [layer.Z.shape[-2] for layer in model.model_.stack.layers]


def _jitters(stack):
    return [layer.jitter for layer in stack.layers]


def test_the_bound_per_row_is_that_of_the_naive_formula():
    """A row of weight two counts as two rows."""
    rng = np.random.default_rng(2)
    x, Z, y = (rng.standard_normal(shape) for shape in [(20, 2), (2, 4, 2), (2, 20)])
    weight = np.repeat([1, 2], 10)
    x_all, y_all = np.repeat(x, weight, 0), np.repeat(y, weight, 1)
    noise = np.array([0.2, 0.5])
    kernel = make_kernel("rbf", 2, 2, 1.1)
    posterior = FullPosterior(torch.zeros(2, 4, dtype=torch.float64), 1.0)
    layer = SparseGP(kernel, torch.from_numpy(Z), posterior, 1e-10).double()

    def rbf(a, b):
        return np.exp(-0.5 * np.square((a[:, None] - b[None]) / 1.1).sum(-1))

    expected = []
    for g in range(2):
        Q = rbf(x_all, Z[g]) @ np.linalg.solve(rbf(Z[g], Z[g]), rbf(Z[g], x_all))
        density = multivariate_normal(np.zeros(30), Q + noise[g] * np.eye(30)).logpdf(y_all[g])
        expected.append((density - np.trace(np.eye(30) - Q) / (2.0 * noise[g])) / 30)
    rows = (torch.from_numpy(a) for a in (x, y, weight.astype(float), noise))
    np.testing.assert_allclose(bound_per_row(layer, *rows), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("n", "n_outputs", "number"), [(400, 1, 400), (400, 2, 300), (620, 1, 300)]
)
def test_a_ppgpr_has_an_inducing_input_for_each_row_of_one_output(n, n_outputs, number):
    X, y = _rows(n, 0.5)
    model = PPGPRRegressor(max_iter=1, early_stopping=False, random_state=0)
    assert _numbers(model.fit(X, np.column_stack([y] * n_outputs))) == [number]


@pytest.mark.parametrize("noise", [0.0, 0.5])  # exact copies, and other targets of the same inputs
@pytest.mark.parametrize("make", [PPGPRRegressor, SVGPRegressor])
def test_copies_of_an_input_count_once(make, noise, monkeypatch):
    monkeypatch.setattr("skgp.recipes.optimum._BOUND_ITERATIONS", 2)
    X, y = _rows(350, 0.5)
    X, y = np.tile(X, (2, 1)), np.tile(y, 2)
    y += noise * np.random.default_rng(1).standard_normal(len(y))
    params = {} if make is SVGPRegressor else {"max_iter": 1, "early_stopping": False}
    model = make(random_state=0, **params).fit(X, y)
    assert _numbers(model) == [350]
    distinct = (np.unique(X, axis=0) - X.mean(axis=0)) / X.std(axis=0)
    Z = model.model_.stack.top.Z.detach().numpy()[0]  # moved by one step
    np.testing.assert_allclose(cdist(distinct, Z).min(axis=1), 0.0, atol=0.005)


@pytest.mark.parametrize("make", [PPGPRRegressor, DSPPRegressor, SVGPRegressor])
def test_the_top_layer_keeps_the_jitter_beyond_one_batch(make):
    params = {"max_iter": 1, "early_stopping": False, "jitter": 1e-3, "random_state": 0}
    for batch_size, kept in ((60, 0.01), (41, 0.01), (30, 1.0)):
        model = make(batch_size=batch_size, **params)
        jitter = model.fit(*_rows(60, 0.1)).model_.stack.top.jitter
        assert jitter == pytest.approx(1e-3 * (1.0 if make is SVGPRegressor else kept))
    for n_inducing, kept in (("auto", 1e-4), (60, 1e-4), (59, 0.01)):
        model = SVGPRegressor(n_inducing=n_inducing, jitter=1e-3, random_state=0)
        jitter = model.fit(*_rows(60, 0.1)).model_.stack.top.jitter
        assert jitter == pytest.approx(1e-3 * kept)


def test_a_larger_top_layer_takes_shorter_steps():
    moves = []
    for n_top in (16, 64):
        params = {"n_inducing": [16, n_top], "early_stopping": False, "random_state": 0}
        X, y = _rows(100, 0.1)
        start, end = (
            DSPPRegressor(max_iter=2, learning_rate_init=rate, **params).fit(X, y).model_.likelihood
            for rate in (1e-12, 1e-3)
        )
        moves.append((end.log_excess_noise - start.log_excess_noise).abs().item())
    # Adam's first steps have the length of the rate, whatever the gradient.
    np.testing.assert_allclose(moves[0] / moves[1], 2.0, rtol=0.05)


@pytest.mark.parametrize(
    ("n", "params", "number"),
    [(400, {}, 400), (400, {"max_iter": 2}, 300), (1600, {}, 300), (400, {"n_inducing": 50}, 50)],
)
def test_an_optimum_has_an_inducing_input_for_each_row(n, params, number, monkeypatch):
    monkeypatch.setattr("skgp.recipes.optimum._BOUND_ITERATIONS", 2)
    model = SVGPRegressor(random_state=0, **params).fit(*_rows(n, 0.5))
    assert _numbers(model) == [number]


def test_models_of_folds_are_built_as_the_model_they_are_for(monkeypatch):
    sizes, jitters, made = [], [], folds.first_models

    def recorded(*args):
        models = made(*args)
        sizes.append([layer.Z.shape[-2] for layer in models[0].stack.layers])
        jitters.append(_jitters(models[0].stack))
        return models

    monkeypatch.setattr(folds, "first_models", recorded)
    monkeypatch.setattr("skgp.recipes.spec.MANY_INDUCING", 120)
    monkeypatch.setattr("skgp.estimators.ppgpr.ALL_INDUCING", 150)
    PPGPRRegressor(max_iter=1, random_state=0).fit(*_rows(210, 0.5))  # whose model has 120
    np.testing.assert_allclose(jitters[:6], [[1e-10]] * 3 + [[1e-6]] * 3)
    assert sizes[:3] == [[140]] * 3  # the models of all rows, as they begin
    assert sizes[3:6] == [[120]] * 3  # by themselves, 140 rows would have 140


@pytest.mark.parametrize(("most", "kept"), [(60, 1e-6), (59, 1e-4)])
def test_the_jitter_of_an_untrained_gp_depends_on_its_size(most, kept, monkeypatch):
    monkeypatch.setattr("skgp.recipes.spec.MOST_FIXED_INDUCING", most)
    monkeypatch.setattr("skgp.fitting.cross_validation.share_of_first", lambda *given: 0.0)
    X, y = _rows(60, 0.1)
    params = {"max_iter": 1, "jitter": 1e-3, "random_state": 0}
    for make in (PPGPRRegressor, DSPPRegressor):
        model = make(**params).fit(X, y)
        assert _numbers(model)[-1] == 60
        assert model.model_.stack.top.jitter == pytest.approx(1e-3 * kept)


@pytest.mark.parametrize("is_warped", [True, False])
@pytest.mark.parametrize("make", [PPGPRRegressor, DSPPRegressor, DSPPClassifier])
def test_models_that_are_compared_agree_on_transforms(make, is_warped, monkeypatch):
    """Whether to transform skewed inputs is decided once, from all rows."""
    bounds = iter([0.0, 1.0] if is_warped else [1.0, 0.0])  # without transforms, and with them
    bound = "skgp.recipes.features.bound_of_functions"
    monkeypatch.setattr(bound, lambda *args: torch.tensor([next(bounds)]))
    score, seen = folds.validation_score, []

    def scored(recipe, table, held_out, model):
        seen.append(isinstance(model.stack.features, InputWarp))
        return score(recipe, table, held_out, model)

    monkeypatch.setattr(folds, "validation_score", scored)
    X, y = _rows(150, 0.5)
    model = make(max_iter=1, random_state=0)
    model.fit(np.exp(2.0 * X), y > 0.0 if make is DSPPClassifier else y)
    assert len(seen) >= 5
    assert set(seen) == {is_warped} == {model.input_powers_.min() < 1.0}


@pytest.mark.usefixtures("full_start")
@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize("make", [PPGPRRegressor, DSPPRegressor])
def test_the_jitter_of_a_gp_as_it_begins_does_not_hide_the_optimum(make, rng):
    """Of functions that are almost linear the variance is large, and the jitter relative to it."""
    X = rng.standard_normal((300, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.1 * X[:, 0] * X[:, 1]
    model = make(random_state=0).fit(X[:100], y[:100])
    assert model.n_iter_ == 1
    best = SVGPRegressor(random_state=0).fit(X[:100], y[:100])
    ratio = np.mean(model.predict_dist(X[100:]).crps(y[100:]))
    ratio /= np.mean(best.predict_dist(X[100:]).crps(y[100:]))
    assert ratio < 1.1  # 1.3 with a hundredth of the usual jitter
    assert model.model_.stack.top.jitter == pytest.approx(best.model_.stack.top.jitter)


@pytest.mark.parametrize("make", [PPGPRRegressor, DSPPRegressor])
def test_inducing_inputs_that_are_all_inputs_do_not_move(make):
    X, y = _rows(60, 0.1)
    params = {"max_iter": 3, "early_stopping": False, "random_state": 0, "normalize_X": False}
    model = make(n_inducing=60, **params).fit(X, y)
    top = model.model_.stack.top
    assert not top.Z.requires_grad
    seen = top.Z.detach().numpy()[0, :, -2:]  # the top layer of a DSPP sees hidden functions, too
    np.testing.assert_allclose(np.unique(seen, axis=0), np.unique(X, axis=0), atol=1e-12)
    assert make(n_inducing=59, **params).fit(X, y).model_.stack.top.Z.requires_grad


def _matern(a, b, lengthscale):
    r = math.sqrt(5.0) * cdist(a / lengthscale, b / lengthscale)
    return (1.0 + r + r**2 / 3.0) * np.exp(-r)


@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize("make", [PPGPRRegressor, DSPPRegressor])
def test_held_out_rows_may_prefer_all_rows_as_they_begin(make, monkeypatch):
    """That is a GP which is conditioned on all rows; hidden functions hardly vary."""
    monkeypatch.setattr("skgp.recipes.spec.MANY_INDUCING", 30)
    monkeypatch.setattr("skgp.recipes.spec.FEW_INDUCING", 30)
    monkeypatch.setattr("skgp.estimators.ppgpr.ALL_INDUCING", 30)
    monkeypatch.setattr(cross_validation, "share_of_first", lambda *given: 0.0)
    X, y = _rows(150, 0.05)  # beside which the jitter does not count
    X_new = _rows(50, 0.05, seed=1)[0]
    model = make(max_iter=2, random_state=0).fit(X, y)
    stack, likelihood = model.model_.stack, model.model_.likelihood
    assert _numbers(model)[-1] == 150
    assert model.n_iter_ == len(model.validation_scores_) == 1
    seen = []
    for part in (X, X_new):
        x = torch.from_numpy((part - X.mean(0)) / X.std(0))
        for layer in stack.gp_layers[:-1]:
            x = torch.cat([layer.moments(x[None], layer.factors()).f_mean[0], x], -1)
            assert x[:, :-2].abs().max() < 0.02
        seen.append(x.detach().numpy())
    kernel = stack.top.kernel
    lengthscale = kernel.lengthscale.detach().numpy().reshape(1, -1)
    variance, noise = kernel.variance.item(), likelihood.noise_var.item()
    K, k = (variance * _matern(seen[0], part, lengthscale) for part in seen)
    C = K + noise * np.eye(150)
    mean = stack.top.mean.item() + k.T @ np.linalg.solve(C, (y - y.mean()) / y.std())
    deviation = np.sqrt(variance + noise - (k * np.linalg.solve(C, k)).sum(0))
    predicted, std = model.predict(X_new, return_std=True)
    np.testing.assert_allclose((predicted - y.mean()) / y.std(), mean, atol=1e-3)
    np.testing.assert_allclose(std / y.std(), deviation, rtol=0.01)


def test_nor_does_a_ppgpr_train_without_a_clear_gain():
    """It begins with all inputs as inducing inputs; what it can gain is noise that varies."""
    X, _ = _rows(150, 0.5)
    epsilon = np.random.default_rng(2).standard_normal(150)
    of_one_size = X[:, 0] + 0.3 * epsilon
    still = PPGPRRegressor(max_iter=1, random_state=0).fit(X, of_one_size)
    kept = PPGPRRegressor(max_iter=40, random_state=0).fit(X, of_one_size)
    assert kept.n_iter_ == len(kept.validation_scores_) == 1
    assert np.array_equal(kept.predict(X), still.predict(X))
    of_all_sizes = X[:, 0] + np.exp(2.0 * X[:, 1]) * epsilon
    trained = PPGPRRegressor(max_iter=40, random_state=0).fit(X, of_all_sizes)
    assert _numbers(trained) == [150]
    assert trained.n_iter_ > 1


def _scored_by_size(monkeypatch, more, gain=0.0):
    """Top layers of more than 64 score so much, others the gain of each epoch of five folds.

    All rows score the same. Returns the sizes of those that have been scored.
    """
    seen = []

    def scored(recipe, table, held_out, model):
        seen.append(model.stack.top.Z.shape[-2])
        return more if seen[-1] > 64 else gain * (seen.count(64) // 5)

    def of_rows(model, held_out):
        is_larger = model.stack.top.Z.shape[-2] > 64
        return np.full((2, len(held_out)), more if is_larger else gain * (seen.count(64) // 5))

    monkeypatch.setattr(folds, "validation_score", scored)
    monkeypatch.setattr(folds, "scores_of_rows", of_rows)
    monkeypatch.setattr(cross_validation, "with_residual_noise", lambda *given: given[:2])
    return seen


@pytest.mark.parametrize(("score", "number"), [(9.0, 150), (-9.0, 64)])
def test_held_out_rows_choose_between_both(score, number, monkeypatch):
    seen = _scored_by_size(monkeypatch, score)
    X, y = _rows(150, 0.5)
    model = DSPPRegressor(max_iter=1, random_state=0).fit(X, y)
    assert _numbers(model) == [64, number]
    assert model.validation_scores_[0] == max(score, 0.0)
    assert seen == [120] * 5 + [64] * 5


@pytest.mark.parametrize(
    ("ahead", "behind", "number"), [(0.9, -9.0, 150), (1.1, 0.9, 64), (1.1, 1.1, 150)]
)
def test_a_trained_model_has_to_be_clearly_ahead(ahead, behind, number, monkeypatch):
    """What is trained is ahead in density and behind in CRPS by so many standard errors.

    One observation with a weight of two, and two copies, count the same.
    """
    X, y = _rows(150, 0.5)
    X, y = np.append(X, X[:1], 0), np.append(y, y[0])
    weight = np.append(np.ones(149), [2.0, 1.0])
    noise = np.random.default_rng(1).normal(size=150)
    observations = 1.0 + np.isin(np.arange(150), [0, 149])
    mean = np.average(noise, weights=observations)
    sums = observations * (noise - mean)
    error = math.sqrt(150 / 149 * (sums**2).sum()) / 152
    noise = dict(zip(y[:150], noise - mean, strict=True))

    def of_rows(model, held_out):
        if model.stack.top.Z.shape[-2] > 64:
            return np.zeros((2, len(held_out)))
        of_targets = np.array([noise[value] for value in held_out.Y[:, 0]])
        return np.stack([of_targets + ahead * error, of_targets - behind * error])

    monkeypatch.setattr(folds, "scores_of_rows", of_rows)
    # Models with normal noise are mixed.
    model = DSPPRegressor(likelihood="student_t", max_iter=1, random_state=0)
    model.fit(X, y, sample_weight=weight)
    assert _numbers(model) == [64, number]


@pytest.mark.parametrize(("size", "number"), [(120, 64), (64, 150)])
def test_models_whose_score_is_no_number_are_not_preferred(size, number, monkeypatch):
    def scored(recipe, table, held_out, model):
        return math.nan if model.stack.top.Z.shape[-2] == size else 0.0

    monkeypatch.setattr(folds, "validation_score", scored)
    X, y = _rows(150, 0.5)
    model = DSPPRegressor(max_iter=1, random_state=0).fit(X, y)
    assert _numbers(model) == [64, number]
    assert model.validation_scores_ == [0.0]


def test_the_error_of_a_mean_is_that_of_many_draws(rng):
    """Of observations in one to three parts of different weights."""
    keys = np.repeat(np.arange(200), rng.integers(1, 4, size=200))
    weights = rng.uniform(0.5, 2.0, size=len(keys))
    draws = rng.normal(size=(4000, 200))[:, keys]  # parts of one observation are equal
    means = np.average(draws, axis=1, weights=weights)
    above = [exceeds_its_error(d, weights, keys) for d in draws]
    # As often as a normal number is above its standard deviation.
    assert np.mean(above) == pytest.approx(norm.sf(1.0), abs=4 * math.sqrt(0.16 * 0.84 / 4000))
    assert means[above].min() > 0.0


@pytest.mark.filterwarnings("ignore:.*still:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("gain", "n_epochs"), [(0.01, 60), (0.2, 70)])
def test_a_search_that_will_not_be_as_good_is_given_up(gain, n_epochs, monkeypatch):
    """The models of all rows score 9, which 70 epochs with a gain of 0.2 exceed."""
    seen = _scored_by_size(monkeypatch, 9.0, gain)
    model = DSPPRegressor(max_iter=70, random_state=0).fit(*_rows(150, 0.5))
    assert seen == [120] * 5 + [64] * 5 * n_epochs
    assert _numbers(model) == [64, 150 if n_epochs < 70 else 64]


@pytest.mark.parametrize("make", [DSPPRegressor, DSPPClassifier])
def test_a_model_of_all_rows_without_a_factor_leaves_the_other_one(make, monkeypatch):
    made = folds.first_models

    def refused(recipe, table, *args):
        models = made(recipe, table, *args)
        if len(table) == 150 and models[0].stack.top.Z.shape[-2] == 150:
            raise NotPositiveDefiniteError("no factor")
        return models

    monkeypatch.setattr(folds, "first_models", refused)
    rank = {64: 0.0, 120: 1.0}
    score = "skgp.fitting.folds.validation_score"
    monkeypatch.setattr(score, lambda _r, _t, _h, model: rank[model.stack.top.Z.shape[-2]])
    of_rows = "skgp.fitting.folds.scores_of_rows"
    monkeypatch.setattr(of_rows, lambda _model, held_out: np.zeros((2, len(held_out))))
    X, f = _rows(150, 0.5)
    model = make(max_iter=1, random_state=0).fit(X, f if make is DSPPRegressor else f > 0.0)
    assert _numbers(model) == [64, 64]
    assert model.validation_scores_ == [0.0]


@pytest.mark.parametrize(
    ("params", "n_outputs"),
    [({"n_inducing": 64}, 1), ({"initial_noise": 0.1}, 1), ({"early_stopping": False}, 1), ({}, 2)],
)
def test_nor_are_there_others_than_were_asked_for(params, n_outputs):
    X, y = _rows(150, 0.01)
    model = DSPPRegressor(max_iter=1, random_state=0, **params)
    assert _numbers(model.fit(X, np.column_stack([y] * n_outputs))) == [64, 64]


@pytest.fixture
def alone(monkeypatch):
    """No untrained GP beside a classifier."""
    monkeypatch.setattr("skgp.recipes.sizes._MOST_CLASSIFIED", 0)


def _labels(n):
    X, f = _rows(n, 0.0)
    return X, f > 0.0


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("score", "number"), [(0.06, 150), (0.04, 64)])
def test_a_classifier_trains_more_that_begin_better_by_far(score, number, monkeypatch):
    seen = _scored_by_size(monkeypatch, score)
    model = DSPPClassifier(max_iter=1, random_state=0).fit(*_labels(150))
    assert _numbers(model) == [64, number]
    of_folds = 120 if number > 64 else 64
    assert seen == [64] * 5 + [120] * 5 + [of_folds] * 5  # both as they begin, then trained
    assert model.model_.n_steps == 1


@pytest.mark.usefixtures("alone")
def test_targets_do_not_make_inputs_distinct(monkeypatch):
    """Both labels of 320 inputs are 640 different rows, which would be too many."""
    seen = _scored_by_size(monkeypatch, 1.0)
    X, y = np.tile(_labels(320)[0], (2, 1)), np.repeat([False, True], 320)
    model = DSPPClassifier(max_iter=1, random_state=0).fit(X, y)
    assert _numbers(model) == [64, 320]
    assert len(seen) == 9


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("n", "params", "number"),
    [(620, {}, 64), (150, {"n_inducing": 64}, 64), (200, {"share_kernel": True}, 150), (8, {}, 8)],
)
def test_a_classifier_compares_no_starts(n, params, number, monkeypatch):
    """Of too many rows, of a number that is given or that all share, of too few to be cut."""
    compared = []
    monkeypatch.setattr(FoldedRows, "untrained", lambda *args: compared.append(args))
    X, y = _labels(n)
    model = DSPPClassifier(max_iter=1, random_state=0, **params).fit(X, y)
    assert _numbers(model)[-1] == number
    assert not compared


def test_classes_of_one_input_each_have_no_folds_to_compare():
    X, y = np.tile(_labels(70)[0], (2, 1)), np.tile(np.arange(70), 2)
    model = DSPPClassifier(max_iter=1, share_kernel=False, random_state=0).fit(X, y)
    assert _numbers(model) == [64, 64]


@pytest.mark.parametrize(
    ("n_outputs", "likelihood"), [(1, "normal"), (2, "normal"), (1, "student_t")]
)
def test_scores_of_rows_are_those_of_predictions(n_outputs, likelihood):
    X, y = _rows(60, 0.3)
    Y = np.column_stack([y, 3.0 * np.exp(y)])[:, :n_outputs]
    model = DSPPRegressor(n_inducing=10, max_iter=5, likelihood=likelihood, random_state=0)
    model.fit(X, Y if n_outputs > 1 else y)
    unit = Y.std(axis=0)
    scales = model.model_.x_scale, model.model_.y_scale
    table = Table(Rows(X, Y, None), *scales, torch.zeros(()).double())
    by_density, by_crps = scores_of_rows(model.model_, table)
    dist = model.predict_dist(X)
    Y = Y if n_outputs > 1 else y
    density = dist.joint_logpdf(Y) if n_outputs > 1 else dist.logpdf(Y)
    np.testing.assert_allclose(by_density, density + np.log(unit).sum(), rtol=1e-6)
    crps = (dist.crps(Y).reshape(60, -1) / unit).mean(axis=1)
    expected = np.zeros(60) if likelihood == "student_t" else -crps
    np.testing.assert_allclose(by_crps, expected, rtol=1e-6)
