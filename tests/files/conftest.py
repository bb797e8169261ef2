"""A file, what it says, and a watch over what is called while one is read."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import pytest
import safetensors.torch

from skgp import SVGPRegressor, load, save
from skgp.files import _container
from skgp.files._container import unpack

# Whose functions run while a file is read.
AT_WORK = {
    *("None", "abc", "_abc", "builtins", "collections", "contextlib", "dataclasses", "enum", "re"),
    *("functools", "_hashlib", "inspect", "io", "json", "math", "numpy", "pathlib", "posix", "sys"),
    *("safetensors", "skgp.exceptions", "skgp.files", "torch", "gpytorch.module", "types"),
    *("gpytorch.priors.prior", "random", "secrets", "threading", "conftest"),
}
# Of these and of C, what would run something that a file names.
FORBIDDEN = {
    *("__import__", "__reduce__", "__reduce_ex__", "__setstate__", "compile", "eval", "exec"),
    *("execv", "fork", "import_module", "load_module", "popen", "system"),
}
# Whose constructors run.
MADE = ("skgp.exceptions", "torch.nn.modules.module", "gpytorch.module", "torch.utils.hooks")


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


def signed(text: str, tensors: dict[str, Any], **metadata: str) -> bytes:
    """A file as somebody would make it who knows the format."""
    known = {"skgp": text, "sha256": _container._digest(text, tensors)}
    return safetensors.torch.save(tensors, known | metadata)


@contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    """The functions that are called: their modules and names."""
    calls: list[tuple[str, str]] = []

    def note(frame: Any, event: str, function: Any) -> None:
        if event == "call":
            calls.append((str(frame.f_globals.get("__name__")), frame.f_code.co_name))
        elif event == "c_call":
            calls.append((str(getattr(function, "__module__", None)), function.__name__))

    before = sys.getprofile()
    gc.disable()  # it may end what others have left
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        gc.enable()


def assert_nothing_ran(calls: list[tuple[str, str]]) -> None:
    assert calls
    for module, name in calls:
        assert any(f"{module}.".startswith(f"{part}.") for part in AT_WORK), (module, name)
        assert name not in FORBIDDEN, (module, name)
        if name == "__init__" and module.partition(".")[0] in ("skgp", "torch", "gpytorch"):
            assert module.startswith((*MADE, "skgp.files")), (module, name)


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
