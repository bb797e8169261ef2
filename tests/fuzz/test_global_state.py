"""Nothing that belongs to the user changes: seeds, settings, warnings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from contract.contract_cases import EMBEDDINGS, REPRESENTATIVES
from invariants import global_state_kept, predictions
from strategies import Problem, is_embedding

pytestmark = pytest.mark.usefixtures("short_start")


NAMES = [case.name for case in (*REPRESENTATIVES, *EMBEDDINGS)] + ["svgp-classifier"]


@pytest.mark.parametrize("name", NAMES)
def test_global_state_is_left_alone_and_has_no_say(name: str) -> None:
    problem = Problem(name)
    X = problem.table if is_embedding(name) else problem.X
    answers = []
    for seed in (1, 2):
        with seeds_of_the_user(seed), global_state_kept():
            model = problem.fit()
            if hasattr(model, "partial_fit"):
                model.partial_fit(problem.X, problem.y)
            answers.append(predictions(model, X))
    np.testing.assert_array_equal(*answers)


@contextmanager
def seeds_of_the_user(seed: int) -> Iterator[None]:
    state: Any = np.random.get_state()  # noqa: NPY002  (as below)
    torch_state = torch.get_rng_state()
    np.random.seed(seed)  # noqa: NPY002  (what a user may do, though this library does not)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002  (as above)
        torch.set_rng_state(torch_state)
