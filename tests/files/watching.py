"""What is called while a file is read, and a file as somebody makes it who knows the format."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import safetensors.torch

from skgp.files import _container

# Whose functions run while a file is read.
AT_WORK = {
    *("None", "abc", "_abc", "builtins", "collections", "contextlib", "dataclasses", "enum", "re"),
    *("functools", "_hashlib", "inspect", "io", "json", "math", "numpy", "pathlib", "posix", "sys"),
    *("safetensors", "skgp.exceptions", "skgp.files", "torch", "gpytorch.module", "types"),
    *("gpytorch.priors.prior", "random", "secrets", "threading", "watching"),
}
# Of these and of C, what would run something that a file names.
FORBIDDEN = {
    *("__import__", "__reduce__", "__reduce_ex__", "__setstate__", "compile", "eval", "exec"),
    *("execv", "fork", "import_module", "load_module", "popen", "system"),
}
# Whose constructors run.
MADE = ("skgp.exceptions", "torch.nn.modules.module", "gpytorch.module", "torch.utils.hooks")


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
