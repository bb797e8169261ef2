"""Data sets of R packages become arrays as by hand."""

import numpy as np
import pandas as pd

from benchmarks._protocol import load_protocol
from benchmarks.further_sets import arrays_of, load_sets


def test_a_data_frame_becomes_numbers():
    """Categories but the first, means for missing inputs, and no row without a target."""
    n = 20
    frame = pd.DataFrame(
        {
            "rownames": np.arange(n),
            "y": [np.nan, *range(1, n)],
            "number": [1000.0, np.nan, *np.arange(2.0, n)],
            "kind": ["c", *["b", "a", "c"] * 6, None],
            "name": [f"row {i}" for i in range(n)],
            "constant": 3,
            "mostly missing": [1.0, 2.0, 3.0, *[np.nan] * (n - 3)],
            "log y": np.log1p(np.arange(n)),
        }
    )
    arrays = arrays_of(frame, "y", ["log y"])
    assert np.array_equal(arrays["y"], np.arange(1.0, n))
    numbers = [np.mean(np.arange(2.0, n)), *np.arange(2.0, n)]  # without the row that is left out
    kinds = [[kind == level for level in "bc"] for kind in frame["kind"][1:]]
    assert np.array_equal(arrays["X"], np.column_stack([numbers, kinds]))
    mask = arrays["test_mask"]
    assert mask.shape == (n - 1, 10)
    assert np.array_equal(mask.sum(1), np.ones(n - 1))
    assert set(mask.sum(0)) == {1, 2}


def test_the_protocol_has_every_set():
    names = load_protocol("further")["datasets"]
    assert sorted(names) == sorted(load_sets())
