"""Predictions at inputs of training rows, where rows were entered twice."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm

from skgp import DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.core.copies import Copies
from skgp.core.subsample import row_keys
from skgp.files import load, save
from skgp.fitting import copies as fitting_copies
from skgp.fitting import cross_validation, untrained_gp
from skgp.fitting.copies import copy_probability, probability_of_copies
from skgp.fitting.table import Scale
from skgp.scoring import crps, nll

pytestmark = pytest.mark.usefixtures("short_start")

BOTH = [PPGPRRegressor, DSPPRegressor]
FEW = {"max_iter": 2, "random_state": 0}


def _entered_twice(n: int, n_twice: int, seed: int = 0):
    """Noisy rows, some of which are there twice, and new rows that repeat others."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * rng.standard_normal(n)
    again = rng.permutation(n)[:n_twice]
    return np.vstack([X, X[again]]), np.append(y, y[again])


@pytest.fixture
def fitted(monkeypatch):
    """Fits with a share of the trained model that is given."""

    def fit(make, share, rows=None, weight=None, **params):
        monkeypatch.setattr(cross_validation, "share_of_first", lambda *given: share)
        rows = _entered_twice(150, 40) if rows is None else rows
        return make(**{**FEW, **params}).fit(*rows, sample_weight=weight)

    return fit


def _simulated(probability, draw, n=4000, seed=0):
    """Pairs of rows whose second target is the first one with a probability, else another draw.

    Keys, and targets, weights, log densities and CRPS of the standard normal.
    """
    rng = np.random.default_rng(seed)
    first, second = draw(rng, n), draw(rng, n)
    second = np.where(rng.random(n) < probability, first, second)
    y, keys = np.append(first, second), np.tile(np.arange(n), 2).astype(np.uint64)
    scores = y * (2.0 * norm.cdf(y) - 1.0) + 2.0 * norm.pdf(y) - 1.0 / np.sqrt(np.pi)
    return keys, np.stack([y, np.ones(2 * n), norm.logpdf(y), scores])


def _normals(rng, n):
    return rng.standard_normal(n)


def _atoms(rng, n):
    return rng.standard_normal(n).round()


@pytest.mark.parametrize("probability", [0.1, 0.6, 0.95])
@pytest.mark.parametrize("draw", [_normals, _atoms])
def test_the_probability_is_found(draw, probability) -> None:
    found = probability_of_copies(*_simulated(probability, draw), 1e-5)
    assert found == pytest.approx(probability, abs=0.04)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("draw", [_normals, _atoms])
def test_targets_that_agree_by_chance_are_no_copies(draw, seed) -> None:
    keys, rows = _simulated(0.0, draw, 300, seed)
    assert probability_of_copies(keys, rows, 1e-5) == 0.0


def test_near_targets_are_no_copies() -> None:
    """Rows of equal inputs have something in common, but not their targets."""
    keys, rows = _simulated(1.0, _normals, 300)
    rows[0] += 0.1 * np.random.default_rng(0).standard_normal(600)
    assert probability_of_copies(keys, rows, 1e-5) == 0.0


def test_the_density_has_to_gain() -> None:
    keys, rows = _simulated(0.3, _normals, 300)
    assert probability_of_copies(keys, rows, 1e-5) > 0.2
    assert probability_of_copies(keys, rows, 4.0) == 0.0


def test_one_pair_says_nothing() -> None:
    assert probability_of_copies(*_simulated(1.0, _normals, 1), 1e-5) == 0.0
    assert probability_of_copies(*_simulated(1.0, _normals, 2), 1e-5) == pytest.approx(2.0 / 3.0)


class _Rows(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.X)


