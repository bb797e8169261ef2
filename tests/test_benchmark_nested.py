"""The log likelihoods of readouts by draws, for the tables of the neural likelihoods paper."""

import numpy as np
import pytest

from benchmarks._nested import converged_log_likelihood, nested_log_likelihood
from skgp import DGPRegressor, NeuralMOGPRegressor


@pytest.mark.parametrize("inference", ["sampling", "analytic"])
def test_nested_estimate_of_a_log_likelihood(inference):
    """Of many inner draws it is the density of a prediction with as many nodes."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (40, 2))
    Y = 5.0 + np.hstack([X, X**2]) + 0.2 * rng.standard_normal((40, 4))
    params = {"n_inducing": 8, "max_iter": 5, "random_state": 0, "n_prediction_samples": 4096}
    model = NeuralMOGPRegressor(inference=inference, **params).fit(X, Y)
    exact = model.predict_dist(X).joint_logpdf(Y).mean()
    estimate = nested_log_likelihood(model, X, Y, n_outer=4, n_inner=2000)
    assert estimate == pytest.approx(exact, abs=0.02)
    assert nested_log_likelihood(model, X, Y, n_outer=4, n_inner=2) < estimate
    assert not model.stack_.training
    converged = converged_log_likelihood(model, X, Y)
    assert converged.value == pytest.approx(exact, abs=0.03)
    assert converged.change < 0.05
    few = converged_log_likelihood(model, X, Y, n_first=400, n_most=400)
    assert few.n_draws == 400
    with pytest.raises(TypeError, match="no readout"):
        converged_log_likelihood(DGPRegressor(max_iter=1, n_inducing=5).fit(X, Y), X, Y)
