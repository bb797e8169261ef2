"""Random problems for an estimator: a table, its targets and weights, and parameters."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import hostile
import numpy as np
from contract.contract_cases import CLASSIFIERS, EMBEDDINGS, ONE_PER_CLASS, REGRESSORS
from hypothesis import strategies as st
from profiles import profile

Array = hostile.Array

CASES = {
    **{case.name: case for case in REGRESSORS},
    **{f"{case.name}-classifier": case for case in CLASSIFIERS},
    **{case.name: case for case in EMBEDDINGS},
}

# A fit in some milliseconds: it is what goes in and comes out that matters, not what is learned.
TINY = {
    "n_inducing": 4,
    "n_inducing_mean": 5,
    "n_orthogonal": 3,
    "max_iter": 3,
    "width": 2,
    "n_sites": 2,
    "n_samples": 2,
    "n_prediction_samples": 4,
    "n_posterior_samples": 2,
    "n_burn_in": 1,
    "thinning": 1,
    "n_importance": 2,
    "hidden_layer_sizes": (5,),
}


def fuzzed_cases(*, classifiers: bool = True, embeddings: bool = True) -> list[str]:
    """Names of one case of each class in the quick profile, of all in the others."""
    left_out = (() if classifiers else CLASSIFIERS) + (() if embeddings else EMBEDDINGS)
    if profile().is_quick:
        left_out += tuple(case for case in REGRESSORS if case not in ONE_PER_CLASS)
    return [name for name, case in CASES.items() if case not in left_out]


@dataclass(frozen=True)
class Problem:
    """A recipe, so that the line that prints it makes it again.

    Attributes
    ----------
    case : str
        Name of the estimator's case.
    n_rows, n_inputs : int
    n_outputs : int or None
        None for one-dimensional targets.
    inputs, targets, weights : str
        Kinds of hostile data; no weights if None.
    power : int
        Of ten, the size of what is scaled.
    n_classes : int
        Of the labels of a classifier, where there are rows enough.
    missing : bool
        Whether entries of several targets are missing.
    seed : int
    params : dict
        Of the estimator, beside those that make it small.
    """

    case: str
    n_rows: int = 8
    n_inputs: int = 2
    n_outputs: int | None = None
    inputs: str = "plain"
    targets: str = "plain"
    weights: str | None = None
    power: int = 0
    n_classes: int = 2
    missing: bool = False
    seed: int = 0
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> float:
        return 10.0**self.power

    def make(self, **params: Any) -> Any:
        """A small unfitted estimator."""
        case = CASES[self.case]
        return case.make(**case.known({**TINY, **self.params, **params}))

    @cached_property
    def data(self) -> tuple[Array, Array, Array | None]:
        """Inputs, targets or labels, and weights."""
        rng = np.random.default_rng(self.seed)
        X = rng.normal(size=(self.n_rows, self.n_inputs))
        f = np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=self.n_rows)
        y = f
        if self.n_outputs is not None:
            slopes = rng.normal(size=self.n_outputs)
            y = f[:, None] * slopes + 0.1 * rng.normal(size=(self.n_rows, self.n_outputs))
        weight = None
        if self.weights is not None:
            plain = rng.uniform(0.5, 2.0, self.n_rows)
            weight = hostile.WEIGHTS[self.weights](rng, plain, self.size)
        X = hostile.INPUTS[self.inputs](rng, X, self.size)
        if is_classifier(self.case):
            return X, labels(f, self.n_classes), weight
        y = hostile.TARGETS[self.targets](rng, y, self.size)
        return X, self._with_gaps(rng, y), weight

    def _with_gaps(self, rng: np.random.Generator, y: Array) -> Array:
        """Floats of which three in ten are missing, but none of the first row."""
        if not self.missing or y.ndim == 1:
            return y
        gaps = rng.uniform(size=y.shape) < 0.3
        gaps[0] = False
        return np.where(gaps, np.nan, y)

    @property
    def X(self) -> Array:
        return self.data[0]

    @property
    def y(self) -> Array:
        return self.data[1]

    @property
    def sample_weight(self) -> Array | None:
        return self.data[2]

    @property
    def X_new(self) -> Array:
        """Rows near those of X, in float64."""
        X = np.asarray(self.X, dtype=float)
        rng = np.random.default_rng(self.seed + 1)
        return X + 0.1 * np.ptp(X, axis=0) * rng.normal(size=X.shape)

    def fit(self, **params: Any) -> Any:
        """A fitted estimator; a table without targets has its inputs and outputs as columns."""
        model = self.make(**params)
        if is_embedding(self.case):
            return model.fit(self.table)
        return model.fit(self.X, self.y, sample_weight=self.sample_weight)

    @property
    def table(self) -> Array:
        """Inputs and targets side by side."""
        columns = np.asarray(self.y, dtype=float).reshape(self.n_rows, -1)
        return np.column_stack([np.asarray(self.X, dtype=float), columns])


def is_classifier(name: str) -> bool:
    return CASES[name] in CLASSIFIERS


def is_embedding(name: str) -> bool:
    return CASES[name] in EMBEDDINGS


def labels(f: Array, n_classes: int) -> Array:
    """Words, numbers or truth values by the size of f."""
    number = np.argsort(np.argsort(f)) * n_classes // len(f)
    return {2: np.array([False, True]), 3: np.array(["low", "middle", "high"])}.get(
        n_classes, 10 * np.arange(n_classes)
    )[number]


def parameters(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the parameters that tables meet."""
    choices = {
        "dtype": st.sampled_from(["float64", "float32"]),
        "normalize_X": st.just(False),
        "normalize_y": st.just(False),
        "early_stopping": st.just(True),
        "n_restarts": st.just(2),
        "kernel": st.sampled_from(["rbf", "matern12", "matern32"]),
        "batch_size": st.sampled_from([1, 3, 16]),
        "max_iter": st.sampled_from([1, 10]),
    }
    return st.fixed_dictionaries({}, optional=CASES[name].known(choices)).filter(
        lambda p: len(p) <= 3
    )


@st.composite
def problems(draw: st.DrawFn, name: str, **fixed: Any) -> Problem:
    """Any problem; what is fixed is not drawn."""
    limit = profile().max_power
    choices = {
        "n_rows": st.sampled_from([20, 40, 8, 5, 4, 3, 2, 1]),
        "n_inputs": st.sampled_from([1, 2, 3, 10]),
        "n_outputs": st.sampled_from([None, 1, 2, 4]),
        "inputs": st.sampled_from(list(hostile.INPUTS)),
        "targets": st.sampled_from(list(hostile.TARGETS)),
        "weights": st.sampled_from([None, *hostile.WEIGHTS]),
        "power": st.integers(-limit, limit),
        "n_classes": st.sampled_from([2, 3, 4]),
        "missing": st.booleans(),
        "seed": st.integers(0, 2**16),
        "params": parameters(name),
    }
    drawn = {key: fixed[key] if key in fixed else draw(choice) for key, choice in choices.items()}
    return Problem(name, **drawn)
