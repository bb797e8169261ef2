"""A paper's protocol: its tables, which fits each has, and the rows of a fit.

A protocol file has the keys of a table at its top level; each of its [[tables]], if it has any,
replaces some of them. See benchmarks/protocols/README.md.
"""

import importlib
import itertools
import json
import math
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skgp.core.training.plan import count_batches

HERE = Path(__file__).parent
Rows = tuple[np.ndarray, np.ndarray]
Table = dict[str, Any]


class Split(NamedTuple):
    """Inputs and targets; y in units of the training rows' deviation unless units = "original"."""

    train: Rows
    test: Rows
    validation: Rows


class Fit(NamedTuple):
    """One fit of a protocol: what identifies its line in the results."""

    dataset: str
    method: str
    split: int
    params: dict[str, Any]
    max_rows: int | None


def load_protocol(name: str) -> Table:
    """The protocol file of a paper."""
    with open(HERE / "protocols" / f"{name}.toml", "rb") as file:
        return tomllib.load(file)


def tables(protocol: Table) -> list[Table]:
    """The tables of a protocol, each with all its keys and with the methods it compares."""
    return [
        {**protocol, **table, "methods": _methods(protocol, table)}
        for table in protocol.get("tables", [{}])
    ]


def _methods(protocol: Table, table: Table) -> dict[str, Any]:
    """A table's methods: those it names, with what it says of them over what the protocol says."""
    defined = protocol.get("methods", {})
    named = table.get("methods", defined)
    methods = {name: _method(name, defined, named) for name in named}
    if "variant" not in table:
        return methods
    variant = table["variant"]
    return {
        f"{name}, {variant['name']}": {
            "published": name,
            **method,
            "params": method["params"] | variant["params"],
        }
        for name, method in methods.items()
    }


