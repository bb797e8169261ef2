"""Rows of Arrow data as memory maps: the numbers of the table, or an error that says what to do."""

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from stored_rows import NAMES, Stored, write

from skgp.core.maps import is_mapped
from skgp.streams import _rows, open_rows, read_rows


@pytest.fixture(autouse=True)
def _chunks(monkeypatch: Any) -> None:
    monkeypatch.setattr(_rows, "_CHUNK", 100)


def sources(stored: Stored) -> dict[str, Any]:
    files = [str(stored.folder / f"{i}.parquet") for i in range(2)]
    table = ds.dataset(str(stored.folder)).to_table()
    return {
        "folder": stored.folder,
        "text": str(stored.folder),
        "files": files,
        "data set": ds.dataset(files),
        "in memory": ds.dataset(table),
    }


@pytest.mark.parametrize("kind", ["folder", "text", "files", "data set", "in memory"])
def test_rows_are_those_of_the_table(kind: str, stored: Stored) -> None:
    rows = read_rows(
        sources(stored)[kind], target="y", columns=[*NAMES, "count", "flag"], sample_weight="weight"
    )
    assert all(is_mapped(a) for a in (rows.X, rows.y, rows.sample_weight))
    assert rows.X.dtype == np.float32
    np.testing.assert_array_equal(rows.X[:, :3], stored.X)
    np.testing.assert_array_equal(rows.X[:, 3:], stored.frame[["count", "flag"]])
    np.testing.assert_array_equal(rows.y, stored.y)
    np.testing.assert_array_equal(rows.sample_weight, stored.frame["weight"])
    assert rows.feature_names == [*NAMES, "count", "flag"]


def test_all_other_columns_are_inputs(stored: Stored, tmp_path: Path) -> None:
    frame = stored.frame[[*NAMES, "y", "weight"]]
    rows = read_rows(write(frame, tmp_path / "few.parquet"), target="y", sample_weight="weight")
    assert rows.feature_names == NAMES


@pytest.mark.parametrize("name", [None, "id"])
def test_a_saved_index_of_pandas_is_no_input(
    name: str | None, stored: Stored, tmp_path: Path
) -> None:
    """Numbers of rows would tell a model of shuffled rows their order. Whoever names it has it."""
    frame = stored.frame[["a", "y"]].sample(frac=1.0, random_state=0).rename_axis(name)
    frame[:600].reset_index(drop=True).to_parquet(tmp_path / "range.parquet")
    frame[600:].to_parquet(tmp_path / "stored.parquet")
    for source in (tmp_path / "stored.parquet", tmp_path):
        assert read_rows(source, target="y").feature_names == ["a"]
    index = name or "__index_level_0__"
    rows = read_rows(tmp_path / "stored.parquet", target="y", columns=[index])
    np.testing.assert_array_equal(rows.X[:, 0], frame.index[600:])


def test_entries_of_several_targets_may_be_missing(stored: Stored) -> None:
    rows = read_rows(stored.folder, target=["z", "y"], columns=NAMES)
    np.testing.assert_array_equal(rows.y, stored.frame[["z", "y"]])
    assert read_rows(stored.folder, target=["y"], columns=NAMES).y.shape == (1200, 1)


def test_a_filter_of_the_data_set_holds(stored: Stored) -> None:
    kept = ds.dataset(stored.folder).filter(pc.field("z").is_valid() & ~pc.field("z").is_nan())
    rows = read_rows(kept, target="z", columns=NAMES)
    np.testing.assert_array_equal(rows.X, stored.X[stored.X[:, 2] > 0])


def test_strings_are_targets_of_classifiers(stored: Stored, tmp_path: Path) -> None:
    rows = read_rows(stored.folder, target="label", columns=NAMES, folder=tmp_path / "kept")
    assert rows.y.tolist() == stored.frame["label"].tolist()
    kinds = read_rows(stored.folder, target="kind", columns=NAMES)
    assert kinds.y.tolist() == stored.frame["kind"].tolist()
    assert open_rows(tmp_path / "kept").y.tolist() == rows.y.tolist()


# ------------------------------------------------------------------ preprocessors


