"""Sigma points: quadrature against moments of the normal, and what learning leaves alone."""

import itertools
import math
from typing import get_args

import numpy as np
import pytest
import torch

from skgp.core.nodes.choice import GRIDS, RULES, make_quadrature
from skgp.core.nodes.continuous import ContinuousNodes
from skgp.core.nodes.sigma_points import Grid, LearnedNodes, MatchedNodes, Quadrature
from skgp.recipes.hidden import QuadratureName


def to_arrays(rule: Quadrature) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (Q, C) and weights (Q,)."""
    nodes = rule(1)
    xi = torch.cat(nodes.xi, -1)[:, 0]
    return xi.detach().numpy(), nodes.log_omega.exp().detach().numpy()


def normal_moment(degree: int) -> float:
    """E z^k: (k - 1)!! for an even k, zero for an odd one."""
    return 0.0 if degree % 2 else float(math.prod(range(1, degree, 2)))


def step_at_random(rule: Quadrature, rng: np.random.Generator, n_steps: int = 5) -> None:
    optimizer = torch.optim.Adam(rule.parameters(), 0.1)
    for _ in range(n_steps):
        for parameter in rule.parameters():
            parameter.grad = torch.from_numpy(rng.normal(size=parameter.shape))
        optimizer.step()


@pytest.mark.parametrize("n_sites", [1, 2, 3, 5])
def test_grid_integrates_polynomials_of_the_normal_exactly(n_sites: int) -> None:
    """Products z_1^i z_2^j z_3^k of degree up to 2 S - 1 in each variable, and not one more."""
    xi, omega = to_arrays(Grid([2, 1], n_sites))
    assert len(omega) == n_sites**3
    np.testing.assert_allclose(omega.sum(), 1.0, rtol=1e-14)
    for degrees in itertools.product(range(2 * n_sites), repeat=3):
        expected = math.prod(map(normal_moment, degrees))
        value = omega @ np.prod(xi ** np.array(degrees), axis=1)
        scale = omega @ np.prod(np.abs(xi) ** np.array(degrees), axis=1)
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-12 * max(scale, 1.0))
    assert abs(omega @ xi[:, 0] ** (2 * n_sites) - normal_moment(2 * n_sites)) > 0.5


@pytest.mark.parametrize("learned", [False, True])
def test_grid_of_as_many_sites_as_are_allowed(learned: bool) -> None:
    """Weights at the far ends are below the least float."""
    rule = Grid([1], 500, learned=learned)
    xi, omega = to_arrays(rule)
    assert torch.isfinite(rule.log_weights()).all()
    for degree in range(5):
        value = omega @ xi[:, 0] ** degree
        np.testing.assert_allclose(value, normal_moment(degree), rtol=0, atol=1e-12)


def test_grid_of_three_sites_is_that_of_the_paper() -> None:
    """Sites -sqrt(3), 0, sqrt(3) with weights 1/6, 2/3, 1/6 for each function."""
    xi, omega = to_arrays(Grid([2], 3))
    root = math.sqrt(3.0)
    single = {-root: 1.0 / 6.0, 0.0: 2.0 / 3.0, root: 1.0 / 6.0}
    expected = {(round(a, 9), round(b, 9)): single[a] * single[b] for a in single for b in single}
    assert len(xi) == 9
    for node, weight in zip(xi, omega, strict=True):
        key = tuple(float(np.round(c, 9)) + 0.0 for c in node)
        np.testing.assert_allclose(weight, expected.pop(key), rtol=1e-12)
    assert not expected


def test_grid_has_nothing_to_learn() -> None:
    assert not list(Grid([2], 3).parameters())


@pytest.mark.parametrize("symmetric", [False, True])
def test_learned_grids_start_at_gauss_hermite(symmetric: bool) -> None:
    rule = Grid([1, 2], 4, learned=True, symmetric=symmetric)
    for ours, expected in zip(to_arrays(rule), to_arrays(Grid([1, 2], 4)), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-14)


def test_learned_grid_has_a_site_for_each_function_and_a_weight_for_each_node(
    rng: np.random.Generator,
) -> None:
    """QR1: S C sites and S^C weights, xi_c of node (s_1, ..., s_C) being site s_c of function c."""
    rule = Grid([1, 1], 3, learned=True)
    sites, logits = rng.normal(size=(3, 2)), rng.normal(size=9)
    with torch.no_grad():
        rule.sites.copy_(torch.from_numpy(sites))
        rule.logits.copy_(torch.from_numpy(logits))
    xi, omega = to_arrays(rule)
    softmax = np.exp(logits) / np.exp(logits).sum()
    for node, (s, t) in enumerate(itertools.product(range(3), repeat=2)):
        np.testing.assert_array_equal(xi[node], [sites[s, 0], sites[t, 1]])
        np.testing.assert_allclose(omega[node], softmax[node], rtol=1e-12)


@pytest.mark.parametrize("n_sites", [2, 3])
def test_symmetric_grid_stays_symmetric_while_it_learns(
    rng: np.random.Generator, n_sites: int
) -> None:
    """xi^(s) = -xi^(S + 1 - s): the nodes in reversed order are the nodes mirrored."""
    rule = Grid([2], n_sites, learned=True, symmetric=True)
    before, _ = to_arrays(rule)
    step_at_random(rule, rng)
    after, omega = to_arrays(rule)
    np.testing.assert_allclose(after[::-1], -after, rtol=0, atol=1e-15)
    assert np.abs(after - before).max() > 0.1
    # each function has sites of its own, and the weights need no symmetry
    assert np.abs(after[-1, 0] - after[-1, 1]) > 1e-3
    assert np.abs(omega - omega[::-1]).max() > 1e-3


def test_learned_grid_may_lose_its_symmetry(rng: np.random.Generator) -> None:
    rule = Grid([2], 3, learned=True)
    step_at_random(rule, rng)
    xi, _ = to_arrays(rule)
    assert np.abs(xi[::-1] + xi).max() > 0.05


@pytest.mark.parametrize("name", ["qr3", "continuous", *GRIDS])
def test_weights_are_a_distribution_however_they_have_moved(
    rng: np.random.Generator, name: str
) -> None:
    rule = make_quadrature(name, [1, 1], 3, 0)
    if name != "gauss-hermite":
        step_at_random(rule, rng, 50)
    _, omega = to_arrays(rule)
    assert (omega > 0.0).all()
    np.testing.assert_allclose(omega.sum(), 1.0, rtol=1e-14)


def test_lined_nodes_start_as_normal_draws_of_equal_weight() -> None:
    """Means, variances and correlations of 4,000 nodes within 4.5 standard errors."""
    n = 4000
    xi, omega = to_arrays(LearnedNodes([2, 1], n, seed=3))
    np.testing.assert_allclose(omega, 1.0 / n, rtol=1e-12)
    assert np.abs(xi.mean(0)).max() < 4.5 / math.sqrt(n)
    deviation = np.cov(xi.T) - np.eye(3)
    assert np.abs(np.diag(deviation)).max() < 4.5 * math.sqrt(2.0 / n)
    assert np.abs(deviation - np.diag(np.diag(deviation))).max() < 4.5 / math.sqrt(n)


def test_lined_nodes_depend_on_the_seed_alone() -> None:
    state = torch.random.get_rng_state()
    first, again, other = (to_arrays(LearnedNodes([2], 5, seed))[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("widths", "n_sites"), [([3], 10), ([2, 1], 4), ([1], 2)])
def test_matched_nodes_have_the_moments_of_a_standard_normal(
    widths: list[int], n_sites: int
) -> None:
    rule = MatchedNodes(widths, n_sites, 0)
    xi, omega = to_arrays(rule)
    np.testing.assert_allclose(omega, 1.0 / n_sites, rtol=1e-12)
    np.testing.assert_allclose(omega @ xi, 0.0, atol=1e-12)
    np.testing.assert_allclose(xi.T @ np.diag(omega) @ xi, np.eye(sum(widths)), atol=1e-12)
    assert not list(rule.parameters())


def test_matched_nodes_that_are_few_have_unit_variances() -> None:
    xi, omega = to_arrays(MatchedNodes([4], 3, 0))
    np.testing.assert_allclose(omega @ xi, 0.0, atol=1e-12)
    np.testing.assert_allclose(omega @ xi**2, 1.0, rtol=1e-12)
    xi, _ = to_arrays(MatchedNodes([4], 1, 0))
    np.testing.assert_array_equal(xi, 0.0)


@pytest.mark.parametrize("name", [*RULES, *GRIDS])
def test_a_node_goes_through_all_layers_with_one_index(name: str) -> None:
    """Layer l gets its own columns of the table of nodes, all in the order of the weights."""
    rule = make_quadrature(name, [2, 1], 3, 0)
    nodes = rule(7)
    table = rule.points()
    assert [tuple(xi.shape) for xi in nodes.xi] == [(len(table), 1, 2), (len(table), 1, 1)]
    assert torch.equal(nodes.xi[0][:, 0], table[:, :2])
    assert torch.equal(nodes.xi[1][:, 0], table[:, 2:])
    assert torch.equal(nodes.log_omega, rule.log_weights())


def test_gradients_reach_every_learned_node_and_weight(rng: np.random.Generator) -> None:
    """Of sum_q omega_q g(xi_q) for a cubic g, by finite differences in both parameters."""
    for name in ("qr1", "qr2", "qr3"):
        rule = make_quadrature(name, [1, 1], 2, 0)
        parameters = dict(rule.named_parameters())
        form = torch.from_numpy(rng.normal(size=2))

        def value(*values: torch.Tensor, rule: Quadrature = rule, form: torch.Tensor = form):
            names = [n for n, _ in rule.named_parameters()]
            nodes = torch.func.functional_call(rule, dict(zip(names, values, strict=True)), (1,))
            xi = torch.cat(nodes.xi, -1)[:, 0]
            return nodes.log_omega.exp() @ ((xi @ form) + (xi @ form) ** 3)

        inputs = [p.detach().clone().requires_grad_() for p in parameters.values()]
        assert len(inputs) == 2
        assert torch.autograd.gradcheck(value, inputs)


def test_names_are_those_of_the_paper() -> None:
    """What is learned, and whether it stays symmetric."""
    assert isinstance(make_quadrature("qr3", [1], 2, 0), LearnedNodes)
    assert isinstance(make_quadrature("continuous", [1], 2, 0), ContinuousNodes)
    rules = {name: make_quadrature(name, [1], 2, 0) for name in GRIDS}
    kinds = {name: (len(list(rule.parameters())), rule.symmetric) for name, rule in rules.items()}
    assert set(get_args(QuadratureName)) == {"auto", *RULES, *GRIDS}
    assert kinds == {"gauss-hermite": (0, False), "qr1": (2, False), "qr2": (2, True)}
