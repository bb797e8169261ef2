"""A paper's protocol: which fits there are, and the rows of each."""

import itertools
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
Rows = tuple[np.ndarray, np.ndarray]


class Split(NamedTuple):
    """Inputs and targets; y in units of the training rows' deviation."""

    train: Rows
    test: Rows
    validation: Rows


class Fit(NamedTuple):
    """One fit of a protocol: what identifies its line in the results."""

    dataset: str
    method: str
    split: int
    params: dict[str, Any]


def load_protocol(name: str) -> dict[str, Any]:
    """The protocol file of a paper."""
    with open(HERE / "protocols" / f"{name}.toml", "rb") as file:
        return tomllib.load(file)


def settings(protocol: dict[str, Any], method: str) -> list[dict[str, Any]]:
    """Parameters of a method: one setting, or one for each point of the protocol's grid."""
    grid = protocol.get("grid", {})
    params = protocol["methods"][method]["params"]
    points = itertools.product(*grid.values())
    return [{**params, **dict(zip(grid, point, strict=True))} for point in points]


def shown_methods(protocol: dict[str, Any]) -> list[str]:
    """The methods of the first ranking, or all."""
    rankings = protocol.get("rankings")
    return list(rankings[0]["methods"] if rankings else protocol["methods"])


def load_split(path: Path, protocol: dict[str, Any], split: int) -> Split:
    """The rows of one random split of a data set, which may be cut to a fixed subsample."""
    archive = np.load(path)
    X, y = archive["X"].astype(float), archive["y"].astype(float)
    max_rows = protocol.get("max_rows", len(X))
    if len(X) > max_rows:
        subsample = np.random.default_rng(0).permutation(len(X))[:max_rows]
        X, y = X[subsample], y[subsample]
    order = np.random.default_rng(split).permutation(len(X))
    bounds = (np.cumsum(protocol["shares"]) / np.sum(protocol["shares"]) * len(X)).astype(int)
    parts = order[: bounds[0]], order[bounds[0] : bounds[1]], order[bounds[1] :]
    train = parts[0]
    y = (y - y[train].mean()) / y[train].std()
    return Split(*((X[part], y[part]) for part in parts))
