"""Deep GPs and deep sigma point processes as estimators: limits, mixtures and losses by loops."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from deep_problem import DGP, DSPP, SMALL, both_families, make_table
from gpytorch.kernels import RBFKernel
from oracles import likelihoods as oracle
from oracles import objectives as naive
from oracles.deep import dense_stack, nodes_of, stack_mixture, stack_moments
from oracles.models import dense_gps, to_array
from oracles.sparse import kl

from skgp import DGPRegressor, DSPPRegressor, SVGPRegressor

pytestmark = pytest.mark.usefixtures("short_start")


@pytest.fixture
def table(rng):
    return make_table(rng)


# ------------------------------------------------------------------------ limits


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("options", [{}, {"gamma": 1.05}, {"feature_extractor": [4, 2]}])
def test_one_layer_is_svgp(table, covariance, options):
    """Same seed, same rows: same parameters. Batches, so that their order counts too."""
    X, Y, X_new, _ = table
    common = {
        **SMALL,
        **options,
        "covariance": covariance,
        "dtype": "float64",
        "batch_size": 15,
        "learning_rate_init": 0.02,
        "jitter": 1e-5,
        "noise_floor": 1e-4,
    }
    deep = DGPRegressor(n_layers=1, **common).fit(X, Y[:, 0])
    sparse = SVGPRegressor(**common).fit(X, Y[:, 0])
    np.testing.assert_allclose(deep.loss_curve_, sparse.loss_curve_, rtol=0, atol=1e-10)
    for name in ("lengthscales_", "inducing_points_", "noise_variance_"):
        np.testing.assert_allclose(getattr(deep, name), getattr(sparse, name), rtol=1e-9)
    ours, theirs = (model.predict_dist(X_new) for model in (deep, sparse))
    np.testing.assert_allclose(ours.mean(), theirs.mean(), rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.std(), theirs.std(), rtol=0, atol=1e-8)
    assert ours.components().weights.shape == theirs.components().weights.shape


@pytest.mark.parametrize(("n_outputs", "width"), [(1, 3), (3, 3), (5, 5), (12, 10)])
def test_there_are_as_many_hidden_functions_as_outputs_from_three_to_ten(rng, n_outputs, width):
    X, Y = rng.standard_normal((20, 2)), rng.standard_normal((20, n_outputs))
    found, given = (
        DGPRegressor(n_inducing=4, max_iter=1, n_layers=3, random_state=0, **params).fit(X, Y)
        for params in ({}, {"width": width})
    )
    assert [len(layer.mean) for layer in found.model_.stack.gp_layers] == [width, width, n_outputs]
    np.testing.assert_array_equal(found.predict(X), given.predict(X))


@pytest.mark.parametrize(
    ("topology", "number", "is_offered"),
    [("feedforward", 2, True), ("skip-all", 2, False), ("skip-all", 3, True)],
)
def test_a_width_is_offered_to_a_kernel_that_sees_the_hidden_functions_alone(
    rng, topology, number, is_offered
):
    kernels = ["rbf"] * 3
    kernels[number - 1] = RBFKernel(ard_num_dims=2)
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    model = DGPRegressor(n_layers=3, kernel=kernels, topology=topology, n_inducing=4, max_iter=1)
    with pytest.raises(ValueError, match=f"does not fit layer {number} of 3") as error:
        model.fit(X, y)
    assert ("let width be the number of inputs" in str(error.value)) == is_offered
    if is_offered:
        model.set_params(width=2).fit(X, y)


def test_one_layer_does_not_depend_on_what_hidden_layers_would_be(table):
    X, Y, X_new, _ = table
    plain = DGPRegressor(**DGP | {"n_layers": 1}).fit(X, Y)
    other = DGPRegressor(
        **DGP | {"n_layers": 1, "width": 5, "n_samples": 1, "topology": "skip-all"}
    ).fit(X, Y)
    np.testing.assert_array_equal(plain.predict(X_new), other.predict(X_new))


# ----------------------------------------------- predictions by loops over components

MODELS = {
    "dgp": (DGPRegressor, {}),
    "dgp-one-column": (DGPRegressor, {"width": 4}),
    "dgp-concatenate": (DGPRegressor, {"n_layers": 3, "hidden_mean": "concatenate"}),
    "dgp-skip-mean": (DGPRegressor, {"n_layers": 3, "topology": "skip-mean"}),
    "dgp-features": (DGPRegressor, {"feature_extractor": [4, 2], "n_latents": 1}),
    "dspp-qr3": (DSPPRegressor, {}),
    "dspp-qr1": (DSPPRegressor, {"quadrature": "qr1", "n_latents": 1}),
    "dspp-qr2": (DSPPRegressor, {"quadrature": "qr2", "covariance": "full"}),
    "dspp-continuous": (DSPPRegressor, {"quadrature": "continuous"}),
    "dspp-grid": (DSPPRegressor, {"quadrature": "gauss-hermite"}),
    "dspp-skip-mean-both": (DSPPRegressor, {"n_layers": 3, "topology": "skip-mean-both"}),
    "dspp-skip-all": (DSPPRegressor, {"n_layers": 3, "topology": "skip-all", "width": 3}),
    "dspp-identity": (DSPPRegressor, {"n_layers": 3, "hidden_mean": "identity"}),
    "dspp-features": (DSPPRegressor, {"feature_extractor": [4, 2]}),
}


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_the_mixture_of_the_fitted_parameters(table, name, missing):
    """Density, mean and variance (law of total variance) of both outputs, in the units of y."""
    X, Y, X_new, Y_new = table
    if name == "dgp-one-column":
        X, X_new = X[:, :1], X_new[:, :1]
    if missing:
        Y, Y_new = Y.copy(), Y_new.copy()
        Y[::3, 0] = Y[1::3, 1] = np.nan
        Y_new[::2, 1] = np.nan
    cls, params = MODELS[name]
    params = {**(DGP if cls is DGPRegressor else DSPP), **params}
    model = cls(**params).fit(X, Y)
    dist = model.predict_dist(X_new)

    fitted = model.model_
    x = (X_new - fitted.x_scale.offset) / fitted.x_scale.unit
    with torch.no_grad():
        features = to_array(fitted.stack.features(torch.from_numpy(x)))
    nodes = fitted.nodes(1)
    xi = [to_array(part) for part in nodes.xi]
    assert len(xi) == params.get("n_layers", 2) - 1
    naive = stack_mixture(
        fitted.stack, fitted.likelihood, features, xi, to_array(nodes.log_omega.exp())
    )
    offset, unit = fitted.y_scale.offset, fitted.y_scale.unit
    mean = offset + unit * naive.total_mean()
    cov = unit[:, None] * naive.total_cov() * unit
    np.testing.assert_allclose(dist.mean(), mean, rtol=1e-7)
    np.testing.assert_allclose(dist.cov(), cov, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(dist.var(), np.diagonal(cov, axis1=1, axis2=2), rtol=1e-6)
    n_observed = ~np.isnan(Y_new)
    jacobian = (n_observed * np.log(unit)).sum(1)
    expected = naive.log_density((Y_new - offset) / unit) - jacobian
    if missing:
        for row, seen in enumerate(n_observed):
            if seen.all():
                actual = dist[row : row + 1].joint_logpdf(Y_new[row : row + 1])[0]
                np.testing.assert_allclose(actual, expected[row], rtol=1e-7, atol=1e-7)
    else:
        np.testing.assert_allclose(dist.joint_logpdf(Y_new), expected, rtol=1e-7, atol=1e-7)


def test_noiseless_predictions_keep_the_spread_of_the_components(table):
    """Var y = Var f + noise: the noise is added once, in every component."""
    X, Y, X_new, _ = table
    for model in both_families():
        model.fit(X, Y[:, 0])
        total, latent = model.predict_dist(X_new), model.predict_latent(X_new)
        np.testing.assert_allclose(total.mean(), latent.mean(), rtol=1e-12)
        np.testing.assert_allclose(total.var(), latent.var() + model.noise_variance_, rtol=1e-9)
        assert latent.components().mean.std(axis=-1).max() > 0.0


# ------------------------------------------------------------- the loss of a step


def gamma_term(*args):
    return oracle.gamma_expectation(*args, 1.05)


LOSSES = {
    "dgp": (DGPRegressor, {}, oracle.expected_log_prob, naive.average),
    "dgp-predictive": (
        DGPRegressor,
        {"objective": "predictive"},
        oracle.log_marginal,
        naive.log_average_exp,
    ),
    "dgp-gamma": (DGPRegressor, {"gamma": 1.05}, gamma_term, naive.average),
    "dspp": (DSPPRegressor, {"n_layers": 3}, oracle.log_marginal, naive.log_average_exp),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_of_a_training_step_against_loops(table, rng, monkeypatch, name):
    """Of the batch, the draws and the parameters of the step, quadrature in place of formulas."""
    cls, params, term, reduce = LOSSES[name]
    steps = []
    original = cls._recipe

    def spied(self):
        recipe = original(self)

        def spy(model, batch, step, n_data):
            before = copy.deepcopy(model)
            nodes = before.nodes(len(batch.x), step)
            value = recipe.loss(model, batch, step, n_data)
            steps.append((before, batch, nodes, value.item()))
            return value

        return dataclasses.replace(recipe, loss=spy)

    monkeypatch.setattr(cls, "_recipe", spied)
    X, Y, _, _ = table
    weight = rng.uniform(0.5, 2.0, 12)
    defaults = DGP if cls is DGPRegressor else DSPP
    # The oracle's divergence, in u and not whitened, needs a well-conditioned Kuu.
    common = {"beta_reg": 0.7, "jitter": 1e-2, "dtype": "float64", "max_iter": 3}
    model = cls(**{**defaults, **params, **common})
    model.fit(X[:12], Y[:12, 0], weight)
    *steps, _ = steps  # the last one is the check of the last step
    assert len(steps) == 3
    for (before, batch, nodes, value), recorded in zip(steps, model.loss_curve_, strict=True):
        latent = stack_moments(dense_stack(before.stack), to_array(batch.x), nodes_of(nodes.xi))
        noise = to_array(before.likelihood.noise_var)
        values = naive.terms(term, latent, to_array(batch.targets.y), None, noise)
        expected = naive.loss(
            values,
            to_array(nodes.log_omega.exp()),
            reduce,
            weight=to_array(batch.weight),
            kl=sum(kl(gp) for layer in before.stack.layers for gp in dense_gps(layer)),
            log_prior=0.0,
            beta_reg=0.7,
            n_data=weight.sum(),
        )
        # The oracle's divergence loses some digits to its inverses of Kuu and of small variances.
        np.testing.assert_allclose([value, recorded], expected, rtol=2e-7)
        if cls is DGPRegressor:
            assert nodes.xi[0].shape == (3, 12, 2)
