from collections.abc import Callable

import numpy as np
import pytest

from skgp.distributions import NormalMixture

# Shapes that every method must serve: outputs, factors over outputs, shared or own weights.
KINDS = ["single", "single-shared", "one-component", "outputs", "outputs-joint"]


def _make(
    kind: str = "single", n: int = 5, S: int = 4, seed: int = 0, scale: float = 1.0
) -> NormalMixture:
    rng = np.random.default_rng(seed)
    if kind == "one-component":
        S = 1
    shape = (n, S, 3) if kind.startswith("outputs") else (n, S)
    log_w = rng.normal(size=(S,) if kind == "single-shared" else (n, S))
    mean = scale * rng.normal(0.0, 2.0, shape)
    std = scale * np.exp(rng.normal(0.0, 0.5, shape))
    if kind != "outputs-joint":
        return NormalMixture(log_w, mean, std)
    factor = (
        np.tril(rng.normal(size=(*shape, 3)), -1)
        + np.eye(3) * rng.uniform(0.3, 2.0, shape)[..., None]
    )
    return NormalMixture(log_w, mean, None, scale * factor)


@pytest.fixture
def make() -> Callable[..., NormalMixture]:
    """Factory of random mixtures."""
    return _make


@pytest.fixture(params=KINDS)
def mixture(request: pytest.FixtureRequest) -> NormalMixture:
    return _make(request.param)
