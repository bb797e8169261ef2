"""A fit on two threads, which users have and a test worker has not, is that on one."""

from typing import Any

import numpy as np
import pytest
import torch
from contract_cases import CLASSIFIERS, ONE_PER_CLASS, Case, make_data, make_labels
from sklearn.base import is_classifier

pytestmark = pytest.mark.usefixtures("short_start")
CASES = ONE_PER_CLASS + CLASSIFIERS
# One layer of several outputs, nodes, and samples. More are slow tests: beside another worker, two
# threads wait for each other.
QUICK = tuple(case for case in CASES if case.name in {"svgp-full", "dspp-qr3", "iwdgp"})
# torch splits among threads what is large only, as are the matrices of 200 inducing inputs.
_N_ROWS = 220
_PARAMS = {"n_inducing": 200, "max_iter": 1, "dtype": "float64"}


def predictions(case: Case, n_threads: int) -> Any:
    torch.set_num_threads(n_threads)
    model = case.make(**case.known(_PARAMS))
    if is_classifier(model):
        labels = make_labels(_N_ROWS)
        return model.fit(labels.X, labels.y).predict_proba(labels.X_new)
    rows = make_data(_N_ROWS)
    return model.fit(rows.X, rows.Y).predict(rows.X_new)


@pytest.mark.usefixtures("two_threads")
def test_a_fit_on_two_threads_is_that_on_one(case: Case) -> None:
    found, desired = predictions(case, 2), predictions(case, 1)
    # Kernel and noise that start at an optimum are rounded to 1e-4, and two threads sum in another
    # order: a number beside an edge is rounded to the other side, here or on another machine.
    atol = 1e-3 * desired.std() if case.name.startswith(("dspp", "ppgpr")) else 1e-7
    np.testing.assert_allclose(found, desired, rtol=1e-7, atol=atol)
