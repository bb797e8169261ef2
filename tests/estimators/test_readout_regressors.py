"""Regressors with a readout: sizes and starts, missing outputs, the means of predictions."""

import numpy as np
import pytest
import torch
from oracles.models import to_array

from skgp import (
    GPRNRegressor,
    MOGPRegressor,
    NeuralDGPRegressor,
    NeuralMOGPRegressor,
    NeuralSBGPRNRegressor,
    SBGPRNRegressor,
    SVGPRegressor,
)
from skgp.core.data import Batch, Targets
from skgp.core.nodes.rules import Sampled, trivial
from skgp.core.stacks.mixing import NormalMixing
from skgp.core.stacks.units import IdentityUnits, NeuralUnits, NoisyUnits

SMALL = {"n_inducing": 8, "max_iter": 3, "random_state": 0}
PLAIN = [MOGPRegressor, GPRNRegressor, SBGPRNRegressor]
WITH_NODES = {**SMALL, "n_prediction_samples": 8}
NEURAL = [NeuralMOGPRegressor, NeuralSBGPRNRegressor, NeuralDGPRegressor]


@pytest.fixture
def table(rng):
    X = rng.uniform(-1.0, 1.0, (50, 2))
    f = np.sin(3.0 * X[:, :1])
    Y = np.hstack([f, f**2, 2.0 - f, X[:, 1:] + f, X[:, 1:]])
    return X, Y + 0.05 * rng.standard_normal((50, 5))


@pytest.mark.parametrize("cls", PLAIN + NEURAL)
def test_half_as_many_latent_functions_as_outputs(table, cls):
    """Of deep models those are hidden, and three quarters are on top (section 5.3)."""
    stack = cls(**SMALL).fit(*table).stack_
    is_deep = cls is NeuralDGPRegressor
    assert len(stack.top.kernel.variance) == stack.readout.units.n_latents == 3 + is_deep
    assert len(stack.layers[0].kernel.variance) == 3
    fewer = cls(**SMALL, n_latents=2).fit(*table).stack_
    assert len(fewer.top.kernel.variance) == 2


@pytest.mark.parametrize(("cls", "n_hidden"), list(zip(NEURAL, (10, 5, 10), strict=True)))
def test_number_of_hidden_units(table, cls, n_hidden):
    units = cls(**SMALL).fit(*table).stack_.readout.units
    assert isinstance(units, NeuralUnits)
    assert len(units.weight) == n_hidden
    assert len(cls(**SMALL, n_hidden=4).fit(*table).stack_.readout.units.weight) == 4


@pytest.mark.parametrize("cls", PLAIN + NEURAL)
def test_only_plain_latent_functions_have_a_prior_mean(table, cls):
    mean = cls(**SMALL).fit(*table).stack_.top.mean
    assert mean.requires_grad == (cls in PLAIN)
    assert bool((mean != 0.0).all()) == (cls in PLAIN)


def test_entries_of_the_mixing_matrix_share_one_kernel(table):
    stack = GPRNRegressor(**SMALL).fit(*table).stack_
    latents, entries = stack.layers
    assert latents.kernel.lengthscale.shape == (3, 2)
    assert entries.kernel.lengthscale.shape == (1, 2)
    assert entries.Z.shape == (1, 8, 2)
    assert entries.mean.shape == (15,)


def test_latent_functions_of_a_gprn_have_a_noise_each_that_is_learnt(table):
    units = GPRNRegressor(**SMALL).fit(*table).stack_.readout.units
    assert isinstance(units, NoisyUnits)
    noise = to_array(units.log_noise).tolist()
    assert len(set(noise)) == 3


@pytest.mark.parametrize("cls", PLAIN + NEURAL)
@pytest.mark.parametrize("inference", ["sampling", "analytic"])
def test_draws_of_a_training_step(table, cls, inference):
    """Only what is not integrated out is drawn: hidden layers always, units if sampled."""
    model = cls(**SMALL, inference=inference, n_samples=6).fit(*table).model_
    nodes = model.nodes(7, 0)
    n_hidden = int(cls is NeuralDGPRegressor)
    assert len(nodes.xi) == n_hidden
    assert all(len(xi) == 6 for xi in nodes.xi)
    if inference == "sampling":
        assert nodes.units.shape[:2] == (6, 7)
    else:
        assert nodes.units is None
    fixed = model.nodes(7)
    assert len(fixed.xi) == n_hidden
    draws_matrix = cls in (MOGPRegressor, SBGPRNRegressor)
    assert (fixed.units is None) == draws_matrix
    assert (fixed.mixing is None) == (not draws_matrix)


@pytest.mark.parametrize("cls", [MOGPRegressor, NeuralMOGPRegressor, NeuralSBGPRNRegressor])
def test_predictions_have_the_analytic_mean(table, cls):
    X, Y = table
    model = cls(**WITH_NODES).fit(X, Y)
    x = torch.from_numpy((X - model.model_.x_scale.offset) / model.model_.x_scale.unit)
    with torch.no_grad():
        moments = model.stack_(x, trivial(x), model.stack_.factors())
    mean = to_array(moments.f_mean[0]) * model.model_.y_scale.unit + model.model_.y_scale.offset
    np.testing.assert_allclose(model.predict(X), mean, rtol=1e-9)
    assert model.predict_dist(X).components().mean.shape[1] == 8


@pytest.mark.parametrize("cls", PLAIN + NEURAL)
def test_plain_start_is_a_principal_component_model(table, cls):
    """Without a step worth the name most of the outputs is explained, of units a little less."""
    X, Y = table
    model = cls(**{**SMALL, "n_inducing": 30, "max_iter": 1}, learning_rate_init=1e-9)
    assert model.fit(X, Y).score(X, Y) > (0.9 if cls in PLAIN else 0.4)


