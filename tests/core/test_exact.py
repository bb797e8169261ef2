"""The exact GP against scikit-learn, repeated and dropped rows, and its two solvers."""

import copy
import pickle
from types import SimpleNamespace

import gpytorch
import numpy as np
import pytest
import torch
from linear_operator import settings
from oracles.models import normal, random_kernel, to_array
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from torch.autograd import gradcheck

from skgp.core.kernels.gpytorch_kernel import GPyTorchKernel
from skgp.core.marginal import exact
from skgp.core.marginal.exact import ExactGP
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.nodes.rules import trivial
from skgp.core.numerics import linalg
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.core.stacks.stack import GPStack
from skgp.exceptions import NotPositiveDefiniteError

CHOLESKY = ConjugateGradients(seed=0, min_rows=10_000)
# linear_operator stops to improve a solution at a relative residual of about 1e-6.
ITERATIVE = ConjugateGradients(seed=0, min_rows=0, tolerance=1e-5, rank=10)
TOLERANCE = {"rtol": 1e-7}
JITTER = 1e-15
N_GPS = 2


def make_problem(rng, n_rows, name="matern52"):
    x = torch.from_numpy(rng.uniform(-2, 2, (n_rows, 2)))
    return {
        "kernel": random_kernel(rng, name, N_GPS, 2),
        "mean": normal(rng, N_GPS),
        "x": x,
        "y": torch.sin(2 * x[:, 0]) + 0.3 * normal(rng, N_GPS, n_rows),
        "weight": torch.ones(n_rows).double(),
        "noise_var": torch.tensor([0.05, 0.2]).double(),
        "jitter": JITTER,
        "solver": CHOLESKY,
    }


@pytest.fixture
def problem(rng):
    """Arguments of two GPs with 30 rows."""
    return make_problem(rng, 30)


def rows_of(problem):
    return ObservedRows(*(problem.get(n) for n in ("x", "y", "weight", "mask", "known_noise")))


def exact_log_marginal(**problem):
    """For priors whose parameters are any tensors."""
    prior = SimpleNamespace(**{name: problem[name] for name in ("kernel", "mean", "jitter")})
    rows, solver = rows_of(problem), problem["solver"]
    return exact.exact_log_marginal(prior, rows, problem["noise_var"], solver)


def value_of(problem, **changes):
    with torch.no_grad():
        return exact_log_marginal(**(problem | changes))


def conditioned(problem, **changes):
    arguments = problem | changes
    names = ("kernel", "x", "jitter", "solver")
    gp = ExactGP(*(arguments[name] for name in names))
    with torch.no_grad():
        gp.mean.copy_(arguments["mean"])
    gp.condition(rows_of(arguments), arguments["noise_var"])
    return gp


@torch.no_grad()
def moments_of(gp, x_test):
    """Mean and variance (2, B, W)."""
    latent = gp.moments(x_test.unsqueeze(0), gp.factors())
    assert (latent.v_q == 0).all()
    return torch.cat([latent.f_mean, latent.f_var])


def known_noise(rng, n_rows):
    """Of each GP and row, from nothing to 10^6 times the learned noise."""
    return torch.from_numpy(0.1 * 10.0 ** rng.uniform(-6, 6, (N_GPS, n_rows)))


