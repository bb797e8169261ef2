"""What a file takes and what it leaves out, classes of users, pipelines, and files of old."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import pandas as pd
import pytest
import skops.io
import torch
from gpytorch.kernels import (
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    PolynomialKernel,
    RBFKernel,
    RFFKernel,
    RQKernel,
    ScaleKernel,
    SpectralMixtureKernel,
)
from sklearn.callback import ProgressBar
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

from skgp import DSPPClassifier, PPGPRRegressor, SVGPClassifier, SVGPRegressor, load, save
from skgp.compose import CrossFittedRegressor
from skgp.exceptions import InvalidFileError
from skgp.files import _trusted
from skgp.files._container import unpack

pytestmark = pytest.mark.usefixtures("short_start")

SMALL: dict[str, Any] = {"n_inducing": 5, "max_iter": 2, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)


class Warped(gpytorch.kernels.RBFKernel):
    """A kernel of a user."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.power = power

    def forward(self, x1: Any, x2: Any, **params: Any) -> Any:
        return super().forward(x1.tanh() ** self.power, x2.tanh() ** self.power, **params)


class Shifted(nn.Module):
    """A network of a user, with a shared part and a buffer that is not persistent."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.first = nn.Linear(n_features, n_features)
        self.again = self.first
        self.names = {"shift": 1.0}
        self.register_buffer("shift", torch.ones(n_features), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.again(torch.tanh(self.first(x))) + self.shift * self.names["shift"]


class Regressor(SVGPRegressor):
    """An estimator of a user."""


def normed(n_features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_features, 4), nn.BatchNorm1d(4), nn.Tanh())


def hooked(n_features: int) -> nn.Module:
    module = nn.Linear(n_features, 2)
    module.register_forward_hook(lambda module, x, y: y)
    return module


def fitted(**params: Any) -> Any:
    return SVGPRegressor(**SMALL, **params).fit(X, Y)


def assert_comes_back(model: Any, path: Path, **kwargs: Any) -> Any:
    save(model, path)
    again = load(path, **kwargs)
    np.testing.assert_array_equal(again.predict(X), model.predict(X), strict=True)
    return again


# ------------------------------------------------------------ kernels, networks

KERNELS = {
    "ard": RBFKernel(ard_num_dims=3),
    "prior": MaternKernel(nu=1.5, lengthscale_prior=gpytorch.priors.GammaPrior(3.0, 6.0)),
    "sum": RBFKernel() + LinearKernel(),
    "product": RBFKernel() * PeriodicKernel(),
    "columns": RQKernel(active_dims=(0, 1)),
    "interval": ScaleKernel(
        PolynomialKernel(2), outputscale_constraint=gpytorch.constraints.Interval(0.1, 10.0)
    ),
    "mixture": SpectralMixtureKernel(num_mixtures=2, ard_num_dims=3),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_kernels_of_gpytorch_come_back_and_train_on(kernel: Any, path: Path) -> None:
    model = fitted(kernel=kernel, warm_start=True)
    again = assert_comes_back(model, path)
    assert again.kernel is again._built_with["kernel"]
    for each in (model, again):
        each.fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("params", "classes"),
    [
        ({"kernel": Warped(2.0)}, [Warped]),
        ({"kernel": RFFKernel(10, num_dims=3)}, [RFFKernel]),
        ({"feature_extractor": Shifted}, [Shifted]),
        ({"feature_extractor": normed}, [normed]),
    ],
)
def test_classes_of_users_have_to_be_passed(params: Any, classes: Any, path: Path) -> None:
    model = fitted(**params)
    again = assert_comes_back(model, path, classes=classes)
    assert again.fit(X, Y).n_iter_ == 2
    with pytest.raises(InvalidFileError, match=classes[0].__name__):
        load(path)
    with pytest.raises(InvalidFileError, match=classes[0].__name__):
        load(path, classes=[Regressor, hooked])


def test_shared_parts_stay_shared(path: Path) -> None:
    again = assert_comes_back(fitted(feature_extractor=Shifted), path, classes=[Shifted])
    (network,) = {m for m in again.model_.modules() if isinstance(m, Shifted)}
    assert network.first is network.again
    assert "shift" not in network.state_dict()
    assert network.shift.tolist() == [1.0] * 3


def test_an_estimator_of_a_user_has_to_be_passed(path: Path) -> None:
    save(Regressor(**SMALL).fit(X, Y), path)
    with pytest.raises(InvalidFileError, match="Regressor"):
        load(path)
    assert type(load(path, classes=[Regressor])) is Regressor


# ------------------------------------------------------- what there is in a file


@pytest.mark.parametrize("dtype", [str, object, bool, np.int8, np.uint64])
def test_labels_of_any_kind_come_back(dtype: Any, path: Path) -> None:
    y = (Y > 0).astype(int)
    y = (np.array(["no", "perhaps, or ☂"])[y] if dtype in (str, object) else y).astype(dtype)
    no, yes = np.unique(y)
    model = SVGPClassifier(**SMALL, class_weight={yes: 2.0, no: 1.0}).fit(X, y)
    again = assert_comes_back(model, path)
    np.testing.assert_array_equal(again.classes_, model.classes_, strict=True)
    assert again.class_weight == model.class_weight
    assert list(map(type, again.class_weight)) == list(map(type, model.class_weight))


def test_names_and_numbers_come_back(path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    generator = np.random.RandomState(3)
    generator.normal()
    params = {"learning_rate_init": np.float64(0.1), "random_state": generator, "tol": 1e-300}
    model = SVGPRegressor(**{**SMALL, **params}).fit(frame, pd.Series(Y, name="y"))
    model.further_ = [np.float32(0.1), np.nan, -np.inf, -0.0, 2**70, "\ud800\0", None, (), {1: "a"}]
    model.fortran_ = np.asfortranarray(X)
    save(model, path)
    again = load(path)
    assert repr(again.further_) == repr(model.further_)
    assert again.fortran_.flags.f_contiguous
    assert type(again.learning_rate_init) is np.float64
    np.testing.assert_array_equal(again.feature_names_in_, model.feature_names_in_, strict=True)
    assert again.random_state.normal() == generator.normal()
    assert again.predict(frame).tolist() == model.predict(frame).tolist()


def test_what_belongs_to_the_session_is_left_out(path: Path, tmp_path: Path) -> None:
    model = fitted(memory=str(tmp_path / "cache")).set_callbacks(ProgressBar())
    again = assert_comes_back(model, path)
    assert again.memory is None
    assert not hasattr(again, "_skl_callbacks")
    assert model.memory is not None
    assert hasattr(model, "_skl_callbacks")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"feature_extractor": lambda n_features: nn.Identity()}, "<lambda> has no name"),
        ({"feature_extractor": hooked}, "hooks"),
        ({"kernel": RBFKernel(lengthscale_prior=gpytorch.priors.NormalPrior(0, 1))}, None),
    ],
)
def test_what_no_file_can_hold_is_not_saved(params: Any, message: str | None, path: Path) -> None:
    model = fitted(**params)
    if message is None:
        model.kernel.register_prior("other", gpytorch.priors.NormalPrior(0, 1), lambda k: k.power)
        message = "<lambda> has no name"
    with pytest.raises(ValueError, match=message):
        save(model, path)
    assert not path.exists()


NOT_SAVED = {
    "complex numbers": (np.zeros(1, dtype=complex), "complex128"),
    "dates": (np.zeros(1, dtype="M8[s]"), "datetime64"),
    "bytes": (np.array([b"a"]), "array of .S1"),
    "objects": (np.array([object()]), "other than strings and numbers"),
    "a masked array": (np.ma.masked_array([1.0]), "may not have an attribute|class MaskedArray"),
    "a set": ({1, 2}, "class set"),
    "an object": (object(), "class object"),
    "a sparse tensor": (torch.zeros(1).to_sparse(), "sparse"),
    "a tensor without numbers": (torch.zeros(1, device="meta"), "meta"),
    "a long text": ("a" * 2**23, "take .* characters"),
    "a method of something else": (nn.Linear(1, 1).forward, "class method"),
}


@pytest.mark.parametrize(("value", "message"), NOT_SAVED.values(), ids=NOT_SAVED)
def test_attributes_that_no_file_can_hold_are_not_saved(
    value: Any, message: str, path: Path
) -> None:
    model = fitted()
    model.further_ = value
    with pytest.raises(ValueError, match=message):
        save(model, path)
    assert not path.exists()


@pytest.mark.parametrize(
    "other",
    [
        make_pipeline(StandardScaler(), SVGPRegressor()),
        CrossFittedRegressor(SVGPRegressor()),
        StandardScaler(),
        SVGPRegressor,
        None,
    ],
    ids=lambda other: type(other).__name__,
)
def test_other_estimators_are_not_saved(other: Any, path: Path) -> None:
    with pytest.raises(TypeError, match="save takes an estimator of skgp"):
        save(other, path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("inside", "remedy"),
    [
        (SVGPRegressor(), ""),
        (make_pipeline(StandardScaler(), SVGPRegressor()), ", of a pipeline step by step"),
    ],
)
def test_what_can_be_saved_of_other_estimators(inside: Any, remedy: str, path: Path) -> None:
    ensemble, search = CrossFittedRegressor(inside), GridSearchCV(inside, {})
    ensemble.estimators_, search.best_estimator_ = [inside], inside
    for other, part in ((ensemble, "estimators_ one by one"), (search, "best_estimator_")):
        with pytest.raises(TypeError, match=f"save its {part}{remedy}" + ("" if remedy else "$")):
            save(other, path)
    with pytest.raises(TypeError, match="save what it fits, of a pipeline step by step"):
        save(CrossFittedRegressor(inside), path)


def test_a_file_says_what_wrote_it(model: Any, content: bytes) -> None:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    document = json.loads(header["__metadata__"]["skgp"])
    assert document["format_version"] == 1
    assert document["versions"]["torch"] == torch.__version__
    structure, _ = unpack(content)
    assert structure["state"]["n_inducing"] == model.n_inducing


# ------------------------------------------------------------- trust, imports


def subclasses(base: type) -> set[type]:
    return {base}.union(*map(subclasses, base.__subclasses__()))


def test_every_module_of_the_package_is_trusted_by_one_name() -> None:
    """Abstract ones apart, of which no object can be made."""
    trusted = {**_trusted._TRUSTED, **_trusted._ESTIMATORS}
    concrete = {
        cls
        for cls in subclasses(nn.Module)
        if cls.__module__.startswith("skgp.") and not inspect.isabstract(cls)
    }
    assert len(concrete) > 40
    assert concrete <= set(trusted.values())
    assert len(trusted) == len(set(trusted.values())) == len(_trusted.NAMES)


def test_importing_skgp_does_not_import_safetensors() -> None:
    code = "import sys, skgp; assert 'safetensors' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_safetensors_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, content: bytes, path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ImportError, match=r"skgp\[files\]"):
        save(SVGPRegressor(), path)
    path.write_bytes(content)
    with pytest.raises(ImportError, match=r"skgp\[files\]"):
        load(path)


def test_of_a_search_the_best_estimator_is_saved(tmp_path: Path) -> None:
    X, y = np.linspace(0, 1, 12)[:, None], np.linspace(0, 1, 12)
    model = SVGPRegressor(n_inducing=3, max_iter=1)
    grid, of_pipeline = {"max_iter": [1]}, {"svgpregressor__max_iter": [1]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    with pytest.raises(TypeError, match=r"not GridSearchCV: save its best_estimator_$"):
        save(search, tmp_path / "m.skgp")
    save(search.best_estimator_, tmp_path / "m.skgp")
    pipe = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(pipe, of_pipeline, cv=2).fit(X, y)
    with pytest.raises(TypeError, match="best_estimator_, of a pipeline step by step"):
        save(search, tmp_path / "m.skgp")


# ---------------------------------------------------------- pipelines with skops


def test_a_pipeline_is_saved_in_two_files(tmp_path: Path) -> None:
    """The recipe of the user guide."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = np.where(np.arange(40) % 2, "high", "low")
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer(
        (numbers, ["a", "b", "c"]), (OneHotEncoder(sparse_output=False), ["kind"])
    )
    pipe = make_pipeline(columns, PPGPRRegressor(**SMALL)).fit(frame, Y)

    skops.io.dump(pipe[:-1], tmp_path / "steps.skops")
    save(pipe[-1], tmp_path / "model.skgp")

    assert skops.io.get_untrusted_types(file=tmp_path / "steps.skops") == ["numpy.dtype"]
    steps = skops.io.load(tmp_path / "steps.skops", trusted=["numpy.dtype"])
    again = make_pipeline(*steps, load(tmp_path / "model.skgp"))
    np.testing.assert_array_equal(again.predict(frame), pipe.predict(frame))