def encoder(stored: Stored) -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    encoders = [("n", numbers, ["a", "z"]), ("k", OneHotEncoder(), ["kind", "label"])]
    return ColumnTransformer(encoders).fit(stored.frame[["a", "z", "kind", "label"]])


def test_a_preprocessor_gives_chunks_what_it_gives_the_whole(stored: Stored) -> None:
    preprocessor = encoder(stored)
    rows = read_rows(stored.folder, target="y", preprocessor=preprocessor)
    expected = preprocessor.transform(stored.frame).astype(np.float32)
    np.testing.assert_array_equal(rows.X, expected)
    assert rows.feature_names == preprocessor.get_feature_names_out().tolist()


def test_a_sparse_preprocessor(stored: Stored) -> None:
    preprocessor = OneHotEncoder(sparse_output=True).fit(stored.frame[["kind"]])
    rows = read_rows(stored.folder, target="y", preprocessor=preprocessor, columns=["kind"])
    np.testing.assert_array_equal(rows.X, preprocessor.transform(stored.frame[["kind"]]).toarray())


@pytest.mark.parametrize("outside", ["y", "weight"])
def test_a_preprocessor_that_has_seen_the_target_must_not_need_it(
    outside: str, stored: Stored
) -> None:
    """One that passes on what is left would make an input of it."""
    arguments = {"target": "y", "sample_weight": "weight"}
    frame = stored.frame[["a", "kind", outside]]
    kinds = [("k", OneHotEncoder(), ["kind"]), ("n", StandardScaler(), ["a"])]
    rows = read_rows(stored.folder, preprocessor=ColumnTransformer(kinds).fit(frame), **arguments)
    assert rows.feature_names == ["k__kind_p", "k__kind_q", "k__kind_r", "n__a"]
    numbers = stored.frame[["a", outside]]
    for needs in (
        ColumnTransformer(kinds[:1], remainder="passthrough").fit(frame),
        StandardScaler().fit(numbers),
    ):
        with pytest.raises(ValueError, match=rf"has seen \['{outside}'\], which are not among"):
            read_rows(stored.folder, preprocessor=needs, **arguments)
    shift = StandardScaler().fit(numbers)  # whoever names the column has it
    rows = read_rows(stored.folder, preprocessor=shift, columns=["a", outside], **arguments)
    assert rows.feature_names == ["a", outside]


def test_a_preprocessor_has_to_be_fitted(stored: Stored) -> None:
    with pytest.raises(NotFittedError):
        read_rows(stored.folder, target="y", columns=["kind"], preprocessor=OneHotEncoder())


# ------------------------------------------------------------------ folders


def test_temporary_files_go_with_the_map(stored: Stored, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    X = read_rows(stored.folder, target="y", columns=NAMES).X
    assert len(list(tmp_path.iterdir())) == 1
    del X
    gc.collect()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="not one of numbers"):
        read_rows(stored.folder, target="y", columns=["kind"])
    assert not list(tmp_path.iterdir())


def test_a_folder_is_opened_again_and_not_overwritten(stored: Stored, tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "rows"
    read_rows(stored.folder, target="y", columns=NAMES, sample_weight="weight", folder=folder)
    rows = open_rows(str(folder))
    np.testing.assert_array_equal(rows.X, stored.X)
    np.testing.assert_array_equal(rows.y, stored.y)
    np.testing.assert_array_equal(rows.sample_weight, stored.frame["weight"])
    assert rows.feature_names == NAMES
    with pytest.raises(ValueError, match=r"is not empty.*open_rows"):
        read_rows(stored.folder, target="y", columns=NAMES, folder=folder)
    (folder / "rows.json").unlink()
    with pytest.raises(ValueError, match="not all of them"):
        open_rows(folder)


# ------------------------------------------------------------------ errors


def changed(stored: Stored, column: str, values: Any, path: Path) -> Path:
    return write(stored.frame.assign(**{column: values}), path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "nothing"}, r"target: no column \['nothing'\]"),
        ({"columns": ["a", "nothing"]}, r"columns: no column \['nothing'\]"),
        ({"sample_weight": "nothing"}, "sample_weight: no column"),
        ({"columns": []}, "columns has to name a column"),
        ({"target": []}, "target has to name a column"),
        ({"columns": None}, r"column 'label' has the type (large_)?string.*preprocessor"),
        ({"columns": ["a", "z"]}, r"column 'z' is missing.*in \d+ of 100 rows.*filter"),
        ({"target": "z"}, r"target 'z' is missing in \d+ of 100 rows.*filter"),
        ({"target": ["y", "label"]}, r"column 'label' has the type"),
    ],
)
def test_wrong_columns(arguments: dict[str, Any], message: str, stored: Stored) -> None:
    with pytest.raises(ValueError, match=message):
        read_rows(stored.folder, **{"target": "y", "columns": NAMES, **arguments})


