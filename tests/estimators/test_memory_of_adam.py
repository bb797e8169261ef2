"""How long the steps of a fit remember a far larger gradient."""

import numpy as np
import pytest
import torch

from skgp import DSPPRegressor, PPGPRRegressor


@pytest.mark.parametrize(("n_data", "decay"), [(30.0, 0.999), (2000.0, 0.99)])
@pytest.mark.parametrize("family", [DSPPRegressor, PPGPRRegressor])
def test_several_batches_forget_a_leap_after_five_hundred_steps(family, n_data, decay):
    X = np.linspace(-1.0, 1.0, 30)[:, None]
    estimator = family(n_inducing=5, max_iter=1, early_stopping=False, random_state=0)
    model = estimator.fit(X, np.sin(3.0 * X[:, 0])).model_
    optimizer = estimator._recipe().optimizer(model, n_data)
    noise = model.likelihood.log_excess_noise
    before = noise.item()
    for number in range(501):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 100.0 if number == 0 else 1.0)
        before = noise.item()
        optimizer.step(lambda: torch.zeros(()), 1.0)
    # Adam's second moment, corrected for its start at zero; the first one is 1 by then.
    kept = decay**500
    moment = (100.0**2 * (1.0 - decay) * kept + 1.0 - kept) / (1.0 - decay * kept)
    step = (before - noise.item()) / estimator.learning_rate_init
    np.testing.assert_allclose(step, moment**-0.5, rtol=1e-3)
