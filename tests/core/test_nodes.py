"""Nodes of the hidden layers."""

import math

import numpy as np
import pytest
import torch

from skgp.core.nodes import trivial
from skgp.core.objectives import average, log_average_exp


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_trivial_node_carries_all_weight_and_no_hidden_values(dtype: torch.dtype) -> None:
    nodes = trivial(torch.zeros(3, dtype=dtype))
    assert nodes.xi == ()
    assert nodes.log_omega.dtype == dtype
    assert nodes.log_omega.tolist() == [0.0]
    assert math.exp(nodes.log_omega.logsumexp(0).item()) == 1.0


def test_every_reduction_over_the_trivial_node_is_the_identity(rng: np.random.Generator) -> None:
    terms = torch.from_numpy(rng.normal(size=(1, 5)))
    nodes = trivial(terms)
    for reduce in (average, log_average_exp):
        np.testing.assert_allclose(reduce(terms, nodes.log_omega).numpy(), terms[0].numpy())
