"""SGHMCDGPRegressor: which positions of the chain a prediction uses, and its limit of one layer."""

import numpy as np
import numpy.typing as npt
import pytest

from skgp import SVGPRegressor
from skgp.estimators.baselines import SGHMCDGPRegressor
from skgp.exceptions import NonFiniteLossError

Table = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


@pytest.fixture
def table(rng: np.random.Generator) -> Table:
    X = rng.uniform(-2.0, 2.0, (80, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(80)


@pytest.mark.parametrize(("max_iter", "n_components"), [(3, 1), (8, 2), (60, 4)])
def test_a_prediction_uses_the_positions_kept(
    table: Table, max_iter: int, n_components: int
) -> None:
    """One batch is one step; every fourth position is kept, of which the last four remain."""
    X, y = table
    model = SGHMCDGPRegressor(
        n_layers=1, n_inducing=8, n_posterior_samples=4, thinning=4, n_burn_in=2,
        max_iter=max_iter, random_state=0,
    ).fit(X, y)  # fmt: skip
    assert f"n_components={n_components})" in repr(model.predict_dist(X))


@pytest.mark.slow
def test_one_layer_agrees_with_the_normal_posterior(table: Table) -> None:
    """That of SVGP is exact for one layer, given hyper-parameters, which are nearly the same."""
    X, y = table
    chain = SGHMCDGPRegressor(
        n_layers=1, n_inducing=12, n_burn_in=300, max_iter=1000, random_state=0
    ).fit(X, y)
    normal = SVGPRegressor(n_inducing=12, max_iter=300, random_state=0).fit(X, y)
    X_new = np.linspace(-1.8, 1.8, 20)[:, np.newaxis]
    ours, theirs = chain.predict_dist(X_new), normal.predict_dist(X_new)
    assert np.abs(ours.mean() - theirs.mean()).max() < 0.5 * theirs.std().min()
    np.testing.assert_allclose(ours.std(), theirs.std(), rtol=0.25)


@pytest.mark.parametrize("step_size", [30.0, 1e6])
def test_too_long_steps_are_refused(table: Table, step_size: float) -> None:
    """A loss that is as good as infinite is no loss to end at, though it is finite."""
    model = SGHMCDGPRegressor(
        n_layers=2, n_inducing=8, n_burn_in=2, max_iter=40, step_size=step_size, random_state=0
    )
    with pytest.raises(NonFiniteLossError, match="lower step_size and learning_rate_init"):
        model.fit(*table)
