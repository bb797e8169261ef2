"""Nodes of the hidden layers."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from skgp.core.nodes.rules import Nodes, Sampled, Trivial, UnitNodes, trivial
from skgp.core.objectives.objective import average, log_average_exp


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


# ------------------------------------------------------------------ sampled nodes

N_SAMPLES = 6


def sampled(n_fixed: int = 64, seed: int = 5) -> Sampled:
    return Sampled([2, 1], N_SAMPLES, n_fixed, seed)


def joined(nodes: Nodes) -> np.ndarray:
    return torch.cat(nodes.xi, -1).numpy()


def test_training_draws_differ_from_step_to_step_and_from_row_to_row() -> None:
    rule = sampled()
    draws = np.stack([joined(rule(7, step)) for step in range(3)])
    assert draws.shape == (3, N_SAMPLES, 7, 3)
    assert len(np.unique(draws)) == draws.size


def test_training_draws_are_standard_normal_and_independent() -> None:
    """Over 40 steps of 50 rows: moments to order four and correlations, in standard errors."""
    rule = sampled()
    draws = np.concatenate([joined(rule(50, step)).reshape(-1, 3) for step in range(40)])
    n = len(draws)
    assert n == 40 * 50 * N_SAMPLES
    for order, expected, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        error = (draws**order).mean(0) - expected
        assert np.abs(error).max() < 4.5 * math.sqrt(variance / n)
    assert np.abs(np.corrcoef(draws.T) - np.eye(3)).max() < 4.5 / math.sqrt(n)
    # neighbours in the batch, among the samples and among the steps
    table = draws.reshape(40, N_SAMPLES, 50, 3)
    for axis in range(3):
        a, b = (np.take(table, range(start, table.shape[axis], 2), axis) for start in (0, 1))
        size = min(a.shape[axis], b.shape[axis])
        product = np.take(a, range(size), axis) * np.take(b, range(size), axis)
        assert abs(product.mean()) < 4.5 / math.sqrt(product.size)


def test_sampled_nodes_weigh_the_same() -> None:
    rule = sampled(n_fixed=10)
    np.testing.assert_allclose(rule(3, 0).log_omega.exp().numpy(), 1.0 / N_SAMPLES, rtol=1e-14)
    np.testing.assert_allclose(rule(3).log_omega.exp().numpy(), 0.1, rtol=1e-14)


def test_a_node_of_a_batch_is_the_same_draw_in_every_layer() -> None:
    """The widths split one table of draws: the second layer's are not the first layer's."""
    nodes = sampled()(4, 0)
    assert [xi.shape[-1] for xi in nodes.xi] == [2, 1]
    whole = torch.cat(nodes.xi, -1)
    assert len(whole.unique()) == whole.numel()


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda rule: pickle.loads(pickle.dumps(rule))], ids=["copy", "pickle"]
)
def test_draws_are_a_function_of_the_step(copied: Any) -> None:
    """Of a copy too, and however often one asks for them."""
    rule = sampled()
    first = [joined(rule(5, step)) for step in range(3)]
    for step in (2, 0, 1):
        for twin in (rule, copied(rule)):
            np.testing.assert_array_equal(joined(twin(5, step)), first[step])


def test_training_draws_come_from_the_seed_and_no_global_state() -> None:
    state = torch.random.get_rng_state()
    first, again, other = (joined(sampled(seed=seed)(4, 0)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()
    # seeds are apart by more than a run has steps
    assert (joined(sampled(seed=1)(4, 1)) != other).all()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_every_bit_of_the_seed_counts() -> None:
    """Seeds of restarts are any numbers below 2^31."""
    first = np.array([joined(sampled(2, 1 << bit)(1, 0)).ravel() for bit in range(31)])
    assert len(np.unique(first)) == first.size


def test_evaluation_nodes_are_fixed_and_shared_by_rows() -> None:
    rule = sampled(n_fixed=16)
    fixed = rule(3)
    assert [tuple(xi.shape) for xi in fixed.xi] == [(16, 1, 2), (16, 1, 1)]
    np.testing.assert_array_equal(joined(rule(5)), joined(fixed))
    np.testing.assert_array_equal(joined(sampled(n_fixed=16)(1)), joined(fixed))


@pytest.mark.parametrize("n_fixed", [1, 2, 32, 33, 1024])
def test_evaluation_nodes_are_finite_for_every_seed(n_fixed: int) -> None:
    for seed in range(20):
        assert np.isfinite(joined(sampled(n_fixed, seed)(1))).all()


def test_a_sobol_point_at_zero_becomes_a_far_but_finite_node(monkeypatch: Any) -> None:
    def draw(self: Any, n: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([[0.0, 0.5, 1.0]], dtype=dtype).expand(n, -1)

    monkeypatch.setattr(torch.quasirandom.SobolEngine, "draw", draw)
    xi = joined(sampled(n_fixed=4)(1))
    assert np.isfinite(xi).all()
    np.testing.assert_allclose(xi[0, 0], [-xi[0, 0, 2], 0.0, xi[0, 0, 2]], atol=1e-9)
    assert 1.5 < xi[0, 0, 2] < 3.0


def test_evaluation_nodes_have_the_moments_of_the_normal_nearly() -> None:
    """256 Sobol points are closer to the moments than a quarter of a standard error."""
    n = 256
    for seed in range(5):
        xi = joined(sampled(n, seed)(1))[:, 0]
        assert np.abs(xi.mean(0)).max() < 0.25 / math.sqrt(n)
        assert np.abs((xi**2).mean(0) - 1.0).max() < 0.5 * math.sqrt(2.0 / n)
        assert np.abs((xi.T @ xi / n)[np.triu_indices(3, 1)]).max() < 1.0 / math.sqrt(n)


def test_dtype_follows_the_module() -> None:
    rule = sampled().float()
    for step in (0, None):
        assert {xi.dtype for xi in rule(2, step).xi} == {torch.float32}
        assert rule(2, step).log_omega.dtype == torch.float32


def test_trivial_rule_is_the_trivial_node() -> None:
    nodes = Trivial().double()(9)
    assert nodes.xi == ()
    assert nodes.log_omega.dtype == torch.float64
    assert nodes.log_omega.tolist() == [0.0]


def test_stretched_nodes_reach_farther_and_their_weights_make_up_for_it() -> None:
    rule = Sampled([2, 1], N_SAMPLES, 4096, 5, [1.0, 2.0])
    xi, log_omega = joined(rule(3))[:, 0], rule(3).log_omega.numpy()
    omega = np.exp(log_omega)
    assert omega.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(xi.std(0), [1.0, 1.0, 2.0], rtol=0.01)
    for order, expected in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        np.testing.assert_allclose(omega @ xi**order, expected, rtol=0, atol=0.05)
    difference = norm.logpdf(xi[:, 2]) - norm.logpdf(xi[:, 2], scale=2.0) - log_omega
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-10)


# ------------------------------------------------------------------ nodes of units


@pytest.mark.parametrize("integrated", [False, True])
def test_nodes_of_units_are_the_last_of_the_rule(integrated: bool) -> None:
    """Training has none for them if they are integrated out; those of hidden layers stay."""
    ours, rule = UnitNodes(sampled(), integrated), sampled()
    for step in range(2):
        nodes, expected = ours(7, step), rule(7, step)
        (hidden,) = nodes.xi
        np.testing.assert_array_equal(hidden.numpy(), expected.xi[0].numpy())
        np.testing.assert_array_equal(nodes.log_omega.numpy(), expected.log_omega.numpy())
        if integrated:
            assert nodes.units is None
        else:
            np.testing.assert_array_equal(nodes.units.numpy(), expected.xi[1].numpy())
    nodes, expected = ours(7), rule(7)
    for actual, wanted in zip((*nodes.xi, nodes.units), expected.xi, strict=True):
        np.testing.assert_array_equal(actual.numpy(), wanted.numpy())


def test_units_that_are_integrated_out_leave_training_one_node() -> None:
    alone = UnitNodes(Sampled([2], N_SAMPLES, 8, 0), integrated=True)
    assert alone(7, 0).xi == ()
    assert alone(7, 0).units is None
    assert alone(7, 0).log_omega.tolist() == [0.0]
    assert alone(7).xi == ()
    assert alone(7).units.shape == (8, 1, 2)


def test_nodes_of_a_mixing_matrix_are_those_of_predictions_alone() -> None:
    rule, entries = Sampled([2], N_SAMPLES, 8, 0), Sampled([6], N_SAMPLES, 5, 1)
    ours = UnitNodes(rule, False, entries)
    assert ours(7, 0).mixing is None
    assert ours(7, 0).units.shape == (N_SAMPLES, 7, 2)
    assert ours(7).units is None
    np.testing.assert_array_equal(ours(7).mixing.numpy(), entries(7).xi[0].numpy())
    np.testing.assert_array_equal(ours(7).log_omega.numpy(), entries(7).log_omega.numpy())
    certain = UnitNodes(rule, False, Sampled([0], N_SAMPLES, 1, 0))(7)
    assert certain.mixing.shape == (1, 1, 0)
    assert certain.log_omega.tolist() == [0.0]
