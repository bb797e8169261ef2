"""The benchmark of defaults on known functions."""

import math

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.preprocessing import StandardScaler

from benchmarks import _known_functions as known
from benchmarks import functions


def printed_borehole(rw, r, tu, hu, tl, hl, length, kw):
    log = math.log(r / rw)
    divisor = log * (1.0 + 2.0 * length * tu / (log * rw**2 * kw) + tu / tl)
    return 2.0 * math.pi * tu * (hu - hl) / divisor


def printed_circuit(rb1, rb2, rf, rc1, rc2, beta):
    vb1 = 12.0 * rb2 / (rb1 + rb2)
    first = (vb1 + 0.74) * beta * (rc2 + 9.0) / (beta * (rc2 + 9.0) + rf)
    second = 11.35 * rf / (beta * (rc2 + 9.0) + rf)
    third = 0.74 * rf * beta * (rc2 + 9.0) / ((beta * (rc2 + 9.0) + rf) * rc1)
    return first + second + third


def printed_piston(m, s, v0, k, p0, ta, t0):
    a = p0 * s + 19.62 * m - k * v0 / s
    v = s / (2.0 * k) * (math.sqrt(a**2 + 4.0 * k * p0 * v0 / t0 * ta) - a)
    return 2.0 * math.pi * math.sqrt(m / (k + s**2 * p0 * v0 / t0 * ta / v**2))


@pytest.mark.parametrize(
    ("make", "printed"),
    [
        (known.borehole, printed_borehole),
        (known.circuit, printed_circuit),
        (known.piston, printed_piston),
    ],
)
def test_functions_are_those_of_the_literature(make, printed):
    X, y = make(np.random.default_rng(0), 5)
    np.testing.assert_allclose(y, [printed(*row) for row in X], rtol=1e-12)


@pytest.mark.parametrize("make", known.FUNCTIONS)
def test_rows_vary_and_are_finite(make):
    X, y = make(np.random.default_rng(1), 50)
    assert X.shape[0] == len(y) == 50
    assert np.isfinite(X).all()
    assert np.isfinite(y).all()
    assert y.std() > 0.0


def test_scores_are_in_units_of_the_training_targets(capsys, monkeypatch):
    arguments = ["functions", "--rows", "40", "--only", "smooth", "--methods", "scikit-learn GP"]
    monkeypatch.setattr("sys.argv", arguments)
    functions.main()
    *_, printed = capsys.readouterr().out.splitlines()
    rng = np.random.default_rng([0, 40, functions.crc32(b"smooth")])
    X, y = known.smooth(rng, 1040)
    scaler = StandardScaler().fit(X[:40])
    kernel = ConstantKernel() * Matern(np.ones(2), nu=2.5) + WhiteKernel()
    gp = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    gp.fit(scaler.transform(X[:40]), y[:40])
    mean, std = gp.predict(scaler.transform(X[40:]), return_std=True)
    z = (y[40:] - mean) / std
    nll = np.mean(0.5 * z**2 + np.log(std * math.sqrt(2.0 * math.pi) / y[:40].std()))
    covered = np.mean(np.abs(z) < 1.6448536)
    _, name, rows, cell, _ = (part.strip() for part in printed.split("|"))
    assert (name, rows) == ("smooth", "40")
    assert cell.startswith(f"{nll:.3f} / ")
    assert cell.split(" / ")[2] == f"{covered:.2f}"
