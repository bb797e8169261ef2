"""FITC against dense algebra, repeated and dropped rows, and its gradients."""

from types import SimpleNamespace

import gpytorch
import numpy as np
import pytest
import torch
from oracles import fitc as oracle
from oracles.kernels import covariance
from oracles.models import normal, random_kernel, to_array
from torch.autograd import gradcheck
from torch.autograd.graph import saved_tensors_hooks

from skgp.core.kernels.gpytorch_kernel import GPyTorchKernel
from skgp.core.kernels.kernel import Kernel
from skgp.core.layers.posteriors import FullPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal import fitc
from skgp.core.marginal.observed_rows import ObservedRows

JITTER = 1e-6
N_ROWS, N_GPS, N_INDUCING = 14, 2, 5


@pytest.fixture
def problem(rng):
    """Arguments of two GPs with 14 rows, from the kernel to the noise variances."""
    x = torch.from_numpy(rng.uniform(-2, 2, (N_ROWS, 2)))
    return {
        "kernel": random_kernel(rng, "matern52", N_GPS, 2),
        "mean": normal(rng, N_GPS),
        "Z": torch.from_numpy(rng.uniform(-2, 2, (N_GPS, N_INDUCING, 2))),
        "x": x,
        "y": torch.sin(2 * x[:, 0]) + 0.3 * normal(rng, N_GPS, N_ROWS),
        "weight": torch.ones(N_ROWS).double(),
        "noise_var": torch.tensor([0.05, 0.2]).double(),
        "jitter": JITTER,
    }


def arguments_of(problem):
    """What the functions of FITC take, for priors whose parameters are any tensors."""
    prior = SimpleNamespace(**{name: problem[name] for name in ("kernel", "mean", "Z", "jitter")})
    rows = ObservedRows(problem["x"], problem["y"], problem["weight"], problem.get("mask"))
    size = {name: problem[name] for name in ("chunk_size",) if name in problem}
    return {"layer": prior, "rows": rows, "noise_var": problem["noise_var"], **size}


def fitc_log_marginal(**problem):
    return fitc.fitc_log_marginal(**arguments_of(problem))


def fitc_posterior(**problem):
    return fitc.fitc_posterior(**arguments_of(problem))


def blocks(problem, w, rows, x_test=None):
    """Kuu with its jitter, Kuf, kff of GP w at some rows, as the oracle wants them."""
    kernel = problem["kernel"]
    lengthscale, variance = to_array(kernel.lengthscale[w]), kernel.variance[w].item()
    Z = to_array(problem["Z"][w])
    X = to_array(problem["x"] if x_test is None else x_test)[rows]
    Kuu = covariance("matern52", Z, Z, lengthscale, variance) + JITTER * variance * np.eye(len(Z))
    Kuf = covariance("matern52", Z, X, lengthscale, variance)
    return Kuu, Kuf, np.full(len(X), variance)


def dense_log_marginal(problem, w, rows):
    return oracle.log_marginal_likelihood(
        *blocks(problem, w, rows),
        problem["mean"][w].item(),
        to_array(problem["y"])[w, rows],
        problem["noise_var"][w].item(),
    )


def predict(problem, x_test, **changes):
    """Moments (N, W) of a sparse layer that was started at the posterior of FITC."""
    arguments = problem | changes
    layer = SparseGP(
        problem["kernel"],
        problem["Z"],
        FullPosterior(torch.zeros(N_GPS, N_INDUCING).double(), 0.3),
        JITTER,
    ).double()
    with torch.no_grad():
        layer.mean.copy_(problem["mean"])
    layer.posterior.start(*fitc_posterior(**arguments))
    latent = layer.moments(x_test.unsqueeze(0), layer.factors())
    return latent.f_mean[0], latent.f_var[0]


def test_log_marginal_equals_dense_algebra(problem):
    value = fitc_log_marginal(**problem)
    expected = [dense_log_marginal(problem, w, np.arange(N_ROWS)) for w in range(N_GPS)]
    np.testing.assert_allclose(value.detach(), expected, rtol=1e-8)


def test_layer_with_the_posterior_predicts_as_dense_fitc(problem, rng):
    x_test = 1.5 * normal(rng, 9, 2)
    moments = predict(problem, x_test)
    for w in range(N_GPS):
        expected = oracle.posterior(
            *blocks(problem, w, np.arange(N_ROWS)),
            *blocks(problem, w, np.arange(9), x_test)[1:],
            problem["mean"][w].item(),
            to_array(problem["y"])[w],
            problem["noise_var"][w].item(),
        )
        for value, wanted in zip(moments, expected, strict=True):
            np.testing.assert_allclose(value[:, w].detach(), wanted, rtol=1e-8)


def test_inducing_inputs_at_the_rows_give_the_exact_gp(problem):
    """Z = X leaves no residual variance but that of the jitter: log N(y; mean, K + noise)."""
    x = problem["x"]
    changes = {"Z": x.expand(N_GPS, -1, -1), "jitter": 1e-12}
    value = fitc_log_marginal(**(problem | changes))
    for w in range(N_GPS):
        scale, variance = problem["kernel"].lengthscale[w], problem["kernel"].variance[w]
        K = covariance("matern52", to_array(x), to_array(x), to_array(scale), variance.item())
        cov = torch.from_numpy(K) + problem["noise_var"][w] * torch.eye(N_ROWS).double()
        mean = problem["mean"][w].expand(N_ROWS)
        expected = torch.distributions.MultivariateNormal(mean, cov).log_prob(problem["y"][w])
        assert value[w].item() == pytest.approx(expected.item(), rel=1e-8)