@pytest.mark.parametrize("has_known", [False, True], ids=["learned", "known"])
@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52"])
def test_scikit_learn_gives_the_same_predictions_and_likelihood(rng, name, has_known):
    problem = make_problem(rng, 30, name)
    alpha = to_array(problem["noise_var"])[:, None] * np.ones(30)
    if has_known:
        problem["known_noise"] = known_noise(rng, 30)
        alpha += to_array(problem["known_noise"])
    x_test = normal(rng, 15, 2)
    gp = conditioned(problem)
    values, moments = value_of(problem), moments_of(gp, x_test)
    np.testing.assert_allclose(gp.log_marginal(), values, rtol=1e-9)
    nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
    for w in range(N_GPS):
        scale = to_array(problem["kernel"].lengthscale[w])
        unit = RBF(scale) if name == "rbf" else Matern(scale, nu=nu[name])
        oracle = GaussianProcessRegressor(
            ConstantKernel(problem["kernel"].variance[w].item()) * unit,
            alpha=alpha[w],
            optimizer=None,
        )
        mean = problem["mean"][w].item()
        oracle.fit(to_array(problem["x"]), to_array(problem["y"])[w] - mean)
        assert values[w].item() == pytest.approx(oracle.log_marginal_likelihood(), rel=1e-8)
        f_mean, f_std = oracle.predict(to_array(x_test), return_std=True)
        np.testing.assert_allclose(moments[0, :, w], mean + f_mean, rtol=1e-6)
        np.testing.assert_allclose(moments[1, :, w].sqrt(), f_std, rtol=1e-6)


@pytest.mark.parametrize("solver", [CHOLESKY, ITERATIVE], ids=["cholesky", "iterative"])
def test_row_of_weight_k_equals_k_rows(problem, rng, solver):
    """Also with weight zero; the stochastic log-determinant is compared in a test of its own.

    Each of the k rows has the known noise of the row for itself.
    """
    weight = torch.from_numpy(rng.integers(0, 4, 30).astype(float))
    problem["known_noise"] = known_noise(rng, 30)
    rows = np.repeat(np.arange(30), weight.long())
    repeated = {name: problem[name][:, rows] for name in ("y", "known_noise")}
    repeated["x"] = problem["x"][rows]
    repeated["weight"] = torch.ones(len(rows)).double()
    if solver is CHOLESKY:
        expected = value_of(problem, **repeated)
        np.testing.assert_allclose(value_of(problem, weight=weight), expected, rtol=1e-10)
    x_test = normal(rng, 9, 2)
    moments = moments_of(conditioned(problem, weight=weight, solver=solver), x_test)
    wanted = moments_of(conditioned(problem, **repeated), x_test)
    np.testing.assert_allclose(moments, wanted, **TOLERANCE)


@pytest.mark.parametrize("solver", [CHOLESKY, ITERATIVE], ids=["cholesky", "iterative"])
def test_missing_targets_are_dropped(problem, rng, solver):
    """Each GP misses rows of its own."""
    mask = torch.from_numpy((rng.random((N_GPS, 30)) < 0.6).astype(float))
    weight = torch.from_numpy(rng.uniform(0.5, 2.0, 30))
    noise = known_noise(rng, 30)
    changes = {"y": torch.where(mask > 0, problem["y"], np.nan), "mask": mask, "weight": weight}
    changes["known_noise"] = torch.where(mask > 0, noise, 0.0)
    x_test = normal(rng, 9, 2)
    moments = moments_of(conditioned(problem, solver=solver, **changes), x_test)
    for w in range(N_GPS):
        rows = np.flatnonzero(mask[w])
        left = {"x": problem["x"][rows], "y": problem["y"][:, rows], "weight": weight[rows]}
        left["known_noise"] = noise[:, rows]
        if solver is CHOLESKY:
            expected = value_of(problem, **left)[w].item()
            assert value_of(problem, **changes)[w].item() == pytest.approx(expected, rel=1e-10)
        wanted = moments_of(conditioned(problem, **left), x_test)
        np.testing.assert_allclose(moments[..., w], wanted[..., w], **TOLERANCE)


def test_fractional_weight_is_a_power_of_the_likelihood(problem):
    """Without a kernel (variance towards zero) log p(y) = sum of weight * log N(y; mean, s2)."""
    weight = torch.linspace(0.3, 2.5, 30).double()
    with torch.no_grad():
        problem["kernel"].log_variance.fill_(-30.0)
    for w in range(N_GPS):
        scale = problem["noise_var"][w].sqrt()
        density = torch.distributions.Normal(problem["mean"][w], scale)
        expected = (weight * density.log_prob(problem["y"][w])).sum().item()
        assert value_of(problem, weight=weight)[w].item() == pytest.approx(expected, rel=1e-9)


