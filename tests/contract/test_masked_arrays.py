"""Masked entries are missing: refused by the name of the argument, NaN where those may be missing.

NumPy itself would drop the masks and take what is below them for data.
"""

from typing import Any

import numpy as np
import pytest
from contract_cases import CLASSIFIERS, EMBEDDINGS, REGRESSORS, Case, Data
from sklearn.base import is_classifier

NAMES = {"svgp-full", "mcdropout", "fitc"}
pytestmark = pytest.mark.usefixtures("short_start")
CASES = [*(case for case in REGRESSORS if case.name in NAMES), *CLASSIFIERS[:1]]
for_regressors = pytest.mark.only(tuple(CASES[:-1]))


def masked(array: Any, *entries: Any) -> Any:
    """Some entries of a copy, under which there is nonsense, are masked."""
    array = np.ma.masked_array(array, copy=True)
    for entry in entries:
        array[entry] = 1e5 if array.dtype.kind == "f" else array[0]
        array[entry] = np.ma.masked
    return array


@pytest.fixture
def rows(case: Case, data: Data) -> dict[str, Any]:
    y = data.y if not issubclass(case.cls, CLASSIFIERS[0].cls) else data.y > data.y.mean()
    return {"X": data.X, "y": y, "sample_weight": np.ones(len(y))}


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_masked_entries_are_refused(case: Case, rows: dict[str, Any], name: str) -> None:
    bad = rows | {name: masked(rows[name], (3, 0) if name == "X" else 3, -1)}
    n_masked = 4 if name == "X" else 2
    model = case.make(max_iter=1)
    message = rf"^{name} is a masked array with {n_masked} masked entries"
    for method in (model.fit, getattr(model, "partial_fit", model.fit)):
        with pytest.raises(ValueError, match=message):
            method(**bad)
    with pytest.raises(ValueError, match=message.replace(" is", "_val is")):
        model.fit(**rows, **{f"{key}_val": value for key, value in bad.items()})


def test_masked_inputs_of_a_prediction_are_refused(case: Case, rows: dict[str, Any]) -> None:
    model = case.make(max_iter=1).fit(**rows)
    for method in ("predict", "predict_proba", "predict_dist"):
        with pytest.raises(ValueError, match="X is a masked array with 1 masked entries"):
            getattr(model, method)(masked(rows["X"], (0, 1)))
    unmasked = np.ma.masked_array(rows["X"])
    np.testing.assert_array_equal(model.predict(unmasked), model.predict(rows["X"]))


def test_arrays_without_masked_entries_are_plain_ones(case: Case, rows: dict[str, Any]) -> None:
    plain = case.make(max_iter=2).fit(**rows)
    shielded = {name: np.ma.masked_array(array) for name, array in rows.items()}
    model = case.make(max_iter=2).fit(**shielded)
    predict = "predict_proba" if is_classifier(model) else "predict"
    found, desired = (getattr(m, predict)(rows["X"]) for m in (model, plain))
    np.testing.assert_array_equal(found, desired)


@for_regressors
def test_masked_entries_of_several_outputs_are_missing(case: Case, data: Data) -> None:
    Y = data.Y.copy()
    Y[[2, 5], [0, 1]] = np.nan
    shielded = masked(data.Y, (2, 0), (5, 1))
    fits = [case.make(max_iter=2).fit(data.X, y, X_val=data.X, y_val=y) for y in (Y, shielded)]
    assert fits[0].validation_scores_ == fits[1].validation_scores_
    np.testing.assert_array_equal(*(model.predict(data.X_new) for model in fits))
    one = masked(data.y[:, None], (2, 0))
    np.testing.assert_array_equal(
        case.make(max_iter=2).fit(data.X, one).predict(data.X_new),
        case.make(max_iter=2).fit(data.X, one.filled(np.nan)).predict(data.X_new),
    )


def test_masked_entries_of_a_table_are_missing(data: Data) -> None:
    case = EMBEDDINGS[0]
    table = np.column_stack([data.X, data.y])[:20]
    gaps = table.copy()
    gaps[[2, 5], [0, 1]] = np.nan
    shielded = masked(table, (2, 0), (5, 1))
    fits = [case.make(max_iter=2, n_inducing=8).fit(t) for t in (gaps, shielded)]
    np.testing.assert_array_equal(fits[0].embedding_, fits[1].embedding_)
    new = masked(table[:3], (0, 2))
    np.testing.assert_array_equal(*(m.transform(new.filled(np.nan)) for m in fits))
    np.testing.assert_array_equal(fits[0].transform(new), fits[0].transform(new.filled(np.nan)))
    with pytest.raises(ValueError, match="Z is a masked array with 1 masked entries"):
        fits[0].predict_dist(masked(fits[0].embedding_, (0, 0)))
