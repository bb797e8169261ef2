"""Stacks with latent covariates: moments at nodes and for training rows, by loops."""

import math

import numpy as np
import pytest
import torch
from oracles.deep import nodes_of
from oracles.latent import (
    random_covariates,
    random_latent_stack,
    repeated,
    stack_moments,
    within_cells,
    z_scores,
)
from oracles.models import dense_gps, normal, random_likelihood, to_array
from oracles.sparse import layer_moments
from torch import nn

from skgp.core.data import Batch, Targets
from skgp.core.layers.projected import ProjectedGP
from skgp.core.layers.sparse import SparseGP
from skgp.core.nodes.rules import Sampled
from skgp.core.objectives.importance import latent_loss
from skgp.core.objectives.objective import ELBO, loss
from skgp.core.stacks.latent_stack import LatentCovariates, LatentStack, evidence, spread
from skgp.core.stacks.row_posterior import Free
from skgp.core.stacks.stack import GPStack

WIDTHS = {"LV-GP": [1], "LV-GP-GP": [1, 2], "GP-LV-GP": [2, 1], "LV-GP-LV-GP": [1, 2, 1]}


def batch_of(rng: np.random.Generator, n_rows: int, n_outputs: int = 1) -> Batch:
    targets = Targets(normal(rng, n_rows, n_outputs), None)
    return Batch(normal(rng, n_rows, 2), targets, None, torch.arange(n_rows))


# ------------------------------------------------------------------ rows without targets


