"""A file, what it says, and a way to load one under watch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import pytest
from watching import assert_nothing_ran, watched

from skgp import SVGPRegressor, load, save
from skgp.files._container import unpack


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.skgp"


@pytest.fixture(scope="session")
def model() -> Any:
    """A small fitted model with values of many kinds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    prior = gpytorch.priors.GammaPrior(3.0, 6.0)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(lengthscale_prior=prior))
    model = SVGPRegressor(kernel=kernel, n_inducing=5, max_iter=2, random_state=0)
    return model.fit(X, X[:, 0])


@pytest.fixture(scope="session")
def content(model: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("files") / "model.skgp"
    save(model, path)
    return path.read_bytes()


@pytest.fixture
def parts(content: bytes) -> tuple[Any, dict[str, Any]]:
    """Structure and tensors of the file, to be spoilt."""
    return unpack(content)


@pytest.fixture
def load_watched(path: Path) -> Callable[..., Any]:
    """Load bytes, and see that nothing in them is run."""

    def load_bytes(content: bytes, **kwargs: Any) -> Any:
        path.write_bytes(content)
        calls: list[tuple[str, str]] = []
        try:
            with watched() as calls:
                return load(path, **kwargs)
        finally:
            assert_nothing_ran(calls)

    return load_bytes
