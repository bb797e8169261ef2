"""Where fits start if some targets of some rows are missing."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from skgp import DSPPRegressor, ExactGPRegressor
from skgp.exceptions import NotPositiveDefiniteError
from skgp.recipes.noise import noise_share
from skgp.recipes.rough_gps import OutputGPs, Scale, covariance, filled_targets, regressed


def _rows(rng, n, missing):
    X = rng.uniform(-2.0, 2.0, (n, 2))
    f = np.stack([np.sin(2.0 * X[:, 0]), X[:, 0] * X[:, 1], np.cos(2.0 * X[:, 1])]).T
    Y = f + 0.05 * rng.standard_normal(f.shape)
    partial = np.where(rng.random(Y.shape) < missing, np.nan, Y)
    return X, Y, partial


def _setup(X, Y):
    """All that the GPs ask of a setup."""
    x, Y = torch.from_numpy(X), torch.from_numpy(Y)
    weight = (~Y.isnan()).any(-1).double()
    few = weight.nonzero()[:, 0], torch.ones(int(weight.sum())).double()
    return SimpleNamespace(
        x=x,
        Y=Y,
        subsample=lambda: few,
        centres=lambda x, n: x[:: max(1, len(x) // n)],
        observed_weight=weight,
    )


def test_missing_targets_are_filled_with_what_they_are_likely_to_be(rng):
    X, Y, partial = _rows(rng, 150, 0.3)
    filled = filled_targets(_setup(X, partial)).numpy()
    missing = np.isnan(partial)
    np.testing.assert_array_equal(filled[~missing], partial[~missing])
    for output in range(3):
        rest = (filled - Y)[missing[:, output], output]
        assert np.sqrt(np.mean(rest**2)) < 0.2  # of targets with a standard deviation of 0.7 to 1.3


def test_targets_far_from_their_rows_are_those_that_the_other_outputs_say(rng):
    """Two outputs, each of which is missing on a side: a GP alone knows nothing there."""
    X = np.sort(rng.uniform(-2.0, 2.0, (120, 1)), axis=0)
    y = np.sin(3.0 * X[:, 0]) + 0.05 * rng.standard_normal(120)
    Y = np.stack([y, -y]).T
    Y = (Y - Y.mean(0)) / Y.std(0)
    partial = Y.copy()
    partial[:40, 0] = partial[80:, 1] = np.nan
    filled = filled_targets(_setup(X, partial)).numpy()
    assert np.sqrt(np.mean((filled - Y)[np.isnan(partial)] ** 2)) < 0.2  # zeros leave 1.0


@pytest.mark.parametrize("value", [0.1, 3.3e5])
def test_a_column_that_varies_in_other_rows_alone_keeps_its_unit(rng, value):
    """The mean of equal values is off by rounding; divided by that, other rows are at 1e18."""
    X, Y, _ = _rows(rng, 120, 0.0)
    X[:, 1] = value
    X[0, 1] += 1.0
    setup = _setup(X, Y)
    rows = torch.arange(1, 120)
    setup.subsample = lambda: (rows, torch.full((119,), 4.98).double())
    gps = OutputGPs.of(setup, 40)
    assert gps.x_scale.unit[1] == 1.0
    assert gps.gps.layer.Z.abs().max() < 5.0
    assert 0.0 < noise_share(setup) < 1.0


def test_small_differences_are_no_rounding():
    values = 3.3e5 + 1e-6 * torch.tensor([[-1.0], [1.0]]).double()
    unit = Scale.of(values, torch.ones(2, 1)).unit
    np.testing.assert_allclose(unit, 1e-6, rtol=1e-3)


def test_regressions_between_outputs_are_those_of_a_loop(rng):
    Y = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 4))
    Y += 0.3 * rng.standard_normal((50, 4))
    weight = rng.uniform(0.5, 2.0, 50)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    S = np.empty((4, 4))
    for i, j in np.ndindex(4, 4):
        both = ~np.isnan(Y[:, i] + Y[:, j])
        S[i, j] = np.average(Y[both, i] * Y[both, j], weights=weight[both])
    values, directions = np.linalg.eigh(S)
    S = (directions * values.clip(0.0)) @ directions.T
    cov = covariance(torch.from_numpy(Y), torch.from_numpy(weight))
    np.testing.assert_allclose(cov, S, atol=1e-12)
    found, rest = regressed(torch.from_numpy(Y), cov)
    for row, ours, left in zip(Y, found, rest, strict=True):
        seen = ~np.isnan(row)
        slope = np.linalg.solve(S[np.ix_(seen, seen)] + 0.01 * np.eye(seen.sum()), S[seen])
        np.testing.assert_allclose(ours, row[seen] @ slope, atol=1e-10)
        np.testing.assert_allclose(left, 1.0 - (S[seen] * slope).sum(0) / np.diag(S), atol=1e-10)


def test_gps_of_outputs_are_those_of_each_output_on_its_own_rows(rng):
    X, _, partial = _rows(rng, 80, 0.4)
    together = OutputGPs.of(_setup(X, partial))
    for output in range(3):
        seen = ~np.isnan(partial[:, output])
        setup = _setup(X, partial[:, [output]])
        alone = OutputGPs.of(setup)
        # They differ by the inducing inputs and the scale of X, which are those of all rows.
        assert seen.sum() < len(X)
        np.testing.assert_allclose(
            together.gps.noise_var[output], alone.gps.noise_var[0], rtol=0.25, atol=2e-3
        )
        np.testing.assert_allclose(together.y_scale.offset[output], partial[seen, output].mean())
        np.testing.assert_allclose(together.y_scale.unit[output], partial[seen, output].std())


def test_without_gps_targets_are_their_means(rng, monkeypatch):
    def fails(*arguments, **parameters):
        raise NotPositiveDefiniteError("no factor")

    monkeypatch.setattr(OutputGPs, "of", fails)
    X, _, partial = _rows(rng, 20, 0.3)
    np.testing.assert_array_equal(filled_targets(_setup(X, partial)), np.nan_to_num(partial))


def test_rows_without_targets_are_not_completed(rng):
    X, Y, partial = _rows(rng, 20, 0.3)
    Y[4] = np.nan

    np.testing.assert_array_equal(filled_targets(_setup(X, Y)), np.nan_to_num(Y))
    assert not np.array_equal(filled_targets(_setup(X, partial)), np.nan_to_num(partial))


def test_an_output_that_no_row_has_observed_is_filled_with_zeros(rng):
    X, _, partial = _rows(rng, 40, 0.2)
    partial[:, 1] = np.nan
    gps = OutputGPs.of(_setup(X, partial))
    np.testing.assert_array_equal(gps.varies, [True, False, True])
    np.testing.assert_array_equal(filled_targets(_setup(X, partial))[:, 1], 0.0)


@pytest.mark.parametrize("estimator", [ExactGPRegressor, DSPPRegressor])
def test_missing_targets_are_no_noise_where_a_fit_starts(rng, estimator):
    """Zeros in their place gave fifteen times the noise of the complete targets."""
    X, Y, partial = _rows(rng, 90, 0.3)
    params = {"max_iter": 1, "random_state": 0}
    if estimator is DSPPRegressor:
        params |= {"early_stopping": False, "learning_rate_init": 1e-6, "n_inducing": 30}
    complete, ours = (
        estimator(**params).fit(X, y).model_.likelihood.noise_var.detach() for y in (Y, partial)
    )
    np.testing.assert_array_less(ours, 3.0 * complete)