@pytest.mark.parametrize("architecture", WIDTHS)
def test_moments_at_the_nodes_against_loops(rng: np.random.Generator, architecture: str) -> None:
    """[h, w] or h + f P up the stack, and the spread of f within a cell at the top."""
    stack = random_latent_stack(rng, architecture, n_latents=2)
    nodes = Sampled(WIDTHS[architecture], 1, 6, 0).double()(4)
    x = normal(rng, 4, 2)
    latent = spread(stack(x, nodes, stack.factors()))
    naive = stack_moments(stack, to_array(x), nodes_of(nodes.xi))
    within = within_cells(naive.f_mean)
    assert within.min() > 0.0
    np.testing.assert_allclose(to_array(latent.f_mean), naive.f_mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(to_array(latent.v_prior), naive.v_prior + within, rtol=0, atol=1e-8)
    np.testing.assert_allclose(to_array(latent.v_q), naive.v_q, rtol=0, atol=1e-8)


def test_several_covariates_enter_beside_the_inputs(rng: np.random.Generator) -> None:
    stack = random_latent_stack(rng, "LV-GP", n_covariates=3)
    nodes = Sampled([3], 1, 5, 0).double()(4)
    x = normal(rng, 4, 2)
    latent = stack(x, nodes, stack.factors())
    naive = stack_moments(stack, to_array(x), nodes_of(nodes.xi))
    np.testing.assert_allclose(to_array(latent.f_mean), naive.f_mean, rtol=0, atol=1e-9)


def test_moments_without_covariates_against_loops(rng: np.random.Generator) -> None:
    stack = random_latent_stack(rng, "GP-GP")
    nodes = Sampled([2], 1, 6, 0).double()(4)
    x = normal(rng, 4, 2)
    latent = stack(x, nodes, stack.factors())
    naive = stack_moments(stack, to_array(x), nodes_of(nodes.xi))
    for actual, expected in zip(latent, naive, strict=True):
        np.testing.assert_allclose(to_array(actual), expected, rtol=0, atol=1e-8)


def test_nothing_is_spread_with_one_node(rng: np.random.Generator) -> None:
    stack = random_latent_stack(rng, "LV-GP-GP")
    nodes = Sampled([1, 2], 1, 1, 0).double()(4)
    x = normal(rng, 4, 2)
    latent = spread(stack(x, nodes, stack.factors()))
    naive = stack_moments(stack, to_array(x), nodes_of(nodes.xi))
    np.testing.assert_allclose(to_array(latent.v_prior), naive.v_prior, rtol=0, atol=1e-8)


def test_spread_components_of_a_uniform_covariate_are_uniform(rng: np.random.Generator) -> None:
    """If f is linear in w, the variance of the mixture grows to that of w's normal, nearly.

    Without noise and with certain components: the law of total variance over 128 nodes.
    """
    stack = random_latent_stack(rng, "LV-GP", n_inducing=2)
    top = stack.top
    assert isinstance(top, SparseGP)
    with torch.no_grad():
        top.kernel.log_variance.fill_(-60.0)
    top.slope = nn.Parameter(torch.tensor([[0.0], [0.0], [2.0]]).double())
    nodes = Sampled([1], 1, 128, 0).double()(1)
    latent = spread(stack(normal(rng, 3, 2), nodes, stack.factors()))
    w = np.sort(2.0 * to_array(nodes.xi[0])[:, 0, 0])
    gaps = np.diff(w)
    width = np.array([gaps[0], *(0.5 * (gaps[1:] + gaps[:-1])), gaps[-1]])
    within = to_array(latent.v_prior).mean(0)[:, 0]
    np.testing.assert_allclose(within, (width**2 / 12.0).mean(), rtol=1e-9)
    total = to_array(latent.f_mean)[..., 0].var(0) + within
    np.testing.assert_allclose(total, 4.0, rtol=0.02)


# ------------------------------------------------------------------ training rows


def test_evidence_is_inputs_targets_and_what_is_observed(rng: np.random.Generator) -> None:
    x, y = normal(rng, 3, 2), normal(rng, 3, 2)
    mask = torch.tensor([[1, 0], [1, 1], [0, 1]]).double()
    expected = np.concatenate([to_array(x), to_array(y * mask), to_array(mask)], 1)
    np.testing.assert_array_equal(to_array(evidence(x, Targets(y * mask, mask))), expected)
    expected = np.concatenate([to_array(x), to_array(y), np.ones((3, 2))], 1)
    np.testing.assert_array_equal(to_array(evidence(x, Targets(y, None))), expected)


@pytest.mark.parametrize("n_evidence", [None, 4], ids=["free", "amortized"])
def test_draw_of_one_layer_of_covariates_against_loops(
    rng: np.random.Generator, n_evidence: int | None
) -> None:
    """w = a + b epsilon, moments of f at [x, w], log p(w) - log q(w) and the divergence."""
    stack = random_latent_stack(rng, "LV-GP", n_covariates=2, n_evidence=n_evidence)
    batch = batch_of(rng, 3)
    batch = batch._replace(rows=torch.tensor([4, 0, 2]))
    factors = stack.factors()
    generator = torch.Generator().manual_seed(2)
    draw = stack.draw(batch, factors, generator, n_samples=2, n_importance=3)
    latent = [part.unflatten(0, (2, 3)) for part in draw.latent]
    log_ratio = draw.log_ratio.unflatten(0, (2, 3))
    epsilon = torch.randn(
        2, 3, 3, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    (covariates,) = (block for block in stack.hidden if isinstance(block, LatentCovariates))
    local = covariates.posterior(evidence(batch.x, batch.targets), batch.rows)
    assert isinstance(stack.top, SparseGP)
    top = dense_gps(stack.top)
    for s, k, b in np.ndindex(2, 3, 3):
        a, log_b = to_array(local.mean[b]), to_array(local.log_std[b])
        z = to_array(epsilon[s, k, b])
        w = a + np.exp(log_b) * z
        of_row = layer_moments(top, np.array([[*to_array(batch.x[b]), *w]]))
        for actual, expected in zip(latent, of_row, strict=True):
            assert math.isclose(actual[s, k, b, 0].item(), expected[0, 0], abs_tol=1e-9)
        ratio = sum(-0.5 * w**2 + 0.5 * z**2 + log_b)
        assert math.isclose(log_ratio[s, k, b].item(), ratio, abs_tol=1e-12)
    np.testing.assert_allclose(to_array(draw.local_kl), to_array(local.kl()), rtol=1e-13)


def test_ratios_and_divergences_of_all_layers_of_covariates_are_summed(
    rng: np.random.Generator,
) -> None:
    """Near the prior in the first layer of two, the second alone remains."""
    stack = random_latent_stack(rng, "LV-LV-GP")
    first, second = stack.hidden
    assert isinstance(first.posterior, Free)
    assert isinstance(second.posterior, Free)
    batch = batch_of(rng, 3)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        generator = torch.Generator().manual_seed(2)
        d = stack.draw(batch, stack.factors(), generator, n_samples=2, n_importance=3)
        return to_array(d.log_ratio), to_array(d.local_kl)

    both = draw()
    with torch.no_grad():
        parameters = first.posterior.mean, first.posterior.log_std
        saved = [parameter.clone() for parameter in parameters]
        first.posterior.mean.zero_()
        first.posterior.log_std.zero_()
        second_alone = draw()
        for parameter, value in zip(parameters, saved, strict=True):
            parameter.copy_(value)
        second.posterior.mean.zero_()
        second.posterior.log_std.zero_()
        first_alone = draw()
    for total, one, other in zip(both, first_alone, second_alone, strict=True):
        assert np.abs(one).min() > 1e-3
        np.testing.assert_allclose(total, one + other, rtol=0, atol=1e-12)


def test_all_covariates_of_a_row_see_one_function(rng: np.random.Generator) -> None:
    """Covariance of the hidden values of K = 2 covariates, over 4000 draws of 3 rows.

    The kernel of the hidden GP does not see w, so both values of a row are one number: f(x). The
    functions of two rows, or of two draws, are independent.
    """
    stack = random_latent_stack(rng, "LV-GP-GP")
    covariates, hidden = stack.hidden
    assert isinstance(hidden, ProjectedGP)
    with torch.no_grad():
        hidden.layer.kernel.log_lengthscale[0, -1] = 20.0
    batch = batch_of(rng, 3)
    same = batch._replace(x=batch.x[:1].expand(3, -1))
    seen: list[torch.Tensor] = []
    hook = stack.top.kernel.Kuf

    def spy(Z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        seen.append(x.detach())
        return hook(Z, x)

    stack.top.kernel.Kuf = spy  # type: ignore[method-assign]  # a spy
    stack.draw(
        same, stack.factors(), torch.Generator().manual_seed(0), n_samples=4000, n_importance=2
    )
    h = to_array(torch.cat(seen)).reshape(4000, 2, 3, 3)[..., :2] - to_array(same.x)
    assert covariates.n_covariates == 1
    f = h @ np.linalg.pinv(to_array(hidden.projection)[:, :2])
    latent = layer_moments(
        dense_gps(repeated(hidden.layer)), np.array([[*to_array(batch.x[0]), 0.0]])
    )
    deviations = f - latent.f_mean[0]
    variance = (latent.v_prior + latent.v_q)[0]
    for w in range(2):
        d = deviations[..., w]
        assert np.abs(z_scores(d, 0.0)).max() < 4.5
        assert np.abs(z_scores(d[:, 0] * d[:, 1], variance[w])).max() < 4.5
        assert np.abs(z_scores(d[:, 0] * np.roll(d[:, 1], 1, -1), 0.0)).max() < 4.5
        shifted = d[1:, 0] * d[:-1, 1]
        assert np.abs(z_scores(shifted, 0.0)).max() < 4.5


def test_one_covariate_suffices_where_nothing_is_importance_weighted(
    rng: np.random.Generator,
) -> None:
    """Without covariates there is one for each draw of the functions, whatever K is."""
    stack = random_latent_stack(rng, "GP-GP")
    batch = batch_of(rng, 3)
    draw = stack.draw(
        batch, stack.factors(), torch.Generator().manual_seed(0), n_samples=2, n_importance=5
    )
    assert draw.latent.f_mean.shape == (2, 3, 1)
    assert draw.log_ratio.item() == 0.0
    assert draw.local_kl.item() == 0.0


def test_a_stack_without_covariates_is_a_deep_gp(rng: np.random.Generator) -> None:
    """The loss over 40 draws against that of the deep GP with the same parameters.

    The directions are the axes and the width is that of the inputs, so h + f is a GP with the
    identity as its mean. Means of 40 steps of 50 samples, within 4 standard errors of both.
    """
    stack = random_latent_stack(rng, "GP-GP")
    (hidden,) = stack.hidden
    assert isinstance(hidden, ProjectedGP)
    hidden.projection.copy_(torch.eye(2))
    twin = repeated(hidden.layer)
    twin.slope = nn.Parameter(torch.eye(2).double())
    deep = GPStack([twin, stack.top])
    likelihood, batch = random_likelihood(rng, 1), batch_of(rng, 6)
    nodes = Sampled([2], 50, 4, 0).double()
    settings = {"beta_reg": 0.7, "n_data": 20.0}
    with torch.no_grad():
        ours = np.array([
            latent_loss(
                ELBO, stack, likelihood, batch, torch.Generator().manual_seed(seed),
                n_samples=50, **settings,
            ).item()
            for seed in range(40)
        ])  # fmt: skip
        theirs = np.array([
            loss(ELBO, deep, likelihood, nodes(6, step), batch, **settings).item()
            for step in range(40)
        ])  # fmt: skip
    error = math.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / 40)
    assert error < 0.02 * abs(theirs.mean())
    assert abs(ours.mean() - theirs.mean()) < 4.0 * error


def test_divergence_counts_every_gp_layer_and_no_covariates(rng: np.random.Generator) -> None:
    stack = random_latent_stack(rng, "LV-GP-LV-GP")
    factors = stack.factors()
    assert len(factors) == 2
    _, hidden, _ = stack.hidden
    expected = hidden.layer.kl(hidden.layer.factors()) + stack.top.kl(stack.top.factors())
    np.testing.assert_allclose(stack.kl(factors).item(), expected.item(), rtol=1e-13)
    assert stack.bottom is hidden.layer


def test_features_stand_in_front_of_the_covariates(rng: np.random.Generator) -> None:
    """A network in front is the same as a table of its values, evidence included."""
    plain = random_latent_stack(rng, "LV-GP-GP", n_evidence=4)
    linear = nn.Linear(5, 2).double()
    deep = LatentStack(list(plain.hidden), plain.top, linear)
    batch = batch_of(rng, 3)._replace(x=normal(rng, 3, 5))
    values = batch._replace(x=linear(batch.x))
    nodes = Sampled([1, 2], 1, 4, 0).double()(3)
    for actual, expected in zip(
        deep(batch.x, nodes, deep.factors()),
        plain(values.x, nodes, plain.factors()),
        strict=True,
    ):
        np.testing.assert_allclose(to_array(actual), to_array(expected), rtol=0, atol=1e-13)
    draws = [
        stack.draw(
            b, stack.factors(), torch.Generator().manual_seed(0), n_samples=2, n_importance=2
        )
        for stack, b in ((deep, batch), (plain, values))
    ]
    np.testing.assert_allclose(
        to_array(draws[0].latent.f_mean), to_array(draws[1].latent.f_mean), rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(
        to_array(draws[0].log_ratio), to_array(draws[1].log_ratio), rtol=0, atol=1e-13
    )


def test_random_covariates_are_not_the_prior(rng: np.random.Generator) -> None:
    """The oracles would be blind to a ratio that is always zero."""
    free = random_covariates(rng, 2, None).posterior(torch.zeros(3, 1), torch.arange(3))
    assert to_array(free.kl()).min() > 0.05
