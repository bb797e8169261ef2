"""Protocols of benchmarks: numbers of steps, and variants of methods."""

import numpy as np
import pytest

from benchmarks._protocol import resolved, tables
from skgp import SVGPRegressor


@pytest.mark.parametrize(("n_rows", "epochs"), [(18_000, 1000), (7373, 2500), (300, 35_000)])
def test_steps_stand_for_epochs(n_rows: int, epochs: int) -> None:
    params = {"max_iter": "35,000 steps", "batch_size": 512, "kernel": "rbf"}
    found = resolved(params, np.zeros((n_rows, 2)))
    assert found == {"max_iter": epochs, "batch_size": 512, "kernel": "rbf"}


def test_steps_are_those_of_a_fit(rng: np.random.Generator) -> None:
    """The fewest epochs with as many steps or more."""
    X = rng.normal(size=(110, 1))
    params = resolved({"max_iter": "9 steps", "batch_size": 20}, X)
    model = SVGPRegressor(n_inducing=5, early_stopping=False, **params).fit(X, X[:, 0])
    assert model.n_iter_ == 2  # of six steps each


def test_a_variant_has_names_and_parameters_of_its_own() -> None:
    protocol = {
        "methods": {
            "A": {"estimator": "SVGPRegressor", "params": {"kernel": "rbf", "max_iter": 1}},
            "B": {"like": "A", "published": "b", "params": {"kernel": "matern52"}},
        },
        "tables": [{"variant": {"name": "longer", "params": {"max_iter": 7}}}, {}],
    }
    varied, plain = (table["methods"] for table in tables(protocol))
    assert list(varied) == ["A, longer", "B, longer"]
    assert [method["published"] for method in varied.values()] == ["A", "b"]
    assert varied["B, longer"]["params"] == {"kernel": "matern52", "max_iter": 7}
    assert plain["A"]["params"]["max_iter"] == 1
    assert "published" not in plain["A"]