def test_gradients_of_every_parameter_through_the_cholesky_factor(rng):
    """With weights, missing targets and known noise."""
    problem = make_problem(rng, 12) | {"known_noise": known_noise(rng, 12)}
    kernel = problem["kernel"]
    problem["weight"] = torch.from_numpy(rng.uniform(0.5, 2.0, 12))
    problem["mask"] = torch.from_numpy((rng.random((N_GPS, 12)) < 0.8).astype(float))

    def value(mean, noise_var, *_):
        return exact_log_marginal(**(problem | {"mean": mean, "noise_var": noise_var}))

    leaves = [problem[name].clone().requires_grad_() for name in ("mean", "noise_var")]
    assert gradcheck(value, (*leaves, kernel.log_lengthscale, kernel.log_variance), rtol=1e-5)


@pytest.mark.parametrize("ratio", [1e-9, 1e-3, 1.0])
def test_predictions_with_and_without_a_stored_inverse(rng, ratio):
    problem = make_problem(rng, 150)
    problem["noise_var"] = ratio * problem["kernel"].variance.detach()
    x_test = torch.from_numpy(rng.uniform(-2, 2, (40, 2)))
    groups = x_test.unflatten(0, (20, 2))
    stored, solved = (conditioned(problem | {"solver": s}) for s in (CHOLESKY, ITERATIVE))
    assert (stored.L_inv is None, solved.L_inv is None) == (False, True)
    with torch.no_grad():
        np.testing.assert_allclose(
            moments_of(solved, x_test), moments_of(stored, x_test), rtol=1e-4
        )
        wanted, joint = (gp.covariance(groups, gp.factors()) for gp in (stored, solved))
        largest = float(wanted.diagonal(dim1=-2, dim2=-1).max())
        np.testing.assert_allclose(joint, wanted, rtol=0, atol=1e-4 * largest)
        np.testing.assert_allclose(solved.log_marginal(), stored.log_marginal(), rtol=1e-8)


def test_a_factor_is_computed_once_for_many_predictions(problem, rng, monkeypatch):
    gp, seen = conditioned(problem, solver=ITERATIVE), []

    def counted(K, jitter):
        seen.append(K.shape)
        return linalg.cholesky(K, jitter)

    monkeypatch.setattr(exact, "cholesky", counted)
    for x in normal(rng, 3, 2):
        gp.moments(x[None, None], gp.known_factors())
    assert len(seen) == 1
    assert "_kept" not in vars(copy.deepcopy(gp))
    gp.alpha.mul_(2.0)
    gp.known_factors()
    assert len(seen) == 2


def gradients(problem, solver):
    """Log marginal likelihood of each GP and its derivatives in mean, noise and kernel."""
    leaves = {name: problem[name].clone().requires_grad_() for name in ("mean", "noise_var")}
    value = exact_log_marginal(**(problem | leaves | {"solver": solver}))
    inputs = [*leaves.values(), *problem["kernel"].parameters()]
    slopes = torch.autograd.grad(value.sum(), inputs)
    return torch.cat([value.detach(), *(slope.flatten() for slope in slopes)])


def test_stochastic_likelihood_and_gradient_agree_with_the_cholesky_factor(rng):
    """Mean over 20 seeds within four standard errors, with weights, missing targets, known noise.

    What does not hang on the probes (the derivative in the mean) has no standard error, hence the
    relative 1e-4.
    """
    problem = make_problem(rng, 150) | {"jitter": 1e-3}
    problem["weight"] = torch.from_numpy(rng.uniform(0.5, 2.0, 150))
    problem["mask"] = torch.from_numpy((rng.random((N_GPS, 150)) < 0.9).astype(float))
    problem["known_noise"] = known_noise(rng, 150)
    exact = gradients(problem, CHOLESKY)
    draws = torch.stack(
        [
            gradients(problem, ConjugateGradients(seed, 0, tolerance=1e-5, rank=10))
            for seed in range(20)
        ]
    )
    error = draws.std(0) / 20**0.5
    assert (error < 0.1 * exact.abs().max()).all()
    assert ((draws.mean(0) - exact).abs() < 4.0 * error + 1e-4 * exact.abs()).all()


