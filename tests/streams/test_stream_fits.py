"""Fits and predictions of rows on disk are those of the same rows in memory, bit by bit."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from stored_rows import NAMES, Sliced, Stored, write

import skgp
from skgp import DSPPRegressor, SVGPClassifier, SVGPRegressor
from skgp.core import maps
from skgp.fitting import table
from skgp.streams import predict_dist, read_rows

SMALL = {"n_inducing": 15, "max_iter": 3, "batch_size": 200, "random_state": 0}
MODELS = {
    "svgp": SVGPRegressor(**SMALL),
    "early stopping": SVGPRegressor(early_stopping=True, n_iter_no_change=2, **SMALL),
    "dspp": DSPPRegressor(early_stopping=False, **SMALL),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("short_start"),
]


def inputs_on_disk(kind: str, stored: Stored, folder: Path) -> Any:
    if kind == "memmap":
        np.save(folder / "X.npy", stored.X)
        return np.load(folder / "X.npy", mmap_mode="r")
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        return zarr.create_array(store=str(folder / "X.zarr"), data=stored.X, chunks=(170, 3))
    if kind == "sliced":
        return Sliced(stored.X)
    return read_rows(stored.folder, target="y", columns=NAMES).X


@pytest.fixture
def _always_on_disk(monkeypatch: Any) -> None:
    """Whatever is on disk is large, and read in steps of 100 rows."""
    monkeypatch.setattr(maps, "LARGE", 0)
    monkeypatch.setattr(maps, "_STEP", 100 * 3 * 4)


@pytest.mark.usefixtures("_always_on_disk")
@pytest.mark.parametrize("kind", ["memmap", "zarr", "sliced", "parquet"])
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_that_of_an_array(name: str, kind: str, stored: Stored, tmp_path: Path) -> None:
    X = inputs_on_disk(kind, stored, tmp_path)
    on_disk, in_memory = (clone(MODELS[name]).fit(x, stored.y) for x in (X, stored.X))
    assert on_disk.loss_curve_ == in_memory.loss_curve_
    for a, b in zip(
        on_disk.predict(X, return_std=True),
        in_memory.predict(stored.X, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_a_large_file_is_read_in_blocks(stored: Stored, tmp_path: Path, monkeypatch: Any) -> None:
    """Other batches, the same model to the noise of training."""
    X = inputs_on_disk("memmap", stored, tmp_path)
    losses = [SVGPRegressor(**SMALL).fit(X, stored.y).loss_curve_]
    monkeypatch.setattr(table, "_LARGE_FILE", 0)
    losses += [SVGPRegressor(**SMALL).fit(x, stored.y).loss_curve_ for x in (X, stored.X)]
    assert losses[1] != losses[0]
    assert losses[2] == losses[0]
    np.testing.assert_allclose(losses[1], losses[0], atol=0.05)


# ------------------------------------------------------------------ predictions


def gathered(chunks: Any) -> tuple[np.ndarray, np.ndarray]:
    moments = [(dist.mean(), dist.std()) for dist in chunks]
    return tuple(np.concatenate(parts) for parts in zip(*moments, strict=True))


@pytest.mark.parametrize("kind", ["memmap", "zarr", "sliced"])
def test_predictions_of_an_array(kind: str, stored: Stored, tmp_path: Path) -> None:
    model = SVGPRegressor(**SMALL).fit(stored.X, stored.y)
    whole = model.predict_dist(stored.X)
    X = inputs_on_disk(kind, stored, tmp_path)
    chunks = list(predict_dist(model, X, chunk_size=100))
    assert [len(dist.mean()) for dist in chunks] == [100] * 12
    mean, std = gathered(chunks)
    np.testing.assert_allclose(mean, whole.mean(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(std, whole.std(), rtol=1e-12)


def test_predictions_of_files(stored: Stored) -> None:
    """Of a model that knows no names, and with a preprocessor."""
    model = SVGPRegressor(**SMALL).fit(stored.X, stored.y)
    chunks = list(predict_dist(model, stored.folder, columns=NAMES, chunk_size=100))
    assert max(len(dist.mean()) for dist in chunks) == 100
    np.testing.assert_allclose(gathered(chunks)[0], model.predict(stored.X), atol=1e-12)
    encoder = OneHotEncoder().fit(stored.frame[["kind"]])
    rows = read_rows(stored.folder, target="y", preprocessor=encoder)
    model = SVGPRegressor(**SMALL).fit(rows.X, rows.y)
    mean, _ = gathered(predict_dist(model, stored.folder, preprocessor=encoder))
    np.testing.assert_allclose(mean, model.predict(rows.X), atol=1e-12)


def test_new_files_may_lack_a_target_that_the_preprocessor_has_seen(
    stored: Stored, tmp_path: Path
) -> None:
    columns = [("k", OneHotEncoder(), ["kind"]), ("n", StandardScaler(), ["a"])]
    encoder = ColumnTransformer(columns).fit(stored.frame[["kind", "a", "y"]])
    rows = read_rows(stored.folder, target="y", preprocessor=encoder)
    model = SVGPRegressor(**SMALL).fit(rows.X, rows.y)
    new = write(stored.frame[["a", "kind"]], tmp_path / "new.parquet")
    mean, _ = gathered(predict_dist(model, new, preprocessor=encoder))
    np.testing.assert_allclose(mean, model.predict(rows.X), atol=1e-12)
    for names, message in (["a"], r"has seen \['kind', 'y'\]"), (["b"], "columns: no column"):
        lacking = write(stored.frame[names], tmp_path / "lacking.parquet")
        with pytest.raises(ValueError, match=message):
            list(predict_dist(model, lacking, preprocessor=encoder))


def test_predictions_of_files_have_the_digits_of_the_inputs(tmp_path: Path) -> None:
    """Of times in seconds, float32 knows no minute."""
    rng = np.random.default_rng(0)
    X = 1.7e9 + rng.uniform(0, 1000, (200, 1))
    path = write(pd.DataFrame({"time": X[:, 0]}), tmp_path / "times.parquet")
    model = SVGPRegressor(**SMALL).fit(X, X[:, 0] - 1.7e9)
    mean, std = gathered(predict_dist(model, path, columns=["time"], chunk_size=70))
    whole = model.predict_dist(X)
    np.testing.assert_allclose(mean, whole.mean(), rtol=1e-9)
    np.testing.assert_allclose(std, whole.std(), rtol=1e-9)
    as_they_are = FunctionTransformer(feature_names_out="one-to-one").fit(pd.read_parquet(path))
    mean, _ = gathered(predict_dist(model, path, preprocessor=as_they_are))
    np.testing.assert_allclose(mean, whole.mean(), rtol=1e-9)


def test_predictions_of_a_pipeline_that_takes_frames(stored: Stored) -> None:
    columns = ["kind", "a", "b"]
    encode = ColumnTransformer(
        [("k", OneHotEncoder(), ["kind"]), ("n", StandardScaler(), ["a", "b"])]
    )
    pipeline = make_pipeline(encode, SVGPRegressor(**SMALL))
    model = TransformedTargetRegressor(pipeline, transformer=StandardScaler())
    model.fit(stored.frame[columns], stored.y)
    whole = skgp.predict_dist(model, stored.frame[columns])
    mean, std = gathered(predict_dist(model, stored.folder, chunk_size=250))
    np.testing.assert_allclose(mean, whole.mean(), atol=1e-10)
    np.testing.assert_allclose(std, whole.std(), rtol=1e-10)


def test_predictions_of_a_frame_know_its_names_and_count_its_rows(stored: Stored) -> None:
    frame = pd.DataFrame(stored.X, columns=NAMES)
    frame.index = 0.5 * np.arange(len(frame))[::-1]  # slices by label would be of other rows
    model = SVGPRegressor(**SMALL).fit(frame, stored.y)
    mean, _ = gathered(predict_dist(model, frame, chunk_size=500))
    np.testing.assert_allclose(mean, model.predict(frame), atol=1e-12)
    with pytest.raises(ValueError, match="same order"):
        list(predict_dist(model, frame[NAMES[::-1]]))


def test_predictions_of_classes(stored: Stored) -> None:
    rows = read_rows(stored.folder, target="label", columns=NAMES)
    model = SVGPClassifier(**SMALL).fit(rows.X, rows.y)
    chunks = predict_dist(model, stored.folder, columns=NAMES)
    p = np.concatenate([dist.pmf("high") for dist in chunks])
    np.testing.assert_allclose(p, model.predict_proba(stored.X)[:, 0], atol=1e-12)


def test_wrong_arguments_of_predictions(stored: Stored) -> None:
    model = SVGPRegressor(**SMALL).fit(stored.X, stored.y)
    with pytest.raises(ValueError, match="columns is needed"):
        predict_dist(model, stored.folder)
    with pytest.raises(ValueError, match="no column"):
        predict_dist(model, stored.folder, columns=["a", "b", "nothing"])
    with pytest.raises(ValueError, match="named columns"):
        predict_dist(model, stored.X, columns=NAMES)
    with pytest.raises(ValueError, match="chunk_size"):
        predict_dist(model, stored.X, chunk_size=0)


# ------------------------------------------------------------------ memory


MEMORY = """
import sys
from pathlib import Path
import numpy as np
from skgp import SVGPRegressor
X, y = (np.load(f"{sys.argv[1]}/{name}.npy", mmap_mode="r") for name in "Xy")
model = SVGPRegressor(n_inducing=20, max_iter=1, batch_size=20_000, random_state=0).fit(X, y)
if sys.argv[2] == "predict":
    Path("/proc/self/clear_refs").write_text("5")  # the largest resident set so far is forgotten
    assert len(model.predict(X)) == len(X)
fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(int(fields["VmHWM"].split()[0]) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize(("what", "gib"), [("fit", 2.0), ("predict", 1.6)])
def test_ten_million_rows_need_two_gib(what: str, gib: float, tmp_path: Path) -> None:
    n = 10_000_000
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, 8))
    y = np.lib.format.open_memmap(tmp_path / "y.npy", "w+", np.float32, (n,))
    rng = np.random.default_rng(0)
    for start in range(0, n, 1_000_000):
        rows = slice(start, start + 1_000_000)
        X[rows] = rng.standard_normal((1_000_000, 8), dtype=np.float32)
        y[rows] = np.sin(X[rows, 0])
    del X, y
    command = [sys.executable, "-W", "ignore", "-c", MEMORY, str(tmp_path), what]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert float(done.stdout) < gib