def test_wrong_numbers(stored: Stored, tmp_path: Path) -> None:
    times = pd.date_range("2026-01-01", periods=1200)
    with pytest.raises(ValueError, match=r"column 'a' has the type timestamp"):
        read_rows(changed(stored, "a", times, tmp_path / "1"), target="y", columns=NAMES)
    with pytest.raises(ValueError, match=r"column 'a'.*beyond float32, in 100 of 100"):
        read_rows(changed(stored, "a", 1e300, tmp_path / "2"), target="y", columns=NAMES)
    nulls = pd.Series(pd.array([1, None] * 600, dtype="Int64"))
    with pytest.raises(ValueError, match=r"column 'a' is missing.*in 50 of 100"):
        read_rows(changed(stored, "a", nulls, tmp_path / "3"), target="y", columns=NAMES)
    message = r"sample_weight 'b' is missing in 50 of 100"
    for number, weights in enumerate((nulls, nulls.astype(float))):
        source = changed(stored, "b", weights, tmp_path / f"weights-{number}")
        with pytest.raises(ValueError, match=message):
            read_rows(source, target="y", columns=["a"], sample_weight="b")
    labels = ["x", None] * 600
    with pytest.raises(ValueError, match=r"target 'label' is missing in 50 of 100"):
        read_rows(changed(stored, "label", labels, tmp_path / "4"), target="label", columns=NAMES)


def test_no_rows(stored: Stored, tmp_path: Path) -> None:
    path = write(stored.frame[:0], tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="no rows"):
        read_rows(path, target="y", columns=NAMES)


