"""The table of two branches against its stated density."""

import numpy as np
import pytest
from scipy import stats

from skgp.datasets import bimodal_distribution, make_bimodal
from skgp.scoring import pit


def test_density_by_hand() -> None:
    x = np.array([-2.0, -1.0, 0.3, 2.0])
    for y in (-1.4, 0.0, 0.6):
        up = stats.norm.pdf(y, 0.5 + 0.5 * x, 0.1)
        down = stats.norm.pdf(y, -0.5 - 0.5 * x, 0.2)
        density = bimodal_distribution(x[:, None]).pdf(y)
        np.testing.assert_allclose(density, 0.7 * up + 0.3 * down, rtol=1e-12)


def test_rows_follow_the_density() -> None:
    X, y = make_bimodal(20000, random_state=0)
    assert (X.shape, y.shape) == ((20000, 1), (20000,))
    assert stats.kstest(X[:, 0], stats.uniform(-2, 4).cdf).pvalue > 0.01
    dist = bimodal_distribution(X)
    assert stats.kstest(pit(y, dist), "uniform").pvalue > 0.01
    log_density = dist.logpdf(y)
    error = log_density + dist.entropy()  # zero on average
    assert abs(error.mean()) < 4 * error.std() / 20000**0.5
    # Where the branches are 10 deviations apart, 0.7 of the rows are above.
    far = X[:, 0] > 1.0
    share, n_far = (y[far] > 0.0).mean(), far.sum()
    assert abs(share - 0.7) < 4 * (0.7 * 0.3 / n_far) ** 0.5
    assert abs(y[far & (y > 0)].mean() - 1.25) < 0.02  # of (x + 1) / 2 on [1, 2]


def test_random_state_decides() -> None:
    first, again, other = (make_bimodal(5, random_state=seed) for seed in (1, 1, 2))
    assert first[1].tolist() == again[1].tolist()
    assert first[1].tolist() != other[1].tolist()
    assert make_bimodal(0)[0].shape == (0, 1)
    assert make_bimodal(3, random_state=np.random.RandomState(0))[0].shape == (3, 1)


def test_more_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="X has 2 columns, expected 1"):
        bimodal_distribution([[0.0, 1.0]])


def test_number_of_rows_is_checked() -> None:
    with pytest.raises(ValueError, match="n_samples == -1, must be >= 0"):
        make_bimodal(-1)
