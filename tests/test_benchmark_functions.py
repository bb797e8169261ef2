"""The benchmark of defaults on known functions."""

import math

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.preprocessing import StandardScaler

from benchmarks import _known_functions as known
from benchmarks import functions
from benchmarks._everyday_rows import EVERYDAY


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


@pytest.mark.parametrize("make", [*known.FUNCTIONS, *EVERYDAY])
def test_rows_vary_and_are_finite(make):
    X, y = make(np.random.default_rng(1), 50)
    assert X.shape[0] == len(y) == 50
    assert np.isfinite(X).all()
    assert np.isfinite(y).all()
    assert y.std() > 0.0


def by_hand(X, y, n_rows):
    """NLL in units of the training targets, and coverage, of further rows: scikit-learn's GP."""
    scaler = StandardScaler().fit(X[:n_rows])
    kernel = ConstantKernel() * Matern(np.ones(2), nu=2.5) + WhiteKernel()
    gp = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    gp.fit(scaler.transform(X[:n_rows]), y[:n_rows])
    mean, std = gp.predict(scaler.transform(X[n_rows:]), return_std=True)
    z = (y[n_rows:] - mean) / std
    nll = np.mean(0.5 * z**2 + np.log(std * math.sqrt(2.0 * math.pi) / y[:n_rows].std()))
    return f"{nll:.3f}", f"{np.mean(np.abs(z) < 1.6448536):.2f}"


def printed_line(monkeypatch, capsys, *arguments):
    """Name, rows, NLL and coverage of the last line that the program prints."""
    options = ["--rows", "40", "--methods", "scikit-learn GP"]
    monkeypatch.setattr("sys.argv", ["functions", *options, *arguments])
    functions.main()
    *_, printed = capsys.readouterr().out.splitlines()
    _, name, rows, cell, _ = (part.strip() for part in printed.split("|"))
    nll, _, covered, _ = cell.split(" / ")
    return name, rows, nll, covered


def test_scores_are_in_units_of_the_training_targets(capsys, monkeypatch):
    printed = printed_line(monkeypatch, capsys, "--only", "smooth")
    rng = np.random.default_rng([0, 40, functions.crc32(b"smooth")])
    assert printed == ("smooth", "40", *by_hand(*known.smooth(rng, 1040), 40))


def test_rows_of_files_stand_in_place_of_functions(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 2))
    y = X @ [1.0, 2.0] + 0.5 * rng.normal(size=1100)
    np.savez(tmp_path / "lines.npz", X=X, Y=np.c_[y, np.full(1100, np.nan)])
    printed = printed_line(monkeypatch, capsys, "--files", str(tmp_path / "lines.npz"))
    chosen = np.random.default_rng([0, 40, functions.crc32(b"lines")]).permutation(1100)[:1040]
    assert printed == ("lines", "40", *by_hand(X[chosen], y[chosen], 40))
