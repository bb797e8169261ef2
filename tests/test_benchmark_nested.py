"""The log likelihoods of readouts by draws, for the tables of the neural likelihoods paper."""

import numpy as np
import pytest

from benchmarks._nested import converged_log_likelihood, nested_log_likelihood
from benchmarks._protocol import Fit
from benchmarks.tables import run_fit
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


def test_a_table_may_ask_for_the_papers_estimate_alone(tmp_path):
    """All rows are shared between two parts, and the targets are no changes."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (40, 3))
    Y = X[:, :2] + 0.1 * rng.standard_normal((40, 2))
    np.savez(tmp_path / "rows.npz", X=X, Y=Y)
    params = {"n_inducing": 5, "max_iter": 3, "random_state": 0}
    method = {"estimator": "NeuralMOGPRegressor", "params": params}
    table = {"folder": ".", "targets": "Y", "shares": [30, 10], "methods": {"N-MOGP": method}}
    fit = Fit("rows", "N-MOGP", 0, params, None)
    order = np.random.default_rng(0).permutation(40)
    train, test = order[:30], order[30:]
    targets = (Y - Y[train].mean(0)) / Y[train].std(0)
    model = NeuralMOGPRegressor(**params).fit(X[train], targets[train])
    few, many = (
        nested_log_likelihood(model, X[test], targets[test], n_outer=n_outer) for n_outer in (3, 25)
    )
    alone = run_fit(tmp_path, table | {"nested": 3}, fit, str(tmp_path))
    assert alone["nested_LL"] == pytest.approx(few)
    assert "converged_LL" not in alone
    both = run_fit(tmp_path, table | {"nested": True}, fit, str(tmp_path))
    assert both["nested_LL"] == pytest.approx(many)
    assert both["converged_LL"] == pytest.approx(
        converged_log_likelihood(model, X[test], targets[test]).value
    )