def test_units_of_many_functions_start_as_wide_as_those_of_one(table):
    """Before their bias, of latent functions of unit variance: wider ones would be saturated."""
    X, Y = table
    for n_latents in (1, 5):
        model = NeuralMOGPRegressor(**SMALL, n_latents=n_latents, n_hidden=1000)
        weight = model.set_params(max_iter=1).fit(X, Y).stack_.readout.units.weight
        assert weight.square().sum(1).mean().item() == pytest.approx(1.0, rel=0.1)


def test_annealing_lasts_for_its_epochs(table):
    """Three batches an epoch; the step of the model counts on over a second fit."""
    X, Y = table
    model = NeuralMOGPRegressor(**SMALL, kl_annealing=2, batch_size=17, warm_start=True)
    assert model.fit(X, Y).stack_.n_annealing == 6
    assert model.model_.n_steps == 9
    assert model.fit(X, Y).model_.n_steps == 18
    assert NeuralMOGPRegressor(**SMALL).fit(X, Y).stack_.n_annealing == 0


def test_prediction_nodes_are_one_sequence_over_layers_and_units(table):
    model = NeuralDGPRegressor(**SMALL, width=2, inference="analytic").fit(*table).model_
    rule = model.nodes.rule
    assert isinstance(rule, Sampled)
    assert rule.widths == [2, 4 + 10]


def test_the_plain_deep_gp_of_the_paper(table):
    """Top functions mixed by a matrix with a posterior; as many as of the neural one."""
    X, Y = table
    plain = NeuralDGPRegressor(**SMALL, activation="identity").fit(X, Y)
    neural = NeuralDGPRegressor(**SMALL).fit(X, Y)
    readout = plain.stack_.readout
    assert isinstance(readout.units, IdentityUnits)
    assert isinstance(readout.mixing, NormalMixing)
    assert readout.mixing(torch.zeros(1, 2), None).mean.shape == (5, 4)
    for name in (0, 1):
        counts = [len(m.stack_.layers[name].kernel.variance) for m in (plain, neural)]
        assert counts[0] == counts[1] == (3, 4)[name]
    assert np.isfinite(plain.predict_dist(X).joint_logpdf(Y)).all()
    with pytest.raises(ValueError, match="n_hidden=4 is for units"):
        NeuralDGPRegressor(activation="identity", n_hidden=4).fit(X, Y)


@pytest.mark.parametrize("cls", [MOGPRegressor, SBGPRNRegressor])
def test_joint_densities_off_the_data_are_those_of_a_normal_given_the_matrix(table, cls):
    """Against 4 10^5 draws of two latent functions, which vary there by far more than the noise."""
    X, Y = table
    model = cls(n_inducing=20, n_latents=2, max_iter=150, random_state=0).fit(X, Y).model_
    x = torch.tensor([[1.4, 0.3], [-0.2, 1.6], [1.5, -1.5]], dtype=torch.float64)
    stack, likelihood = model.stack, model.likelihood
    draws = torch.randn(400_000, 1, 2, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        latent = stack.below(x, trivial(x), stack.known_factors())
        y = stack.readout.sample(latent, x, torch.tensor([[[0.7, -0.5]]]).double()).f_mean[0]
        targets = Targets(y, None)
        at_x = model.source.latents(model.nodes)(x)
        ours = model._log_density(Batch(x, targets, None), at_x, model.log_weights)
        of_draws = stack.readout.sample(latent, x, draws)
        expected = torch.logsumexp(likelihood.log_marginal(of_draws, targets), 0)
    np.testing.assert_allclose(to_array(ours), to_array(expected) - np.log(400_000), atol=0.15)


@pytest.mark.parametrize(
    "cls", [NEURAL[0], *(pytest.param(cls, marks=pytest.mark.slow) for cls in NEURAL[1:])]
)
def test_a_task_is_predicted_where_another_one_was_observed(cls, rng):
    """Each row observes one of two outputs, and each output is unobserved on a side."""
    X = np.vstack([rng.uniform(-1.0, 0.4, (60, 1)), rng.uniform(-0.4, 1.0, (60, 1))])
    f = np.sin(4.0 * X[:, 0])
    Y = np.full((120, 2), np.nan)
    Y[:60, 0] = f[:60] + 0.05 * rng.standard_normal(60)
    Y[60:, 1] = 1.0 - 2.0 * f[60:] + 0.1 * rng.standard_normal(60)
    model = cls(n_inducing=20, max_iter=400, random_state=0).fit(X, Y)
    alone = SVGPRegressor(random_state=0).fit(X[:60], Y[:60, 0])
    right = np.linspace(0.4, 1.0, 40)[:, None]
    errors = (
        np.sqrt(np.mean((mean - np.sin(4.0 * right[:, 0])) ** 2))
        for mean in (model.predict(right)[:, 0], alone.predict(right))
    )
    together, apart = errors
    assert together < 0.4 * apart


@pytest.mark.parametrize("cls", [SBGPRNRegressor, NeuralSBGPRNRegressor])
def test_dropout_keeps_the_mixing_matrix_closer_to_a_constant(table, cls):
    params = {"n_inducing": 8, "max_iter": 100, "random_state": 0}
    plain, dropping = (cls(**params, dropout=p).fit(*table).stack_ for p in (0.0, 0.5))
    norms = [
        to_array(stack.readout.mixing.network[-1].weight.norm()).item()
        for stack in (plain, dropping)
    ]
    assert norms[1] < 0.8 * norms[0]
