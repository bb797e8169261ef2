"""Where fits start if some targets of some rows are missing."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from skgp import DSPPRegressor, ExactGPRegressor
from skgp.recipes.rough_gps import OutputGPs, filled_targets


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
    return SimpleNamespace(x=x, Y=Y, few=lambda: few, centres=lambda x, n: x[:n])


def test_missing_targets_are_filled_with_what_they_are_likely_to_be(rng):
    X, Y, partial = _rows(rng, 150, 0.3)
    filled = filled_targets(_setup(X, partial)).numpy()
    missing = np.isnan(partial)
    np.testing.assert_array_equal(filled[~missing], partial[~missing])
    for output in range(3):
        rest = (filled - Y)[missing[:, output], output]
        assert np.sqrt(np.mean(rest**2)) < 0.2  # of targets with a standard deviation of 0.7 to 1.3


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


def test_rows_without_targets_need_no_filling(rng):
    X, Y, _ = _rows(rng, 20, 0.0)
    Y[4] = np.nan
    setup = _setup(X, Y)
    setup.few = None  # no GP is fitted
    np.testing.assert_array_equal(filled_targets(setup)[4], 0.0)


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
