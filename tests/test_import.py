"""`import skgp` loads no more than it needs: what is slow or optional waits for its first use."""

import subprocess
import sys

WAITING = (
    "catboost", "matplotlib", "ngboost", "polars", "pyarrow.dataset", "quantile_forest", "ray",
    "safetensors", "sklearn.cluster", "sklearn.compose", "sklearn.ensemble", "sklearn.linear_model",
    "sklearn.svm", "sklearn.tree", "skgp.plotting",
    "skgp.streams", "torch._dynamo", "torch._inductor",
)  # fmt: skip


def test_import_leaves_out_what_is_slow_or_optional() -> None:
    code = "import skgp, sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split())
    assert "skgp.estimators.svgp" in loaded
    assert not loaded & set(WAITING)


def test_subpackages_are_loaded_when_they_are_named() -> None:
    code = """
import skgp
y = skgp.datasets.load_motorcycle(return_X_y=True)[1]
print(skgp.scoring.crps.__module__, skgp.plotting.__name__, skgp.streams.__name__)
try:
    skgp.scorings
except AttributeError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines() == [
        "skgp.scoring._scores skgp.plotting skgp.streams",
        "module 'skgp' has no attribute 'scorings'",
    ]


def test_first_fits_of_a_process_do_not_import_a_compiler() -> None:
    """That would take a second, as long as many a fit."""
    code = """
import sys
import numpy as np
from skgp import DGPRegressor, DSPPRegressor, PPGPRClassifier, SVGPRegressor
X, y = np.arange(40.0).reshape(20, 2) % 7.0, np.arange(20.0) % 5.0
SVGPRegressor().fit(X, y)
DSPPRegressor(max_iter=2).fit(X, y)
DGPRegressor(max_iter=4, early_stopping=True).fit(X, y)
PPGPRClassifier(max_iter=2).fit(X, y > 2.0)
sys.exit("torch._dynamo" in sys.modules)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