def test_small_noise_leaves_no_bias_in_the_log_determinant(rng):
    """Noise of a thousandth of the variance: the Lanczos steps have to resolve the spectrum."""
    problem = make_problem(rng, 200)
    problem["noise_var"] = 1e-4 * problem["kernel"].variance.detach()
    exact = value_of(problem)
    draws = torch.stack(
        [value_of(problem, solver=ConjugateGradients(seed, 0, rank=30)) for seed in range(8)]
    )
    error = draws.std(0) / 8**0.5
    assert ((draws.mean(0) - exact).abs() < 4.0 * error).all()


@pytest.mark.parametrize(
    ("poor", "rich"),
    [({"n_probes": 2}, {"n_probes": 50}), ({"rank": 1}, {"rank": 60})],
    ids=["probes", "preconditioner"],
)
def test_probes_and_preconditioner_narrow_the_estimate(rng, poor, rich):
    """The standard deviation over 15 seeds falls by more than half."""
    problem = make_problem(rng, 100)

    def spread(**changes):
        arguments = {"min_rows": 0, "tolerance": 1e-4, "rank": 10} | changes
        solvers = (ConjugateGradients(seed, **arguments) for seed in range(15))
        return torch.stack([value_of(problem, solver=solver) for solver in solvers]).std(0)

    assert (spread(**rich) < 0.5 * spread(**poor)).all()


def test_same_seed_gives_the_same_estimate_and_another_seed_another(problem):
    solver = ConjugateGradients(3, 0, rank=5)
    first = value_of(problem, solver=solver)
    torch.rand(5)
    assert torch.equal(first, value_of(problem, solver=solver))
    other = value_of(problem, solver=ConjugateGradients(4, 0, rank=5))
    assert (other - first).abs().min() > 1e-6


def test_solver_leaves_generator_and_settings_as_they_were(problem):
    watched = (
        settings.cg_tolerance,
        settings.max_cg_iterations,
        settings.max_cholesky_size,
        settings.max_preconditioner_size,
        settings.min_preconditioning_size,
        settings.max_lanczos_quadrature_iterations,
        settings.num_trace_samples,
    )
    before = [setting.value() for setting in watched]
    state = torch.get_rng_state()
    value_of(problem, solver=ITERATIVE)
    moments_of(conditioned(problem, solver=ITERATIVE), problem["x"])
    assert torch.equal(torch.get_rng_state(), state)
    assert [setting.value() for setting in watched] == before


def test_iterative_solver_takes_over_at_min_rows(problem):
    stays, takes = ConjugateGradients(0, min_rows=31), ConjugateGradients(0, min_rows=30)
    assert torch.equal(value_of(problem, solver=stays), value_of(problem))
    assert not torch.equal(value_of(problem, solver=takes), value_of(problem))
    assert ExactGP(problem["kernel"], problem["x"], JITTER, stays).L_inv is not None
    assert ExactGP(problem["kernel"], problem["x"], JITTER, takes).L_inv is None


@pytest.mark.parametrize("solver", [CHOLESKY, ITERATIVE], ids=["cholesky", "iterative"])
def test_without_targets_the_prediction_is_the_prior(problem, solver):
    gp = ExactGP(problem["kernel"], problem["x"], JITTER, solver)
    moments = moments_of(gp, problem["x"])
    assert (moments[0] == 0).all()
    np.testing.assert_allclose(moments[1], gp.kernel.variance.detach().expand(30, -1), rtol=1e-12)
    assert gp.kl(gp.factors()).item() == 0.0


