"""`checkpoint`: a fit that ends early goes on in another one, to the last bit."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_cases import (
    CLASSIFIERS,
    EMBEDDINGS,
    ONE_OUTPUT,
    REGRESSORS,
    REPRESENTATIVES,
    Case,
    Data,
)
from fit_records import assert_same
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from torch import nn

from skgp import (
    Checkpoint,
    DSPPRegressor,
    FITCRegressor,
    PPGPRRegressor,
    SVGPRegressor,
    load,
    save,
)
from skgp.compose import CrossFittedRegressor
from skgp.core.training.run import Run
from skgp.exceptions import CheckpointWarning
from skgp.fitting.checkpoint import _instructions, _text
from skgp.fitting.recording import Recording

pytestmark = pytest.mark.usefixtures("short_start")

CASES = (*REGRESSORS, *ONE_OUTPUT, *CLASSIFIERS, *EMBEDDINGS)
# The other phases are tested with others.
QUICK = tuple(
    case
    for case in (*REPRESENTATIVES, CLASSIFIERS[0], EMBEDDINGS[1])
    if case.name not in {"fitc", "neural-mogp"}
)

Fit = Callable[..., Any]  # from parameters to a fitted estimator


class Killed(BaseException):
    """What nothing catches: the end of a process."""


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts what is written; the process ends after the one numbered "last"."""
    counts = {"done": 0, "last": 0}
    write = Recording._write

    def counted(self: Recording) -> bool:
        is_written = write(self)
        counts["done"] += 1
        if counts["done"] == counts["last"]:
            raise Killed
        return is_written

    monkeypatch.setattr(Recording, "_write", counted)
    return counts


def check_kills(fit: Fit, path: Path, writes: dict[str, int], n_kills: int) -> None:
    """Killed after some of its writings, the last among them, a fit ends as if it had not been."""
    expected = fit(checkpoint=None)
    writes |= {"done": 0, "last": 0}
    assert_same(fit(checkpoint=Checkpoint(path / "whole", every=0)), expected)
    n_writes = writes["done"]
    assert n_writes > 2
    for last in sorted({round(n_writes * (k + 1) / n_kills) for k in range(n_kills)}):
        folder = path / str(last)
        writes |= {"done": 0, "last": last}
        with pytest.raises(Killed):
            fit(checkpoint=Checkpoint(folder, every=0))
        writes["last"] = 0
        assert_same(fit(checkpoint=folder), expected)


def rows(case: Case, data: Data) -> tuple[Any, ...]:
    if case in EMBEDDINGS:
        return (data.Y,)
    return data.X, (data.y > np.median(data.y)) if case in CLASSIFIERS else data.y


def test_each_estimator_goes_on(
    case: Case, data: Data, tmp_path: Path, writes: dict[str, int]
) -> None:
    def fit(**params: Any) -> Any:
        return case.make(max_iter=3, **case.known({"batch_size": 25}), **params).fit(*given)

    given = rows(case, data)
    check_kills(fit, tmp_path, writes, 2)


def few_rows(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)


def normed(n_features: int) -> nn.Module:
    """A network whose buffers move whenever it is evaluated."""
    return nn.Sequential(nn.Linear(n_features, 2), nn.BatchNorm1d(2))


SMALL = {"n_inducing": 5, "n_sites": 2, "random_state": 0}
PHASES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "cross-validation": (
        DSPPRegressor,
        {**SMALL, "random_state": np.random.RandomState(3), "max_iter": 1},
        30,
    ),
    "restarts": (
        DSPPRegressor,
        {**SMALL, "max_iter": 4, "n_restarts": 3, "batch_size": 25, "early_stopping": False},
        50,
    ),
    "averages, and a falling rate": (DSPPRegressor, {**SMALL, "max_iter": 5, "batch_size": 20}, 60),
    "patience": (
        PPGPRRegressor,
        {
            **{"n_inducing": 5, "random_state": 0, "max_iter": 8, "batch_size": 30},
            **{"early_stopping": True, "n_iter_no_change": 2, "learning_rate_init": 0.5},
        },
        60,
    ),
    "convergence of L-BFGS": (
        FITCRegressor,
        {"n_inducing": 3, "random_state": 0, "feature_extractor": normed, "max_iter": 12},
        30,
    ),
}


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_goes_on(phase: str, tmp_path: Path, writes: dict[str, int]) -> None:
    make, params, n = PHASES[phase]

    def fit(**more: Any) -> Any:
        return clone(make(**params)).set_params(**more).fit(*few_rows(n))

    check_kills(fit, tmp_path, writes, 6)


