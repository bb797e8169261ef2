"""A small table as Parquet files and as arrays."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from stored_rows import NAMES, Stored, write


@pytest.fixture(scope="module")
def stored(tmp_path_factory: Any) -> Stored:
    rng = np.random.default_rng(0)
    n = 1200
    X = rng.normal(size=(n, 3)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    frame = pd.DataFrame(X, columns=NAMES)
    frame["y"] = y
    frame["z"] = np.where(X[:, 2] > 0, y**2, np.nan)
    frame["weight"] = rng.uniform(0.5, 2.0, n)
    frame["label"] = np.where(y > 0, "high", "low")
    frame["kind"] = pd.Categorical(rng.choice(["p", "q", "r"], n))
    frame["count"] = rng.integers(0, 9, n)
    frame["flag"] = X[:, 0] > 0
    folder = tmp_path_factory.mktemp("stored")
    write(frame[:800], folder / "0.parquet", row_group_size=150)
    write(frame[800:], folder / "1.parquet")
    return Stored(X, y, frame, folder)
