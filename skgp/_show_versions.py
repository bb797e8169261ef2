"""What to write into a bug report."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = (
    "skgp",
    "torch",
    "gpytorch",
    "linear_operator",
    "scikit-learn",
    "scipy",
    "numpy",
    "joblib",
    "matplotlib",
    "pandas",
    "safetensors",
)


def show_versions() -> None:
    """Print the versions of Python, of skgp and of what it runs on, and torch's devices.

    Examples
    --------
    >>> import skgp
    >>> skgp.show_versions()
    python: 3...
    """
    import torch

    lines = {"python": platform.python_version(), "platform": platform.platform()}
    lines |= {package: _version(package) for package in _PACKAGES}
    lines["threads of torch"] = str(torch.get_num_threads())
    is_available = torch.cuda.is_available()
    lines["cuda device"] = torch.cuda.get_device_name() if is_available else "none"
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in lines.items()))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