def test_files_that_disagree(stored: Stored, tmp_path: Path) -> None:
    for name, frame in {
        "types": stored.frame.assign(a="text"),
        "columns": stored.frame.drop(columns="b"),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        write(stored.frame, folder / "0.parquet")
        write(frame, folder / "1.parquet")
        message = {"types": "1.parquet disagrees", "columns": "1.parquet lacks column 'b'"}[name]
        with pytest.raises(ValueError, match=message):
            read_rows(folder, target="y", columns=NAMES)


def test_files_may_have_numbers_of_other_types(stored: Stored, tmp_path: Path) -> None:
    write(stored.frame[:400].assign(a=1), tmp_path / "0.parquet")
    write(stored.frame[400:], tmp_path / "1.parquet")
    rows = read_rows(tmp_path, target="y", columns=NAMES)
    np.testing.assert_array_equal(rows.X[400:], stored.X[400:])
    assert (rows.X[:400, 0] == 1).all()


def test_numbers_may_be_stored_as_a_dictionary(stored: Stored) -> None:
    table = pa.table({"y": stored.y, "count": pa.array(stored.frame["count"]).dictionary_encode()})
    rows = read_rows(ds.dataset(table), target="y")
    np.testing.assert_array_equal(rows.X[:, 0], stored.frame["count"])


@pytest.mark.parametrize("coded", [False, True])
def test_labels_may_be_views_of_strings(stored: Stored, coded: bool) -> None:
    """As polars writes them to IPC files."""
    labels = pa.array(np.where(stored.y > 0.0, "up", "down")).cast(pa.string_view())
    if coded:
        codes = pa.array((stored.y > 0.0).astype(np.int32))
        labels = pa.DictionaryArray.from_arrays(codes, pa.array(["down", "up"], pa.string_view()))
    rows = read_rows(ds.dataset(pa.table({"y": labels, "a": stored.frame["a"]})), target="y")
    np.testing.assert_array_equal(rows.y, np.where(stored.y > 0.0, "up", "down"))


def test_one_column_may_be_named_by_itself(stored: Stored) -> None:
    table = pa.table(
        {"y": stored.y, "ab": stored.frame["b"], "a": stored.frame["a"], "b": stored.y}
    )
    rows = read_rows(ds.dataset(table), target="y", columns="ab")
    assert rows.feature_names == ["ab"]
    np.testing.assert_array_equal(rows.X[:, 0], stored.frame["b"])


def test_a_schema_that_files_do_not_follow(stored: Stored, tmp_path: Path) -> None:
    write(stored.frame[:400].assign(a=1), tmp_path / "0.parquet")
    write(stored.frame[400:], tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="as their schema says"):
        read_rows(ds.dataset(tmp_path), target="y", columns=NAMES)


def test_folders_may_name_a_column(stored: Stored, tmp_path: Path) -> None:
    table = pa.Table.from_pandas(stored.frame[[*NAMES, "y", "count"]], preserve_index=False)
    ds.write_dataset(table, tmp_path, format="parquet", partitioning=["count"])
    source = ds.dataset(tmp_path, partitioning=["count"])
    rows = read_rows(source, target="y", columns=["a", "count"])
    order = np.argsort(stored.frame["count"], kind="stable")
    np.testing.assert_array_equal(rows.X, stored.frame[["a", "count"]].to_numpy()[order])


# ------------------------------------------------------------------ imports


def test_without_pyarrow(stored: Stored, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"skgp\[streams\]"):
        read_rows(stored.folder, target="y", columns=NAMES)


def test_inputs_that_float32_rounds_together_are_named() -> None:
    """Times in seconds since 1970, of which it has one in 128; other columns do not matter."""
    times = 1.7e9 + np.arange(100.0)
    table = pa.table({"a": times / 1e9, "constant": [0.1] * 100, "time": times, "y": times - 1.7e9})
    with pytest.warns(UserWarning, match="column 'time' varies in digits") as caught:
        read_rows(table, target="y", columns=["constant", "time"])
    assert len(caught) == 1
    shift = ColumnTransformer([("shift", StandardScaler(), ["time"])]).fit(table.to_pandas())
    rows = read_rows(table, target="y", columns=["time"], preprocessor=shift)
    assert len(np.unique(rows.X)) == 100


@pytest.mark.parametrize("role", ["columns", "target", "sample_weight"])
def test_integers_that_float64_rounds_are_named(role: str) -> None:
    table = pa.table({"a": [1.0, 2.0], "y": [0.0, 1.0], "big": [2**53 + 1, 2**53 + 3]})
    arguments = {"columns": ["a"], "target": "y"} | {role: ["big"] if role == "columns" else "big"}
    with pytest.raises(
        ValueError, match=r"column 'big' holds integers .*9007199254740993.*: choose"
    ):
        read_rows(table, **arguments)
    subtract = FunctionTransformer(lambda frame: frame - 2**53, feature_names_out="one-to-one")
    rows = read_rows(table, target="y", preprocessor=subtract.fit(table.to_pandas()[["big"]]))
    np.testing.assert_array_equal(rows.X[:, 0], [1.0, 3.0])


def test_ordered_labels_lose_their_order_with_a_warning(tmp_path: Path) -> None:
    def table(names: list[str]) -> pa.Table:
        codes = pa.array([0, 1, 2, 0], pa.int8())
        labels = pa.DictionaryArray.from_arrays(codes, pa.array(names), ordered=True)
        return pa.table({"a": [1.0, 2.0, 3.0, 4.0], "y": labels})

    with pytest.warns(UserWarning, match="column 'y' has ordered categories, and classes are"):
        rows = read_rows(table(["low", "mid", "high"]), target="y", columns=["a"])
    assert rows.y.tolist() == ["low", "mid", "high", "low"]
    read_rows(table(["a", "b", "c"]), target="y", columns=["a"])  # without a warning


def test_a_source_of_another_kind_is_refused(stored: Stored, tmp_path: Path) -> None:
    """With the remedy."""
    stored.frame.to_csv(tmp_path / "rows.csv")
    remedy = r"source is no Parquet .* pass pyarrow.dataset.dataset\(path, format='csv'\)"
    for source in (tmp_path / "rows.csv", stored.frame):
        with pytest.raises(ValueError, match=remedy):
            read_rows(source, target="y")
