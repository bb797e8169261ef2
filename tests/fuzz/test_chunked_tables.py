"""Streams whose chunks come as they like: finite at every time, and learned from in the end."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from contract.contract_cases import MINIBATCH_REGRESSORS
from hypothesis import strategies as st
from profiles import profile, search
from strategies import CASES, Array

from skgp.exceptions import OutlierWarning

pytestmark = pytest.mark.usefixtures("short_start")

N_CHUNKS, N_ROWS = 16, 40


@dataclass(frozen=True)
class Stream:
    """Chunks of a sine of which the first, and one later, are not what the others are.

    Attributes
    ----------
    case : str
    first : str
        Kind of the first chunk.
    power : int
        Of ten, the unit of the targets.
    outlier : int or None
        Power of ten, the size in this unit of one target.
    late : int
        Number of the chunk with the outlier.
    n_outputs : int or None
    seed : int
    """

    case: str
    first: str = "usual"
    power: int = 0
    outlier: int | None = None
    late: int = 5
    n_outputs: int | None = None
    seed: int = 0

    def rows(self, n: int, number: int) -> tuple[Array, Array]:
        rng = np.random.default_rng([self.seed, number])
        X = rng.uniform(-1.0, 1.0, (n, 2))
        y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=n)
        if self.n_outputs is not None:
            y = np.column_stack([y * (1 + k) + X[:, 1] for k in range(self.n_outputs)])
        return X, 10.0**self.power * y

    def chunk(self, number: int) -> tuple[Array, Array]:
        X, y = self.rows(N_ROWS, number)
        if number == 0:
            return FIRST[self.first](X, y)
        if number == self.late and self.outlier is not None:
            y.flat[0] = 10.0 ** (self.power + self.outlier)
        return X, y


def _unseen_output(X: Array, y: Array) -> tuple[Array, Array]:
    if y.ndim == 2:
        y[:, -1] = np.nan
    return X, y


FIRST: dict[str, Any] = {
    "usual": lambda X, y: (X, y),
    "one row": lambda X, y: (X[:1], y[:1]),
    "constant target": lambda X, y: (X, np.broadcast_to(y[0], y.shape)),
    "target of zeros": lambda X, y: (X, 0.0 * y),
    "corner of the inputs": lambda X, y: (X[0] + 1e-6 * X, y),
    "an output never seen": _unseen_output,
}


def streams(name: str) -> st.SearchStrategy[Stream]:
    return st.builds(
        Stream,
        st.just(name),
        st.sampled_from([kind for kind in FIRST if kind != "usual"]),
        st.integers(-30, 30),
        st.sampled_from([None, 2, 4, 9, 20]),
        st.integers(2, N_CHUNKS // 2),
        st.sampled_from([None, 2]),
        st.integers(0, 2**16),
    )


# tests/contract/test_streams.py has one of each class.
NAMES = ["svgp-full", "dspp-qr3", "mcdropout"]
if not profile().is_quick:
    NAMES = [case.name for case in MINIBATCH_REGRESSORS]


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_ends_well(name: str) -> None:
    search(check_that_it_ends_well, streams(name), quick=1, name=name)


def check_that_it_ends_well(stream: Stream) -> None:
    plain = Stream(stream.case, power=stream.power, n_outputs=stream.n_outputs, seed=stream.seed)
    usual, hostile = (explained(followed(s), stream) for s in (plain, stream))
    assert hostile > 0.5 * usual, (usual, hostile)


def followed(stream: Stream) -> Any:
    """A model of the whole stream, finite after each chunk."""
    model = CASES[stream.case].make(learning_rate_init=0.05)
    X_new, _ = stream.rows(10, 1000)
    for number in range(N_CHUNKS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutlierWarning)
            model.partial_fit(*stream.chunk(number))
        mean, std = model.predict(X_new, return_std=True)
        assert np.isfinite(mean).all()
        assert np.isfinite(std).all()
        assert (std > 0.0).all()
    return model


def explained(model: Any, stream: Stream) -> float:
    """Share of the deviation of new targets that the mean of a model explains, about."""
    X, y = stream.rows(200, 999)
    error = np.sqrt(np.mean((model.predict(X) - y) ** 2 / y.var(axis=0)))
    return 1.0 - float(error)
