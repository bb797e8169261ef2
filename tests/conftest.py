"""Settings and fixtures of the whole test run."""

import os
from collections.abc import Iterator

# One thread per pytest-xdist worker, or the workers compete for the cores. The variable has to be
# set before torch is imported.
IS_XDIST_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if IS_XDIST_WORKER:
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["MKL_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "agg"

import numpy as np  # noqa: E402  (after the thread setting)
import pytest  # noqa: E402  (as above)
import torch  # noqa: E402  (as above)

from skgp.core.marginal import exact_starts, starts  # noqa: E402  (imports torch)
from skgp.core.training.run import Run  # noqa: E402  (as above)
from skgp.recipes import laplace  # noqa: E402  (as above)

if IS_XDIST_WORKER:
    torch.set_num_threads(1)


# Numbers of steps of the searches for first hyper-parameters.
_SEARCHES = [
    (module, name, getattr(module, name))
    for module, names in (
        (starts, ("_BOUND_STEPS", "_REFINEMENTS")),
        (exact_starts, ("_FEW_REFINEMENTS", "_ROUGH_REFINEMENTS", "_REFINEMENTS")),
    )
    for name in names
]


@pytest.fixture
def rng() -> np.random.Generator:
    """The same random numbers in every test, whatever ran before it."""
    return np.random.default_rng(0)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """As many threads as a user may have; a test worker has one."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(n_threads)


@pytest.fixture
def no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs leave all parameters where they start."""
    monkeypatch.setattr(Run, "_batches", lambda self: iter(()))


@pytest.fixture
def certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPs of few rows do not average over their hyper-parameters."""
    monkeypatch.setattr(laplace, "_MOST_ROWS", 0)


@pytest.fixture(scope="module")
def short_start() -> Iterator[None]:
    """Hardly any search for the first hyper-parameters, which takes longer than a tiny fit.

    Processes that a test starts search as ever.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module, name, _ in _SEARCHES:
            patch.setattr(module, name, 2)
        yield


@pytest.fixture
def full_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole search, in one test of a module whose other tests do with a short one."""
    for module, name, number in _SEARCHES:
        monkeypatch.setattr(module, name, number)


# Most tests make fits that are bad on purpose: of a few epochs, steps far too long, a few rows of
# hostile data. What these warnings say of them is true and not what such tests are about, which may
# still expect them by pytest.warns. That they come where they should, and that ordinary fits are
# silent, is for test_diagnosis.py and the doctests. All other warnings of a fit stay errors.
_OF_BAD_FITS = (
    "ignore:the loss was still falling:sklearn.exceptions.ConvergenceWarning",
    "ignore:training (diverged|failed):sklearn.exceptions.ConvergenceWarning",
    "ignore::skgp.exceptions.FitQualityWarning",
)


@pytest.hookimpl(tryfirst=True)  # before -m takes its choice
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bad fits are silent; and a check of 1,000 epochs is slow."""
    for item in items:
        if item.path.name != "test_diagnosis.py" and not isinstance(item, pytest.DoctestItem):
            item.add_marker(pytest.mark.filterwarnings(*_OF_BAD_FITS))
        if "check_class_weight_classifiers" in item.name:
            item.add_marker("slow")
