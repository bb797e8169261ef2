"""What the conditional VAE is for: densities whose shape a normal does not have."""

from typing import Any

import numpy as np
import pytest

from skgp.estimators.baselines import CVAERegressor


@pytest.fixture(scope="module")
def branches() -> tuple[Any, Any]:
    """Targets on two branches, y = 1.5 and y = -1.5, the upper one for 70% of the rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (400, 1))
    return X, np.where(rng.random(400) < 0.7, 1.5, -1.5) + 0.1 * rng.standard_normal(400)


def test_both_branches_have_their_share_of_the_mass(branches: tuple[Any, Any]) -> None:
    model = CVAERegressor(random_state=0).fit(*branches)
    dist = model.predict_dist(np.linspace(-0.9, 0.9, 7)[:, None])
    lower = dist.cdf(np.full(7, -0.75))
    middle = dist.cdf(np.full(7, 0.75)) - lower
    # The codes of all rows together are only about N(0, I), so the shares are only about right.
    np.testing.assert_allclose(lower, 0.3, atol=0.15)
    assert middle.max() < 0.1


def test_without_the_latent_variable_there_is_one_mode(branches: tuple[Any, Any]) -> None:
    """A large weight of the divergence shuts the encoder off: the density is a broad normal."""
    # Many long steps, for the noise is far from the variance of y when it starts.
    params = {"hidden_layer_sizes": 8, "learning_rate_init": 0.05, "max_iter": 1000}
    model = CVAERegressor(beta_reg=100.0, random_state=0, **params).fit(*branches)
    dist = model.predict_dist([[0.0]])
    middle = dist.cdf([0.75]) - dist.cdf([-0.75])
    assert middle > 0.3
    assert dist.std()[0] == pytest.approx(branches[1].std(), rel=0.05)


def test_nodes_are_those_of_the_prior() -> None:
    """Sobol nodes have mean zero and variance one to within 1 / S."""
    model = CVAERegressor(latent_dim=2, n_prediction_samples=256, max_iter=1, random_state=0)
    rng = np.random.default_rng(0)
    z = model.fit(rng.normal(size=(20, 2)), rng.normal(size=20)).model_.nodes.fixed.numpy()
    assert z.shape == (256, 2)
    np.testing.assert_allclose(z.mean(0), 0.0, atol=0.02)
    np.testing.assert_allclose(np.cov(z.T), np.eye(2), atol=0.05)
