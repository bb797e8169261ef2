"""What holds for every estimator whatever the table is."""

import os
import random
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import DataConversionWarning
from strategies import Array, Problem, is_classifier, is_embedding

from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError

TYPED = (ValueError, TypeError, NonFiniteLossError, NotPositiveDefiniteError, MemoryError)
ARGUMENTS = {"X", "y", "sample_weight", "X_val", "y_val", "Z", "classes", "n_total"}
LEVELS = [0.01, 0.5, 0.99]


# ------------------------------------------------------------------ refusals


def assert_refuses_clearly(error: Exception, model: Any) -> None:
    """The error is of a type that is announced, and names an argument or a parameter."""
    is_typed = isinstance(error, TYPED)
    if isinstance(error, np.linalg.LinAlgError):  # which is a ValueError
        is_typed = isinstance(error, NotPositiveDefiniteError)
    if not is_typed:
        raise AssertionError(f"{type(error).__name__} is not announced: {error}") from error
    assert names_an_argument(str(error), model), f"{type(error).__name__} names nothing: {error}"


def names_an_argument(message: str, model: Any) -> bool:
    words = set(re.findall(r"\w+", message))
    return bool(words & (ARGUMENTS | set(model.get_params())))


@contextmanager
def clear_warnings_only(model: Any) -> Iterator[None]:
    """Warnings are for users: of their kind, and with the name of an argument."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        assert issubclass(warning.category, UserWarning), str(warning.message)
        assert issubclass(warning.category, DataConversionWarning) or names_an_argument(
            str(warning.message), model
        ), str(warning.message)


# ------------------------------------------------------------------- answers


def assert_proper(dist: Any) -> None:
    """Finite moments, positive deviations, ordered quantiles."""
    mean, std = dist.mean(), dist.std()
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > 0.0).all()
    low, middle, high = np.moveaxis(dist.ppf(LEVELS), -1, 0)
    assert np.isfinite([low, middle, high]).all()
    assert (low <= middle).all()
    assert (middle <= high).all()
    # They are distinct wherever float64 can hold the difference.
    is_wide = std > 4.0 * np.spacing(np.abs(middle))
    assert (low < high)[is_wide].all()


def assert_answers(model: Any, problem: Problem) -> None:
    """Everything that the estimator says of its table and of other rows is finite and proper."""
    if is_embedding(problem.case):
        _assert_embeds(model, problem.table)
    elif is_classifier(problem.case):
        for X in (problem.X, problem.X_new, far(problem.X)):
            _assert_classifies(model, X)
    else:
        for X in (problem.X, problem.X_new, far(problem.X)):
            assert_proper(model.predict_dist(X))
        _assert_scores(model, problem)
    assert np.isfinite(model.loss_curve_).all()


def far(X: Array) -> Array:
    """Rows far beyond those of X."""
    X = np.asarray(X, dtype=float)
    return np.clip(1e6 * X + 1e6 * (np.abs(X).max() + 1.0), -1e300, 1e300)


def _assert_scores(model: Any, problem: Problem) -> None:
    X, y = problem.X, np.asarray(problem.y, dtype=float)
    dist = model.predict_dist(X)
    y = y.reshape(dist.shape)
    observed = ~np.isnan(y)
    log_density = dist.logpdf(y)[observed]
    assert not np.isnan(log_density).any()
    assert (log_density < np.inf).all()
    assert np.isfinite(dist.crps(y)[observed]).all()
    assert np.isfinite(dist.rvs(3)).all()
    assert np.isfinite(dist.cov()).all()
    if model.model_.has_gp_outputs:
        for rows in (X, far(X)):
            assert np.isfinite(model.predict(rows, return_cov=True)[1]).all()
            assert np.isfinite(model.sample_functions(2)(rows)).all()
            assert np.isfinite(model.sample_y(rows, 3)).all()
    if hasattr(model, "predict_latent"):
        assert_proper(model.predict_latent(problem.X_new))
    noise = np.asarray(model.noise_variance_)
    assert np.isfinite(noise).all()
    assert (noise > 0.0).all()


def _assert_classifies(model: Any, X: Array) -> None:
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), len(model.classes_))
    assert (proba >= 0.0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)
    assert np.isfinite(model.predict_log_proba(X)).all()
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    mean, variance = model.latent_mean_and_variance(X)
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()
    assert (variance > 0.0).all()


def _assert_embeds(model: Any, table: Array) -> None:
    assert np.isfinite(model.embedding_).all()
    for rows in (table, 1.01 * table):
        dist = model.transform_dist(rows)
        assert np.isfinite(dist.mean()).all()
        assert (dist.std() > 0.0).all()
    assert_proper(model.predict_dist(model.embedding_))
    assert np.isfinite(model.score_samples(table)).all()


# --------------------------------------------------------- predictions, state


def predictions(model: Any, X: Array) -> Array:
    """Everything that is predicted for rows, as columns."""
    if hasattr(model, "transform"):
        # Rows of data, or where they lie: the columns of X are inputs or outputs.
        dist = model.transform_dist(X)
        return np.column_stack([dist.mean(), dist.std()])
    if hasattr(model, "classes_"):
        return np.asarray(model.predict_proba(X))
    dist = model.predict_dist(X)
    mean, std = dist.mean(), dist.std()
    parts = [mean, std, dist.cdf(mean + 0.5 * std)]
    return np.column_stack([part.reshape(len(X), -1) for part in parts])


def assert_same_attributes(model: Any, before: Any) -> None:
    """The same attributes, and equal where they are numbers, words or arrays."""
    old, new = own_attributes(before), own_attributes(model)
    assert new.keys() == old.keys()
    for name, value in old.items():
        if isinstance(value, np.ndarray | np.generic | int | float | str | tuple | list | None):
            np.testing.assert_array_equal(new[name], value, err_msg=name)


def own_attributes(model: Any) -> dict[str, Any]:
    """Attributes, apart from what scikit-learn keeps of callbacks."""
    return {k: v for k, v in vars(model).items() if not k.startswith("_skl_")}


# --------------------------------------------------------------- global state


def global_state() -> dict[str, Any]:
    """Settings and seeds that belong to the user."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002  (the user's)
    return {
        "NumPy's seed": (kind, keys.tolist(), *rest),
        "Python's seed": random.getstate(),
        "torch's seed": torch.get_rng_state().tolist(),
        "NumPy's errors": np.geterr(),
        "default dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "threads": torch.get_num_threads(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "precision of products": torch.get_float32_matmul_precision(),
        "warnings": list(warnings.filters),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }


@contextmanager
def global_state_kept() -> Iterator[None]:
    """What happens inside changes nothing that other code depends on."""
    before = global_state()
    yield
    after = global_state()
    changed = [name for name, value in before.items() if after[name] != value]
    assert not changed
