"""A stream does not spoil what a fit of few rows knows, which is an optimum."""

import numpy as np
import pytest
import torch

from skgp import DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.recipes.optimizers import rate_after_fit
from skgp.scoring import nll

ALL = [SVGPRegressor, PPGPRRegressor, DSPPRegressor]


def _smooth(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 0] * X[:, 1] + noise * rng.standard_normal(n)
    return X, y


def _prior_std(model) -> float:
    return model.stack.top.kernel.variance.item() ** 0.5


@pytest.mark.parametrize("noise", [0.01, pytest.param(0.1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [*ALL[:2], pytest.param(ALL[2], marks=pytest.mark.slow)])
def test_further_rows_of_the_same_law_do_not_spoil_a_fit(make, noise) -> None:
    X, y = _smooth(300, noise, seed=50)
    model = make(random_state=0).fit(*_smooth(160, noise))
    before = nll(y, model.predict_dist(X))
    for seed in range(2, 5):
        model.partial_fit(*_smooth(120, noise, seed=seed))
        assert nll(y, model.predict_dist(X)) < before + 0.05


@pytest.mark.parametrize("make", ALL)
def test_inducing_inputs_that_are_all_inputs_stay_in_a_stream(make) -> None:
    model = make(random_state=0, n_inducing=60).fit(*_smooth(60, 0.1))
    before = model.model_.stack.top.Z.clone()
    model.partial_fit(*_smooth(50, 0.1, seed=1))
    assert model.model_.stack.top.Z.equal(before)


def test_the_rate_is_that_of_the_noise_the_inducing_inputs_and_the_prior() -> None:
    X, y = _smooth(256, 0.1)
    few = PPGPRRegressor(random_state=0, n_inducing=30, max_iter=1).fit(X, y).model_
    std, prior_std = few.likelihood.noise_var.item() ** 0.5, _prior_std(few)
    assert prior_std > 2.0  # by which a step moves a function
    expected = min(1.0, std / (0.1 * prior_std))
    assert expected < 1.0
    assert rate_after_fit(300, None, few, 256) == pytest.approx(expected)
    assert rate_after_fit(200, None, few, 256) == 1.0  # of several batches
    assert rate_after_fit(300, 0.1, few, 256) == 1.0  # whose start a user has chosen
    full = PPGPRRegressor(random_state=0, max_iter=1).fit(X, y).model_
    std, prior_std = full.likelihood.noise_var.item() ** 0.5, _prior_std(full)
    assert std < 0.1 < 2.0 < prior_std
    assert rate_after_fit(200, None, full, 256) == pytest.approx(0.5 * std / 0.1 / prior_std)
    assert rate_after_fit(200, 0.1, full, 256) == pytest.approx(0.5)
    with torch.no_grad():
        full.stack.top.kernel.log_variance.fill_(-1.0)
    assert rate_after_fit(200, None, full, 256) == pytest.approx(0.5 * std / 0.1)
