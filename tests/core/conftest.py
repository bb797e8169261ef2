"""In the tests of the core its methods take and return the shapes of `contracts.py` alone."""

import functools
import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from contracts import CONTRACTS, REDUCTION
from shapes import checked, checked_methods
from torch import Tensor

import skgp.core
from skgp.core.objectives.objective import Objective, Reduction

for module in pkgutil.walk_packages(skgp.core.__path__, "skgp.core."):
    importlib.import_module(module.name)  # so that all subclasses are there
METHODS = list(checked_methods(CONTRACTS))
_FIELD = Objective.reduce


def _reduce(reduction: Reduction, terms: Tensor, log_omega: Tensor) -> Tensor:
    return reduction(terms, log_omega)


_CHECKED_REDUCE = checked(_reduce, REDUCTION)


@pytest.fixture(autouse=True, scope="module")
def shapes() -> Iterator[None]:
    """Wrong shapes are errors."""
    with pytest.MonkeyPatch.context() as patch:
        for cls, name, method in METHODS:
            patch.setattr(cls, name, method)
        # A field that holds a function, of which the objectives of the table have their own
        read = property(lambda self: functools.partial(_CHECKED_REDUCE, _FIELD.__get__(self)))
        patch.setattr(Objective, "reduce", read)
        yield