def test_row_of_weight_k_equals_k_rows(problem, rng):
    weight = torch.from_numpy(rng.integers(0, 4, N_ROWS).astype(float))
    rows = np.repeat(np.arange(N_ROWS), weight.long())
    value = fitc_log_marginal(**(problem | {"weight": weight}))
    expected = [dense_log_marginal(problem, w, rows) for w in range(N_GPS)]
    np.testing.assert_allclose(value.detach(), expected, rtol=1e-8)
    x_test = normal(rng, 9, 2)
    repeated = {"x": problem["x"][rows], "y": problem["y"][:, rows]}
    repeated["weight"] = torch.ones(len(rows)).double()
    moments = predict(problem, x_test, weight=weight)
    for value, wanted in zip(moments, predict(problem, x_test, **repeated), strict=True):
        np.testing.assert_allclose(value.detach(), wanted.detach(), rtol=1e-8)


def test_missing_targets_are_dropped(problem, rng):
    """Each GP misses rows of its own."""
    mask = torch.from_numpy((rng.random((N_GPS, N_ROWS)) < 0.6).astype(float))
    weight = torch.from_numpy(rng.integers(1, 3, N_ROWS).astype(float))
    changes = {"y": torch.where(mask > 0, problem["y"], np.nan), "mask": mask, "weight": weight}
    value = fitc_log_marginal(**(problem | changes))
    rows = [np.repeat(np.arange(N_ROWS), (mask[w] * weight).long()) for w in range(N_GPS)]
    expected = [dense_log_marginal(problem, w, rows[w]) for w in range(N_GPS)]
    np.testing.assert_allclose(value.detach(), expected, rtol=1e-8)
    x_test = normal(rng, 9, 2)
    moments = predict(problem, x_test, **changes)
    for w in range(N_GPS):
        dropped = {"x": problem["x"][rows[w]], "y": problem["y"][:, rows[w]]}
        dropped["weight"] = torch.ones(len(rows[w])).double()
        for value, wanted in zip(moments, predict(problem, x_test, **dropped), strict=True):
            np.testing.assert_allclose(value[:, w].detach(), wanted[:, w].detach(), rtol=1e-8)


def test_gradients_of_every_parameter(problem, rng):
    """In two chunks, with weights and missing targets."""
    kernel = problem["kernel"]
    weight = torch.from_numpy(rng.uniform(0.5, 2.0, N_ROWS))
    mask = torch.from_numpy((rng.random((N_GPS, N_ROWS)) < 0.8).astype(float))
    constant = problem | {"weight": weight, "mask": mask, "chunk_size": 8, "jitter": 1e-3}
    parameters = (kernel.log_lengthscale, kernel.log_variance)

    def value(mean, Z, noise_var, *_):
        return fitc_log_marginal(**(constant | {"mean": mean, "Z": Z, "noise_var": noise_var}))

    leaves = [problem[name].clone().requires_grad_() for name in ("mean", "Z", "noise_var")]
    assert gradcheck(value, (*leaves, *parameters), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("chunk_size", [1, 5, 14])
def test_chunks_do_not_change_value_gradient_or_posterior(problem, chunk_size):
    results = []
    for size in (100, chunk_size):
        Z = problem["Z"].clone().requires_grad_()
        value = fitc_log_marginal(**(problem | {"Z": Z, "chunk_size": size}))
        value.sum().backward()
        b, H = fitc_posterior(**(problem | {"chunk_size": size}))
        results.append((value.detach(), Z.grad, b, H))
    for whole, parts in zip(*results, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-10, atol=1e-12)


def saved_numbers(problem, n):
    """How many numbers the graph keeps for the backward pass with n rows in chunks of 10."""
    rows = torch.arange(n) % N_ROWS
    changes = {"x": problem["x"][rows], "y": problem["y"][:, rows], "chunk_size": 10}
    changes["weight"] = torch.ones(n).double()
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 8
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fitc_log_marginal(**(problem | changes))
    return sum(storages.values())


def test_graph_keeps_no_block_of_the_size_of_rows_times_inducing_inputs(problem):
    """x, y and weight, with one number of a row each or W, may grow with the rows; A may not."""
    growth = (saved_numbers(problem, 400) - saved_numbers(problem, 200)) / 200
    assert growth <= 2 + 3 * N_GPS < N_INDUCING * N_GPS + 2


def test_any_gpytorch_kernel_gives_the_value_of_its_stationary_twin(problem):
    kernel: Kernel = problem["kernel"]
    twin = GPyTorchKernel(
        gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5, ard_num_dims=2)), N_GPS
    ).double()
    for w in range(N_GPS):
        twin.kernels[w].outputscale = kernel.variance[w].item()
        twin.kernels[w].base_kernel.lengthscale = kernel.lengthscale[w].detach()
    value = fitc_log_marginal(**(problem | {"kernel": twin, "chunk_size": 5}))
    np.testing.assert_allclose(value.detach(), fitc_log_marginal(**problem).detach(), rtol=1e-8)
    value.sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in twin.parameters())


def test_float32_rows_give_the_value_of_float64(problem):
    """The sums run in float64, so the chunks lose no digits among each other."""
    single = {
        name: value.float() if isinstance(value, torch.Tensor) else value
        for name, value in problem.items()
    }
    double = fitc_log_marginal(**problem)
    single["kernel"] = problem["kernel"].float()
    value = fitc_log_marginal(**single)
    assert value.dtype == torch.float32
    np.testing.assert_allclose(value.detach(), double.detach(), rtol=1e-4)