# ------------------------------------------------------------- files of old

HERE = Path(__file__).parent
CASES = json.loads((HERE / "expected.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_files_of_earlier_versions_predict_what_they_did(name: str) -> None:
    """Made by `python tests/files/make_files.py`, once for each version of the format."""
    case = CASES[name]
    model = load(HERE / f"{name}.skgp")
    assert type(model).__name__ == case["class"]
    rows = np.array(case["X"])
    if isinstance(model, DSPPClassifier):
        assert model.predict(rows).tolist() == case["labels"]
        np.testing.assert_allclose(model.predict_proba(rows), case["probabilities"], rtol=1e-9)
    else:
        mean, std = model.predict(rows, return_std=True)
        np.testing.assert_allclose(mean, case["mean"], rtol=1e-9)
        np.testing.assert_allclose(std, case["std"], rtol=1e-9)
    if name.startswith("stream"):
        model.partial_fit(rows, case["mean"])
        np.testing.assert_allclose(model.loss_curve_, case["loss_curve"], rtol=1e-6)


def test_a_file_stays_if_a_new_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = SVGPRegressor(n_inducing=4, max_iter=2, random_state=0)
    model.fit(np.arange(6.0)[:, None], np.arange(6.0))
    path = tmp_path / "model.skgp"
    save(model, path)
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            save(model.set_params(max_iter=3), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    link = tmp_path / "link.skgp"
    link.symlink_to(path)
    save(model, link)
    assert link.is_symlink()
    assert load(path).max_iter == 3
    path.chmod(0o640)
    save(model, path)
    assert path.stat().st_mode & 0o777 == 0o640