def test_nodes_and_a_stack_see_a_layer(problem, rng):
    """Moments at (Q, B, D) are those of each node; a stack of one exact GP is that GP."""
    gp = conditioned(problem)
    x_test = normal(rng, 3, 4, 2)
    with torch.no_grad():
        latent = gp.moments(x_test, gp.factors())
        for q in range(3):
            np.testing.assert_allclose(
                torch.stack([latent.f_mean[q], latent.f_var[q]]), moments_of(gp, x_test[q])
            )
        stack = GPStack([gp])
        of_stack = stack(x_test[0], trivial(x_test[0]), stack.factors())
    np.testing.assert_allclose(of_stack.f_mean[0], latent.f_mean[0])


@pytest.mark.parametrize("solver", [CHOLESKY, ITERATIVE], ids=["cholesky", "iterative"])
def test_copies_predict_the_same(problem, rng, solver):
    gp = conditioned(problem, solver=solver)
    x_test = normal(rng, 9, 2)
    wanted = moments_of(gp, x_test)
    fresh = ExactGP(random_kernel(rng, "matern52", N_GPS, 2), 0 * problem["x"], JITTER, solver)
    fresh.load_state_dict(gp.state_dict())
    for twin in (pickle.loads(pickle.dumps(gp)), copy.deepcopy(gp), fresh):
        np.testing.assert_array_equal(moments_of(twin, x_test), wanted)
    single = copy.deepcopy(gp).float()
    moments = moments_of(single, x_test.float())
    assert moments.dtype == torch.float32
    np.testing.assert_allclose(moments, wanted, atol=1e-3)
    np.testing.assert_allclose(moments_of(single.double(), x_test), wanted, atol=1e-3)


def test_any_gpytorch_kernel_gives_the_value_of_its_stationary_twin(problem, rng):
    kernel = problem["kernel"]
    twin = GPyTorchKernel(
        gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5, ard_num_dims=2)), N_GPS
    ).double()
    for w in range(N_GPS):
        twin.kernels[w].outputscale = kernel.variance[w].item()
        twin.kernels[w].base_kernel.lengthscale = kernel.lengthscale[w].detach()
    np.testing.assert_allclose(value_of(problem, kernel=twin), value_of(problem), rtol=1e-8)
    x_test = normal(rng, 9, 2)
    wanted = moments_of(conditioned(problem), x_test)
    for solver in (CHOLESKY, ITERATIVE):
        moments = moments_of(conditioned(problem, kernel=twin, solver=solver), x_test)
        np.testing.assert_allclose(moments, wanted, **TOLERANCE)


@pytest.mark.parametrize("solver", [CHOLESKY, ITERATIVE], ids=["cholesky", "iterative"])
def test_a_row_of_endless_known_noise_tells_nothing(problem, rng, solver):
    """Beside log N(y; 0, noise), and whatever jitter there is: its row is as long as the others."""
    problem |= {"jitter": 1e-10, "known_noise": known_noise(rng, 30)}
    left = {name: problem[name][:, 1:] for name in ("y", "known_noise")}
    left |= {"x": problem["x"][1:], "weight": problem["weight"][1:]}
    problem["known_noise"][:, 0], problem["y"][:, 0] = 1e24, 1e6
    x_test = normal(rng, 9, 2)
    moments = moments_of(conditioned(problem, solver=solver), x_test)
    wanted = moments_of(conditioned(problem, **left), x_test)
    np.testing.assert_allclose(moments, wanted, **TOLERANCE)
    if solver is CHOLESKY:
        alone = -0.5 * np.log(2.0 * np.pi * 1e24)
        np.testing.assert_allclose(value_of(problem), value_of(problem, **left) + alone, rtol=1e-9)


def test_matrix_without_a_cholesky_factor_is_an_error(problem):
    problem["x"][3] = np.nan
    with pytest.raises(NotPositiveDefiniteError, match="non-finite"):
        value_of(problem)