def test_the_search_is_not_repeated(
    tmp_path: Path, writes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its length is found, the source of chance goes on from where the search has left it."""
    model = DSPPRegressor(**SMALL, max_iter=2, checkpoint=Checkpoint(tmp_path, every=0))
    model.set_params(random_state=np.random.RandomState(3))
    expected = clone(model).set_params(checkpoint=None).fit(*few_rows(30))
    writes["last"] = 2 * 5 + 1
    with pytest.raises(Killed):
        clone(model).fit(*few_rows(30))
    writes["last"] = 0
    built: list[Run[Any]] = []
    init = Run.__init__
    monkeypatch.setattr(Run, "__init__", lambda self, *a: (built.append(self), init(self, *a))[1])
    assert_same(model.fit(*few_rows(30)), expected)
    assert len(built) == 1
    assert model.random_state.randint(2**30) == expected.random_state.randint(2**30)


def test_a_warm_start_goes_on(data: Data, tmp_path: Path, writes: dict[str, int]) -> None:
    first = SVGPRegressor(n_inducing=5, max_iter=2, batch_size=25, warm_start=True, random_state=0)
    first.fit(data.X, data.y)

    def fit(**params: Any) -> Any:
        again = pickle.loads(pickle.dumps(first))
        return again.set_params(**params).fit(data.X, data.y)

    check_kills(fit, tmp_path, writes, 2)
    other = pickle.loads(pickle.dumps(first)).fit(data.X, data.y)
    n_files = len(list((tmp_path / "whole").iterdir()))
    other.set_params(checkpoint=tmp_path / "whole").fit(data.X, data.y)
    assert len(list((tmp_path / "whole").iterdir())) == n_files + 1


# ---------------------------------------------------------------- fits that have ended


def test_a_fit_that_has_ended_is_read(data: Data, tmp_path: Path, steps: dict[str, int]) -> None:
    often = Checkpoint(tmp_path, every=0)
    model = DSPPRegressor(**SMALL, max_iter=4, batch_size=20, checkpoint=often)
    first = clone(model).fit(data.X, data.y)
    assert steps["done"] > 0
    steps["done"] = 0
    second = clone(model).set_params(verbose=0, memory=str(tmp_path / "memory"))
    assert_same(second.fit(data.X, data.y), first)
    assert steps["done"] == 0
    np.testing.assert_array_equal(second.predict(data.X_new), first.predict(data.X_new))
    assert len(list(tmp_path.glob("DSPPRegressor-*.ckpt.*"))) == 1  # the older one is gone


def test_a_search_that_was_killed_skips_what_has_ended(
    data: Data, tmp_path: Path, steps: dict[str, int], writes: dict[str, int]
) -> None:
    """Fits of less than a minute are written once, when they end."""
    model = SVGPRegressor(n_inducing=5, max_iter=2, batch_size=25, random_state=0)
    grid = {"noise_floor": [1e-4, 1e-3]}
    GridSearchCV(model, grid, cv=2).fit(data.X, data.y)
    n_steps = steps["done"]
    search = GridSearchCV(model.set_params(checkpoint=str(tmp_path)), grid, cv=2)
    writes["last"] = 3
    with pytest.raises(Killed):
        search.fit(data.X, data.y)
    steps["done"] = 0
    search.fit(data.X, data.y)
    assert 0 < steps["done"] < 0.6 * n_steps  # two fits of five
    steps["done"] = 0
    search.fit(data.X, data.y)
    assert steps["done"] == 0


def test_an_ensemble_keeps_its_members_in_one_folder(
    data: Data, tmp_path: Path, steps: dict[str, int]
) -> None:
    model = SVGPRegressor(n_inducing=5, max_iter=2, batch_size=25, random_state=0)
    ensemble = CrossFittedRegressor(model.set_params(checkpoint=tmp_path), cv=3)
    first = ensemble.fit(data.X, data.y).predict_dist(data.X_new).mean()
    steps["done"] = 0
    second = clone(ensemble).fit(data.X, data.y).predict_dist(data.X_new).mean()
    assert steps["done"] == 0
    np.testing.assert_array_equal(second, first)
    assert len(list(tmp_path.iterdir())) == 3


# ---------------------------------------------------------------- whose files they are


def test_a_file_refuses_another_fit(data: Data, tmp_path: Path) -> None:
    """And says what is different."""
    path = tmp_path / "mine.ckpt"
    model = SVGPRegressor(n_inducing=5, max_iter=2, random_state=0, checkpoint=path)
    model.fit(data.X, data.y)
    others: list[tuple[dict[str, Any], tuple[Any, ...], str]] = [
        ({"max_iter": 3}, (data.X, data.y), r"another fit: max_iter: 2 there, 3 here\. "),
        ({"kernel": "rbf"}, (data.X, data.y), "another fit: kernel: 'matern52' there, 'rbf' here"),
        ({}, (data.X, data.y + 1.0), "another fit: the rows: other contents"),
        ({}, (data.X[:-1], data.y[:-1]), "another fit: the rows: other contents"),
        ({}, (data.X, data.y, np.full(len(data.X), 2.0)), "another fit: the rows: other contents"),
        ({"jitter": 1e-3}, (-data.X, data.y), "another fit: jitter: .*; the rows: other contents"),
        ({"random_state": np.random.RandomState(0)}, (data.X, data.y), "random_state: other"),
    ]
    for params, given, message in others:
        with pytest.raises(ValueError, match=message):
            clone(model).set_params(**params).fit(*given)
    with pytest.raises(ValueError, match="the validation rows: other contents"):
        clone(model).fit(data.X, data.y, X_val=data.X_new, y_val=data.y_new)
    ppgpr = PPGPRRegressor(n_inducing=5, max_iter=2, random_state=0, checkpoint=path)
    with pytest.raises(ValueError, match="the class: SVGPRegressor there, PPGPRRegressor here"):
        ppgpr.fit(data.X, data.y)
    clone(model).fit(data.X, data.y)


def test_modules_are_told_apart_by_their_contents(data: Data, tmp_path: Path) -> None:
    """Copies are equal, whatever hooks torch has counted before."""
    gpytorch = pytest.importorskip("gpytorch")
    kernels = gpytorch.kernels

    def fit(nu: float, lengthscale: float) -> None:
        kernel = kernels.ScaleKernel(kernels.MaternKernel(nu=nu))
        kernel.base_kernel.lengthscale = lengthscale
        path = tmp_path / "mine.ckpt"
        model = SVGPRegressor(kernel=kernel, n_inducing=5, max_iter=1, random_state=0)
        model.set_params(checkpoint=path).fit(data.X, data.y)

    fit(1.5, 0.7)
    nn.Linear(1, 1).register_forward_hook(lambda *_: None)
    fit(1.5, 0.7)
    for other in ((2.5, 0.7), (1.5, 0.8)):
        with pytest.raises(ValueError, match="another fit: kernel: other contents"):
            fit(*other)


def test_functions_and_classes_are_told_apart_by_what_they_do(data: Data, tmp_path: Path) -> None:
    """A notebook defines them anew under one name: the first network was taken for the second."""

    def fit(code: str) -> None:
        names: dict[str, Any] = {"nn": nn, "__name__": "notebook"}
        exec(code, names)
        model = SVGPRegressor(feature_extractor=names["net"], n_inducing=5, max_iter=1)
        model.set_params(random_state=0, checkpoint=tmp_path / "mine.ckpt").fit(data.X, data.y)

    function = "def net(k):\n    return nn.Sequential(nn.Linear(k, 2), nn.{}())"
    module = (
        "class net(nn.Module):\n"
        "    def __init__(self, k):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(k, 2)\n"
        "    def forward(self, x):\n"
        "        return {} * self.layer(x)"
    )
    for code, first, second in ((function, "ReLU", "Tanh"), (module, "1.0", "2.0")):
        for file in tmp_path.glob("mine.ckpt*"):
            file.unlink()
        fit(code.format(first))
        fit("\n\n" + code.format(first))  # at another place
        with pytest.raises(ValueError, match="another fit: feature_extractor: other contents"):
            fit(code.format(second))


def test_sets_in_a_function_have_one_text_in_all_processes() -> None:
    """The order of a set of strings differs from process to process."""

    def function(name: str) -> bool:
        return name in {"a", "b", "c", "d", "e", "f", "g", "h"}

    constants = _instructions(function.__code__)[1]
    assert [repr(letter) for letter in "abcdefgh"] in constants


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"random_state": None}, "random_state=None makes each fit another one"),
        ({"feature_extractor": lambda n: nn.Linear(n, 2)}, "cannot tell feature_extractor="),
        ({"checkpoint": Checkpoint("runs", every=-1)}, "every of checkpoint == -1, must be >= 0"),
    ],
)
def test_fits_that_cannot_be_told_apart(
    params: dict[str, Any], message: str, data: Data, tmp_path: Path
) -> None:
    model = SVGPRegressor(max_iter=1, random_state=0, checkpoint=tmp_path)
    with pytest.raises(ValueError, match=message):
        model.set_params(**params).fit(data.X, data.y)


# ---------------------------------------------------------------- files that are damaged


def stopped(data: Data, folder: Path, writes: dict[str, int]) -> tuple[Any, list[Path]]:
    """An estimator whose fit was killed after three writings, and its files, newest first."""
    model = SVGPRegressor(n_inducing=5, max_iter=4, batch_size=25, random_state=0)
    model.set_params(checkpoint=Checkpoint(folder, every=0))
    writes["last"] = 3
    with pytest.raises(Killed):
        model.fit(data.X, data.y)
    writes["last"] = 0
    newest, older = (next(folder.glob(f"*.ckpt.{number}")) for number in (1, 0))
    return model, [newest, older]


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped, lambda content: b""])
def test_damaged_files(
    damage: Callable[[bytes], bytes],
    data: Data,
    tmp_path: Path,
    writes: dict[str, int],
    steps: dict[str, int],
) -> None:
    model, (newest, older) = stopped(data, tmp_path, writes)
    expected = clone(model).set_params(checkpoint=None).fit(data.X, data.y)
    (tmp_path / "no.ckpt.tmp").write_bytes(b"half of a file")
    kept = newest.read_bytes(), older.read_bytes()
    newest.write_bytes(damage(kept[0]))
    steps["done"] = 0
    assert_same(clone(model).fit(data.X, data.y), expected)
    n_whole = 4 * 2 + 1  # steps, and the check of the last one
    assert steps["done"] == n_whole - 2  # after the older file
    for file, content in zip((newest, older), kept, strict=True):
        file.write_bytes(damage(content))
    steps["done"] = 0
    with pytest.warns(CheckpointWarning, match=r"cannot be read .*: the fit starts anew"):
        again = clone(model).fit(data.X, data.y)
    assert_same(again, expected)
    assert steps["done"] == n_whole


def test_nothing_in_a_file_is_run(
    data: Data, tmp_path: Path, writes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even with the right digest."""
    import skgp.fitting.recording as module

    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    model, files = stopped(data, tmp_path, writes)
    content = module._packed({"fit": {}, "number": 9, "states": Trap()})
    for file in files:
        file.write_bytes(content)
    with pytest.warns(CheckpointWarning, match="starts anew"):
        model.fit(data.X, data.y)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("where", ["under a file", "on a full disk"])
@pytest.mark.usefixtures("full_start")
def test_a_checkpoint_that_cannot_be_written(
    where: str, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning, and the fit goes on."""

    def no_space(number: int) -> None:
        raise OSError(28, "No space left on device")

    if where == "on a full disk":
        monkeypatch.setattr("os.fsync", no_space)
    else:
        (tmp_path / "folder").write_text("")
    model = SVGPRegressor(n_inducing=5, max_iter=2, batch_size=25, random_state=0)
    expected = clone(model).fit(data.X, data.y)
    with pytest.warns(CheckpointWarning, match="cannot be written .*: the fit goes on") as caught:
        model.set_params(checkpoint=Checkpoint(tmp_path / "folder", every=0)).fit(data.X, data.y)
    assert len(caught) == 1
    assert_same(model, expected)
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_model_is_the_same_after_predictions_and_copies(
    case: Case, data: Data, tmp_path: Path
) -> None:
    """A warm start from any of these finds the checkpoint of the others."""
    model = case.make(max_iter=2).fit(*rows(case, data))
    found = _text("model", model.model_)
    (model.transform if case in EMBEDDINGS else model.predict)(rows(case, data)[0])
    assert _text("model", model.model_) == found
    assert _text("model", pickle.loads(pickle.dumps(model)).model_) == found
    save(model, tmp_path / "model.skgp")
    assert _text("model", load(tmp_path / "model.skgp").model_) == found
    next(model.model_.parameters()).data.add_(1.0)
    assert _text("model", model.model_) != found