def _method(name: str, defined: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """A method: that which it is like, what the protocol says over it, and then the table."""
    parts = [methods.get(name, {}) for methods in (defined, named)]
    likes = [part["like"] for part in parts if "like" in part]
    if likes:
        parts.insert(0, _method(likes[-1], defined, named))
    params: dict[str, Any] = {}
    for part in parts:
        params |= part.get("params", {})
    return {**{key: part[key] for part in parts for key in part}, "params": params}


def settings(table: Table, method: str) -> list[dict[str, Any]]:
    """Parameters of a method: one setting, or one for each point of the table's or its own grid.

    No values for a parameter take it out of the table's grid.
    """
    definition = table["methods"][method]
    asked = {**table.get("grid", {}), **definition.get("grid", {})}
    grid = {name: values for name, values in asked.items() if values}
    points = itertools.product(*grid.values())
    return [{**definition["params"], **dict(zip(grid, point, strict=True))} for point in points]


def fits_of(table: Table, n_splits: int | None = None) -> list[Fit]:
    """Every fit of a table in the order of its methods, all first splits before the second ones."""
    counts = {
        name: n_splits or method.get("n_splits", table["n_splits"])
        for name, method in table["methods"].items()
    }
    return [
        Fit(dataset, method, split, params, table.get("max_rows"))
        for split in range(max(counts.values()))
        for method, count in counts.items()
        if split < count
        for dataset in table["datasets"]
        for params in settings(table, method)
    ]


def fit_of(row: dict[str, Any]) -> Fit:
    """The fit that a line of the results is of."""
    return Fit(*(row[name] for name in Fit._fields))


def read_results(file: Path, protocol: Table) -> list[dict[str, Any]]:
    """Every line of a results file; one that does not name its rows has the protocol's."""
    if not file.exists():
        return []
    default = {"max_rows": protocol.get("max_rows")}
    return [{**default, **json.loads(line)} for line in file.read_text().splitlines()]


def results_of(name: str) -> list[dict[str, Any]]:
    """The committed results of a protocol."""
    return read_results(HERE / "results" / f"{name}.jsonl", load_protocol(name))


def shown_methods(table: Table) -> list[str]:
    """The methods of the first ranking, or all."""
    rankings = table.get("rankings")
    return list(rankings[0]["methods"] if rankings else table["methods"])


def resolved(params: dict[str, Any], X: np.ndarray) -> dict[str, Any]:
    """Parameters of an estimator for these inputs: "inputs" stands for their number.

    "1,000 steps" stands for the epochs that have as many steps, or a few more.
    """
    known: dict[Any, Any] = {"inputs": X.shape[1], "inputs, 30 at most": min(X.shape[1], 30)}
    for value in params.values():
        if isinstance(value, str) and value.endswith(" steps"):
            n_steps = int(value.removesuffix(" steps").replace(",", ""))
            known[value] = math.ceil(n_steps / count_batches(len(X), params["batch_size"]))
    return {
        name: known.get(value, value) if isinstance(value, str) else value
        for name, value in params.items()
    }


def thinned(train: Rows, method: dict[str, Any]) -> Rows:
    """The first `train_rows` of a fixed order, without `n_missing` random outputs in each row."""
    X, y = train
    generator = np.random.default_rng(0)
    kept = generator.permutation(len(X))[: method.get("train_rows")]
    if "train_rows" in method:
        X, y = X[kept], y[kept]
    if n_missing := method.get("n_missing", 0):
        y = y.copy()
        lost = generator.permuted(np.tile(np.arange(y.shape[1]), (len(y), 1)), axis=1)
        np.put_along_axis(y, lost[:, :n_missing], np.nan, axis=1)
    return X, y


def rows_of(data: Path, table: Table, fit: Fit) -> Split:
    """The rows of a fit, from its file or from the module that makes them."""
    if "made_by" in table:
        return importlib.import_module(table["made_by"]).make_split(fit.split)
    named = [table["folder"]] if isinstance(table["folder"], str) else table["folder"]
    paths = [data / folder / f"{fit.dataset}.npz" for folder in named]
    return load_split(next(filter(Path.exists, paths), paths[0]), table, fit.split)


def is_within(data: Path, table: Table, fit: Fit) -> bool:
    """Whether the fit has no more training rows than its method takes."""
    most = table["methods"][fit.method].get("max_train")
    return most is None or len(rows_of(data, table, fit).train[1]) <= most


def _first(names: str | list[str], archive: Any) -> str:
    """The first of some names that an archive has."""
    return next(name for name in ([names] if isinstance(names, str) else names) if name in archive)


def load_split(path: Path, table: Table, split: int) -> Split:
    """The rows of one split of a data set, which may be cut to a fixed random subsample."""
    archive = np.load(path)
    if "X_test" in archive:
        return _given_split(archive, table)
    X = archive["X"].astype(float)
    y = archive[_first(table.get("targets", "y"), archive)].astype(float)
    if path.stem in table.get("differences", []):
        y = y - X[:, : y.shape[1]]
    if table.get("latent_inputs"):
        y = np.hstack([X, y])
    kept = np.arange(len(X))
    max_rows = table.get("max_rows") or len(X)
    if len(X) > max_rows:
        kept = np.random.default_rng(0).permutation(len(X))[:max_rows]
    X, y = X[kept], y[kept]
    if "mask" in table:
        is_test = archive[_first(table["mask"], archive)][kept, split]
        parts = [np.flatnonzero(~is_test), np.flatnonzero(is_test), kept[:0]]
    else:
        order = np.random.default_rng(split).permutation(len(X))
        bounds = (np.cumsum(table["shares"]) / np.sum(table["shares"]) * len(X)).astype(int)
        parts = np.split(order, bounds)[: len(Split._fields)]
    train = parts[0]
    if table.get("units") == "labels":
        y = y.astype(int)
    elif table.get("units") != "original":
        y = (y - y[train].mean(0)) / y[train].std(0)
    return Split(*((X[part], y[part]) for part in parts))


def _given_split(archive: Any, table: Table) -> Split:
    """The rows of an archive that has arrays of test rows: labelled images, pixel by pixel."""
    parts = [
        (archive[f"X_{part}"].reshape(len(archive[f"y_{part}"]), -1), archive[f"y_{part}"])
        for part in ("train", "test", "test")
    ]
    train, test, none = [(X / table["largest"], y.astype(int)) for X, y in parts]
    kept = np.random.default_rng(0).permutation(len(train[1]))[: table.get("max_rows")]
    return Split((train[0][kept], train[1][kept]), test, (none[0][:0], none[1][:0]))
