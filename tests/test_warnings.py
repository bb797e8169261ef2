"""Every warning of the package is one short line that names its remedy."""

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import skgp
from skgp import Checkpoint, ExactGPRegressor, MOGPEmbedding, SVGPRegressor
from skgp.core.numerics import elementwise
from skgp.core.training.history import History
from skgp.fitting import recording
from skgp.fitting.coverage import Coverage
from skgp.fitting.diagnosis import _calibration, _length
from skgp.fitting.plans import Epochs, Minibatch, Stopping, minibatch_plan
from skgp.fitting.rows import Rows
from skgp.fitting.search import NO_SEARCH
from skgp.fitting.table import Table
from skgp.streams import read_rows

LONGEST = 200  # characters
ROOT = Path(skgp.__file__).parent
# What is to be done about it.
REMEDY = re.compile(
    r"\b(lower|raise|set|use|try|pass|free|install|check|drop|fit a new one|leaves? them out|"
    r"fit again|starts anew|unless)\b"
)
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 2))
y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=120)
FLAT = rng.normal(size=(60, 1)) * np.arange(1.0, 5.0)
svgp = partial(SVGPRegressor, n_inducing=20, max_iter=100, random_state=0)
embedding = partial(MOGPEmbedding, n_components=1, n_inducing=10, random_state=0)
fast = partial(embedding, max_iter=300, learning_rate_init=0.1, noise_floor=1e-3)


class Interrupter:
    """Callback that presses Ctrl-C after the first epoch."""

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        if context.task_name == "epoch":
            raise KeyboardInterrupt


class Broken:
    """A cache that fails with a text of several lines."""

    def cache(self, function: Any) -> Any:
        raise OSError("the folder is gone:\n" + "  a line of a trace\n" * 20)


def limited_search() -> None:
    model, like = svgp().fit(X, y).model_, torch.zeros((), dtype=torch.float64)
    table = Table(Rows(X, y[:, None], None), model.x_scale, model.y_scale, like)
    plan = minibatch_plan(
        Minibatch("auto", 1000), Stopping("auto", 1, 0.0), Epochs(longest=40), 120
    )
    rising = list(0.02 * np.arange(40.0))
    search = NO_SEARCH._replace(scores=rising, limit=40)
    give(_length(History([1.0, 0.0]), plan, table, search, {}))


def give(found: list[Warning]) -> None:
    for warning in found:
        warnings.warn(warning, stacklevel=1)


def unreadable() -> None:
    """A checkpoint that holds an object of some class, on which torch has much to say."""
    content = recording._packed({"fit": {}, "number": 9, "states": Interrupter()})
    for which in (0, 1):
        Path(f"fit.ckpt.{which}").write_bytes(content)
    svgp(checkpoint=Checkpoint("fit.ckpt")).fit(X, y)


def unwritable() -> None:
    Path("file").write_text("")
    svgp(checkpoint=Checkpoint("file/fit.ckpt", every=0)).fit(X, y)


def uncompilable(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*tensors: torch.Tensor) -> None:
        raise RuntimeError("no compiler\n" * 100)

    monkeypatch.setattr(elementwise.torch, "compile", lambda *_, **__: failing)
    elementwise.Passes(compiled=True)(elementwise.matern52, torch.ones(3))


def other_units() -> None:
    svgp(warm_start=True, batch_size=60, max_iter=40).fit(X, y).fit(X, 1e6 * y)


def rounded() -> None:
    times = 1.7e9 + np.arange(50.0)
    read_rows(pa.table({"time": times, "y": times}), target="y")


def unsorted() -> None:
    codes = pa.array([0, 1], pa.int8())
    labels = pa.DictionaryArray.from_arrays(codes, pa.array(["low", "high"]), ordered=True)
    read_rows(pa.table({"a": [0.0, 1.0], "y": labels}), target="y")


PROVOKED: dict[str, Callable[[], Any]] = {
    "diverged": lambda: svgp(learning_rate_init=3.0).fit(X, y),
    "failed": lambda: svgp(normalize_y=False).fit(X, 1000.0 * y),
    "failed, embedding": lambda: embedding(max_iter=5, normalize_X=False).fit(1e-5 * FLAT),
    "search at its limit": limited_search,
    "still falling": lambda: embedding(max_iter=20).fit(FLAT),
    "noise at its floor": lambda: ExactGPRegressor().fit(X, X[:, 0]),
    "noise at its floor, embedding": lambda: fast(normalize_X=False).fit(FLAT),
    "narrow": lambda: give(_calibration(Coverage(1e5, 2e5, 200_000, 2e5, 2e5), {"beta_reg": 1.0})),
    "wide": lambda: give(_calibration(Coverage(2e5, 2e5, 200_000, 2e5, 2e5), {})),
    "a code among inputs": lambda: svgp().fit(np.where(X == X[7], 1e9, X), y),
    "wrong targets": lambda: svgp().fit(X, np.where(y == y[7], 1e9, y)),
    "inputs without scales": lambda: svgp(normalize_X=False).fit(X * [1.0, 1e6], y),
    "light rows": lambda: svgp().fit(X, y, sample_weight=np.full(120, 0.01)),
    "interrupted": lambda: svgp(batch_size=60).set_callbacks(Interrupter()).fit(X, y),
    "outliers": lambda: svgp().partial_fit(X, y).partial_fit(1e6 * X[:40], 1e6 * y[:40]),
    "other units": other_units,
    "checkpoint not read": unreadable,
    "checkpoint not written": unwritable,
    "cache": lambda: svgp(memory=Broken()).fit(X, y),
    "rounded inputs": rounded,
    "ordered labels": unsorted,
}


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each of them says."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("warnings"))
        for name, provoke in [*PROVOKED.items(), ("compiler", partial(uncompilable, patch))]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                provoke()
            found[name] = [str(w.message) for w in caught]
    return found


def test_each_is_one_short_line_with_a_remedy(messages: dict[str, list[str]]) -> None:
    assert {name for name, found in messages.items() if not found} == set()
    said = {message for found in messages.values() for message in found}
    assert {message for message in said if "\n" in message} == set()
    assert {message: len(message) for message in said if len(message) > LONGEST} == {}
    assert {message for message in said if not REMEDY.search(message)} == set()


def test_all_that_the_package_has_are_among_them(messages: dict[str, list[str]]) -> None:
    """Each text in a warning's constructor begins one of the provoked messages, or is in one."""
    said = " | ".join(message for found in messages.values() for message in found)
    texts = list(texts_of_warnings())
    assert len(texts) >= 12
    assert [text for text in texts if text not in said] == []


def texts_of_warnings() -> Iterator[str]:
    """The longest constant part of each message that is made in the package."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = ast.unparse(node.func)
            message = node.args[0]
            is_made = name.endswith("Warning") or name == "warnings.warn"
            if not is_made or isinstance(message, ast.Name):
                continue
            parts = message.values if isinstance(message, ast.JoinedStr) else [message]
            constants = [part.value for part in parts if isinstance(part, ast.Constant)]
            yield max(constants, key=len)