def test_tables_have_units_of_their_own(monkeypatch) -> None:
    seen = []

    def noted(keys, rows, var):
        seen.append(rows)
        return probability_of_copies(keys, rows, var)

    monkeypatch.setattr(fitting_copies, "probability_of_copies", noted)
    keys, (y, weights, log_density, crps) = _simulated(0.5, _normals, 200)
    model = SimpleNamespace(has_plain_noise=lambda table: True)
    model.likelihood = SimpleNamespace(noise_floor=1e-5)
    tables, scores = [], []
    for rows, unit in ((slice(150), 1.0), (slice(150, None), 40.0)):
        scale = Scale(np.zeros((1, 1)), None, enabled=False)
        scale.unit = np.array([unit])
        given = {"X": keys[rows, None].astype(float), "Y": y[rows, None], "y_scale": scale}
        tables.append(_Rows(weights=weights[rows], **given))
        scores.append([log_density[rows] + np.log(unit), -crps[rows] / unit])
    found = copy_probability(model, tables, np.hstack(scores))
    expected = probability_of_copies(keys, np.stack([y, weights, log_density, crps]), 1e-5)
    assert found == pytest.approx(expected, rel=1e-12)
    assert_allclose(seen[0], [y, weights, log_density, crps], rtol=1e-9)
    assert 0.4 < found < 0.55
    model.has_plain_noise = lambda table: table is not tables[1]
    assert copy_probability(model, tables, np.hstack(scores)) == 0.0


def test_weights_that_count_are_copies() -> None:
    keys, rows = _simulated(0.5, _normals, 200)
    first = rows[:, :200]
    twice = rows[0, 200:] == first[0]
    alone = np.append(np.arange(200), 200 + np.flatnonzero(~twice))
    merged = rows[:, alone]
    merged[1] = np.append(1.0 + twice, np.ones((~twice).sum()))
    found = probability_of_copies(keys[alone], merged, 1e-5)
    assert found == pytest.approx(probability_of_copies(keys, rows, 1e-5), rel=1e-12)
    merged[1] *= 1.5  # which count nothing
    assert probability_of_copies(keys[alone], merged, 1e-5) == 0.0


@pytest.mark.parametrize("make", BOTH)
def test_copies_are_expected_where_there_are_some(make) -> None:
    rows = _entered_twice(200, 60)
    X, y = rows[0][:-30], rows[1][:-30]
    copies, others = (rows[0][-30:], rows[1][-30:]), _entered_twice(100, 0, seed=1)
    model = make(**FEW).fit(X, y)
    without = make(**FEW).fit(X[:200], y[:200])
    assert without.copy_probability_ == 0.0
    assert model.copy_probability_ == pytest.approx(30.0 / 31.0)
    of_both = [nll(others[1], each.predict_dist(others[0])) for each in (model, without)]
    assert of_both[0] == pytest.approx(of_both[1], abs=0.05)
    dist, plain = model.predict_dist(copies[0]), without.predict_dist(copies[0])
    assert nll(copies[1], dist) < nll(copies[1], plain) - 4.0
    assert crps(copies[1], dist) < 0.1 * crps(copies[1], plain)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("make", BOTH)
