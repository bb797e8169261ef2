"""The motorcycle data against facts that were taken from another copy."""

import numpy as np
import pytest

from skgp.datasets import load_motorcycle


def test_known_facts() -> None:
    X, y = load_motorcycle(return_X_y=True)
    assert (X.shape, y.shape) == ((133, 1), (133,))
    assert (X.dtype, y.dtype) == (np.float64, np.float64)
    time = X[:, 0]
    assert (np.diff(time) >= 0.0).all()
    assert len(np.unique(time)) == 94
    assert (time[0], time[-1]) == (2.4, 57.6)
    # Sums of MASS::mcycle, by awk.
    assert time.sum() == pytest.approx(3348.8, abs=1e-9)
    assert y.sum() == pytest.approx(-3397.6, abs=1e-9)
    assert (y.min(), time[y.argmin()]) == (-134.0, 21.2)
    assert (y.max(), time[y.argmax()]) == (75.0, 31.0)


def test_noise_depends_on_the_time() -> None:
    X, y = load_motorcycle(return_X_y=True)
    before, after = y[X[:, 0] < 13.0], y[(X[:, 0] > 20.0) & (X[:, 0] < 40.0)]
    assert before.std() < 3.0
    assert after.std() > 40.0


def test_bunch_is_the_same_rows() -> None:
    bunch = load_motorcycle()
    X, y = load_motorcycle(return_X_y=True)
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    assert bunch.feature_names == ["time (ms)"]
    assert bunch.target_names == ["acceleration (g)"]
    assert "Silverman" in bunch.DESCR


def test_calls_share_no_memory() -> None:
    load_motorcycle(return_X_y=True)[1][:] = 0.0
    assert load_motorcycle(return_X_y=True)[1].any()