def test_all_predictions_agree(make, share, fitted) -> None:
    X, y = _entered_twice(150, 40)
    model, new = fitted(make, share), np.vstack([X[:3], X[:3] + 0.1])
    dist, p = model.predict_dist(new), model.copy_probability_
    assert p > 0.9
    plain = copy.deepcopy(model)
    plain.model_.copies = None
    before = plain.predict_dist(new)
    at = np.append(y[:3], before.mean()[3:])
    std = np.sqrt(1e-5 * np.var(y))
    expected = (1.0 - p) * before.pdf(at) + p * norm.pdf(at, y[[0, 1, 2, 0, 1, 2]], std)
    expected[3:] = before.pdf(at)[3:]
    assert_allclose(dist.pdf(at), expected, rtol=1e-6)
    assert_allclose(model.predict(new)[:3], (1.0 - p) * before.mean()[:3] + p * y[:3])
    mean, std = model.predict(new, return_std=True)
    assert_allclose(mean, dist.mean())
    assert_allclose(std, dist.std())
    assert_allclose(model.predict_latent(new).mean(), before.mean())
    drawn = model.sample_y(new, 1000, random_state=0)
    for draws, row in zip(drawn, new, strict=True):
        of_row = model.predict_dist(row[None])
        assert kstest(draws, lambda y, of_row=of_row: of_row.cdf(y[None])[0]).pvalue > 1e-3
    if make is PPGPRRegressor:  # whose hidden functions are not sampled
        _, cov = model.predict(new, return_cov=True)
        assert_allclose(np.diag(cov), dist.var())
        assert_allclose(np.cov(drawn), cov, atol=0.07)


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("make", BOTH)
def test_several_batches(make, is_kept, monkeypatch) -> None:
    monkeypatch.setattr(untrained_gp, "share_of_first", lambda *given: 0.0 if is_kept else 1.0)
    rows = _entered_twice(200, 60)
    X, y = rows[0][:-30], rows[1][:-30]
    model = make(batch_size=50, **FEW).fit(X, y)
    assert (model.n_iter_ == 1) is is_kept
    assert model.copy_probability_ == pytest.approx(30.0 / 31.0)
    dist, plain = model.predict_dist(rows[0]), make(batch_size=50, **FEW).fit(X[:200], y[:200])
    assert plain.copy_probability_ == 0.0
    assert nll(y[-30:], dist[200:230]) < -3.0
    assert nll(rows[1][-30:], dist[-30:]) < -3.0
    assert nll(y[:200], plain.predict_dist(X[:200])) > 0.0


def test_held_out_copies_are_scored_as_they_are_predicted(fitted) -> None:
    X, y = _entered_twice(150, 40)
    model = fitted(PPGPRRegressor, 0.3)
    scored = PPGPRRegressor(**FEW).fit(X, y, X_val=X[:9], y_val=y[:9])
    assert scored.validation_scores_[-1] == pytest.approx(-nll(y[:9], model.predict_dist(X[:9])))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_files_keep_them(share, fitted, tmp_path) -> None:
    (X, y), model = _entered_twice(150, 40), fitted(PPGPRRegressor, share)
    save(model, tmp_path / "model.skgp")
    again = load(tmp_path / "model.skgp")
    assert isinstance(again.model_.copies, Copies)
    assert_array_equal(again.predict_dist(X).logpdf(y), model.predict_dist(X).logpdf(y))


def test_rows_in_any_order_repeated_or_weighted(fitted) -> None:
    X, y = _entered_twice(150, 40)
    model = fitted(PPGPRRegressor, 0.0)
    order = np.random.default_rng(0).permutation(190)
    moved = fitted(PPGPRRegressor, 0.0, (X[order], y[order]))
    weight = 1.0 + np.isin(row_keys(X[:150]), row_keys(X[150:]))
    weighted = fitted(PPGPRRegressor, 0.0, (X[:150], y[:150]), weight)
    for other in (moved, weighted):
        assert other.copy_probability_ == pytest.approx(model.copy_probability_, rel=1e-12)
        assert_allclose(other.predict_dist(X).logpdf(y), model.predict_dist(X).logpdf(y), rtol=1e-5)


def test_where_none_are_expected(fitted, monkeypatch) -> None:
    X, y = _entered_twice(150, 40)
    assert not hasattr(SVGPRegressor(random_state=0).fit(X, y), "copy_probability_")
    assert fitted(PPGPRRegressor, 0.3, (X, np.stack([y, y], 1))).copy_probability_ == 0.0
    model = fitted(PPGPRRegressor, 0.3, warm_start=True)
    assert model.copy_probability_ > 0.9
    assert model.set_params(max_iter=3).fit(X, y).copy_probability_ == 0.0
    monkeypatch.setattr(fitting_copies, "_LEAST", 1.0)
    assert fitted(PPGPRRegressor, 0.3).copy_probability_ == 0.0
