"""What comes out of a fitted regressor with one output."""

import pickle
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from contract_cases import (
    ONE_OUTPUT,
    ONE_PER_CLASS,
    REGRESSORS,
    Case,
    Data,
    for_functions,
    for_gps,
    for_inducing,
    for_latents,
    for_no_functions,
    for_normals,
    rows_have_draws,
)
from scipy import stats
from sklearn.exceptions import NotFittedError

pytestmark = pytest.mark.usefixtures("short_start")

CASES = REGRESSORS + ONE_OUTPUT
QUICK = ONE_PER_CLASS
CHUNK = 2048  # rows that prediction takes at a time

GP_PROPERTIES = ("lengthscales_", "stack_")


@pytest.fixture(scope="module")
def model(make: Any, data: Data) -> Any:
    return make().fit(data.X, data.y)


def test_mean_and_deviation_are_those_of_the_distribution(model: Any, data: Data) -> None:
    dist = model.predict_dist(data.X_new)
    mean, std = model.predict(data.X_new, return_std=True)
    assert mean.shape == std.shape == dist.shape == (25,)
    assert mean.dtype == std.dtype == np.float64
    for array in (mean, model.predict(data.X_new)):
        np.testing.assert_array_equal(array, dist.mean())
    np.testing.assert_array_equal(std, dist.std())
    assert model.score(data.X_new, data.y_new) > 0.7


@for_functions
def test_covariance_over_rows(case: Case, model: Any, data: Data) -> None:
    """As scikit-learn's Gaussian process returns it."""
    mean, std = model.predict(data.X_new, return_std=True)
    again, cov = model.predict(data.X_new, return_cov=True)
    np.testing.assert_array_equal(again, mean)
    assert cov.shape == (25, 25)
    np.testing.assert_allclose(cov, cov.T, rtol=1e-10, atol=1e-12)
    ratio = np.diagonal(cov) / np.square(std)
    # Of hidden functions that are sampled there are few draws here.
    tol = 2.0 if rows_have_draws(case.make()) else 1e-9
    np.testing.assert_allclose(ratio, 1.0, atol=tol)
    assert np.linalg.eigvalsh(cov).min() > 0.9 * model.noise_variance_
    # The function is the same at a row that is repeated, the noise is not.
    twice = np.concatenate([data.X_new[:3]] * 2)
    cov = model.predict(twice, return_cov=True)[1]
    np.testing.assert_allclose(
        cov[:3, 3:] + model.noise_variance_ * np.eye(3), cov[:3, :3], rtol=1e-5
    )


@for_no_functions
def test_no_covariance_over_rows(model: Any, data: Data) -> None:
    with pytest.raises(NotImplementedError, match=r"predict_dist\(X\).cov\(\) is the covariance"):
        model.predict(data.X_new, return_cov=True)
    with pytest.raises(NotImplementedError, match=r"predict_dist\(X\).rvs\(n_samples\) draws"):
        model.sample_y(data.X_new)
    for method in ("sample_functions", "sample_prior_functions"):
        if hasattr(model, method):
            with pytest.raises(NotImplementedError, match="cannot be drawn as a function of x"):
                getattr(model, method)()


@for_functions
def test_draws_are_functions(model: Any, data: Data) -> None:
    for f in (model.sample_functions(4), model.sample_prior_functions(4)):
        values = f(data.X_new)
        assert values.shape == (25, 4)
        assert np.isfinite(values).all()
        np.testing.assert_allclose(f(data.X_new[3:7]), values[3:7], rtol=1e-9)
        one_more = pickle.loads(pickle.dumps(f))
        np.testing.assert_array_equal(one_more(data.X_new), values)
        near = f(data.X_new + 1e-6)
        np.testing.assert_allclose(near, values, rtol=0, atol=0.05 * data.y.std())
    again, other = model.sample_functions(4), model.sample_functions(4, random_state=1)
    np.testing.assert_array_equal(again(data.X_new), model.sample_functions(4)(data.X_new))
    assert (again(data.X_new) != other(data.X_new)).all()


@for_functions
def test_draws_have_slopes(model: Any, data: Data) -> None:
    f = model.sample_functions(2)
    x = torch.tensor(data.X_new[:2], requires_grad=True)
    values = f.evaluate(x)
    np.testing.assert_allclose(values.detach().numpy(), f(data.X_new[:2]), rtol=1e-12)
    values[:, 1].sum().backward()
    for column in range(3):
        step = np.zeros(3)
        step[column] = 1e-5
        slope = (f(data.X_new[:2] + step) - f(data.X_new[:2] - step))[:, 1] / 2e-5
        np.testing.assert_allclose(x.grad[:, column].numpy(), slope, rtol=1e-4, atol=1e-6)
    assert all(p.grad is None for p in model.model_.parameters())


@for_gps
def test_posterior_at_tensors(model: Any, data: Data) -> None:
    """Moments of `predict_latent` in batches of rows, and their slopes."""
    posterior, latent = model.posterior(), model.predict_latent(data.X_new)
    x = torch.tensor(data.X_new.reshape(5, 5, 3), requires_grad=True)
    moments = posterior.mean_and_std(x)
    for actual, expected in zip(moments, (latent.mean(), latent.std()), strict=True):
        assert actual.shape == (5, 5)
        np.testing.assert_allclose(actual.detach().numpy().ravel(), expected, rtol=1e-10)
    few = torch.tensor(data.X_new[None, :2], requires_grad=True)
    assert torch.autograd.gradcheck(posterior.mean_and_std, few, eps=1e-5, rtol=1e-4)
    assert all(p.grad is None for p in model.model_.parameters())
    again = pickle.loads(pickle.dumps(posterior)).mean_and_std(x)
    assert all(map(torch.equal, again, moments))
    with pytest.raises(ValueError, match=r"x has the shape \(25, 2\)"):
        posterior.mean_and_std(torch.tensor(data.X_new[:, :2]))


@for_functions
def test_covariance_of_the_posterior(model: Any, data: Data) -> None:
    """That of `return_cov`, without the noise, and its slopes."""
    posterior = model.posterior()
    x = torch.tensor(data.X_new.reshape(5, 5, 3))
    mean, cov = posterior.mean_and_cov(x)
    assert mean.shape == (5, 5)
    for rows, actual in zip(x.numpy(), cov.numpy(), strict=True):
        _, expected = model.predict(rows, return_cov=True)
        noise = model.noise_variance_ * np.eye(5)
        np.testing.assert_allclose(actual + noise, expected, rtol=1e-7, atol=1e-9)
    few = x[:1, :2].clone().requires_grad_()
    assert torch.autograd.gradcheck(posterior.mean_and_cov, few, eps=1e-5, rtol=1e-4)


@for_no_functions
def test_posterior_without_a_covariance(model: Any, data: Data) -> None:
    if hasattr(model, "posterior"):
        with pytest.raises(NotImplementedError, match="no covariance over rows"):
            model.posterior().mean_and_cov(torch.tensor(data.X_new))


def test_predict_proba_is_predict_dist(model: Any, data: Data) -> None:
    a, b = model.predict_proba(data.X_new), model.predict_dist(data.X_new)
    assert type(a) is type(b)
    for left, right in zip(a.components()[:3], b.components()[:3], strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(np.asarray(a), model.predict(data.X_new))


def test_quantiles_invert_the_distribution(model: Any, data: Data) -> None:
    dist = model.predict_dist(data.X_new)
    q = np.array([0.05, 0.5, 0.9])
    quantiles = model.predict_quantiles(data.X_new, q)
    assert quantiles.shape == (25, 3)
    for column, level in zip(quantiles.T, q, strict=True):
        np.testing.assert_allclose(dist.cdf(column), level, atol=1e-9)
        np.testing.assert_array_equal(model.predict_quantiles(data.X_new, level), column)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_hold_their_probability(model: Any, data: Data, coverage: float) -> None:
    dist = model.predict_dist(data.X_new)
    lower, upper = model.predict_interval(data.X_new, coverage)
    np.testing.assert_allclose(dist.cdf(upper) - dist.cdf(lower), coverage, atol=1e-9)
    np.testing.assert_allclose(dist.cdf(lower), (1.0 - coverage) / 2.0, atol=1e-9)


def test_levels_and_coverages_at_the_ends(model: Any, data: Data) -> None:
    with pytest.raises(ValueError, match=r"q is empty: pass one level in \[0, 1\] or more"):
        model.predict_quantiles(data.X_new, [])
    median = model.predict_quantiles(data.X_new, 0.5)
    for end, infinity in ((0, -np.inf), (1, np.inf)):
        np.testing.assert_array_equal(model.predict_interval(data.X_new, 0.0)[end], median)
        assert (model.predict_interval(data.X_new, 1.0)[end] == infinity).all()
    assert "coverage : float in [0, 1]" in type(model).predict_interval.__doc__
    with pytest.raises(ValueError, match=r"coverage must be a number in \[0, 1\]"):
        model.predict_interval(data.X_new, 1.1)


def test_the_default_interval_holds_nine_tenths(model: Any, data: Data) -> None:
    np.testing.assert_array_equal(
        model.predict_interval(data.X_new), model.predict_interval(data.X_new, 0.9)
    )


def test_predictions_are_calibrated_on_new_rows(make: Any, data: Data) -> None:
    """Coverage within four standard errors, with room for the error of so small a fit."""
    model = make(max_iter=60).fit(data.X, data.y)
    lower, upper = model.predict_interval(data.X_new, 0.8)
    covered = np.mean((lower < data.y_new) & (data.y_new < upper))
    assert abs(covered - 0.8) < 4.0 * np.sqrt(0.8 * 0.2 / 25)


@for_functions
def test_samples_are_joint_over_rows(case: Case, model: Any, data: Data) -> None:
    """At two rows that are nearly one only the noise differs."""
    has_draws = rows_have_draws(case.make())
    size = 300 if has_draws else 4000
    X = np.concatenate([data.X_new[:5], data.X_new[:5] + 1e-6])
    draws = model.sample_y(X, size, random_state=3)
    assert draws.shape == (10, size)
    difference = (draws[:5] - draws[5:]).var(axis=1)
    ratio = difference / (2.0 * model.noise_variance_)
    assert (np.abs(ratio - 1.0) < 4.5 * np.sqrt(2.0 / size)).all()
    if has_draws:  # the few nodes of a prediction here are no measure
        return
    mean, std = model.predict(X, return_std=True)
    assert (np.abs(draws.mean(axis=1) - mean) < 4.5 * std / np.sqrt(size)).all()
    assert (np.abs(draws.std(axis=1) / std - 1.0) < 4.5 / np.sqrt(2 * size)).all()


@for_functions
def test_samples_follow_their_random_state(model: Any, data: Data) -> None:
    draws = model.sample_y(data.X_new, 2)
    assert model.sample_y(data.X_new).shape == (25, 1)
    np.testing.assert_array_equal(draws, model.sample_y(data.X_new, 2, random_state=0))
    assert (draws != model.sample_y(data.X_new, 2, random_state=1)).all()
    state = np.random.RandomState(0)
    first = model.sample_y(data.X_new, 2, random_state=state)
    assert (first != model.sample_y(data.X_new, 2, random_state=state)).all()


@for_gps
def test_latent_variance_and_noise_add_up(model: Any, data: Data) -> None:
    dist, latent = model.predict_dist(data.X_new), model.predict_latent(data.X_new)
    np.testing.assert_allclose(latent.mean(), dist.mean(), rtol=1e-12)
    np.testing.assert_allclose(latent.var() + model.noise_variance_, dist.var(), rtol=1e-9)


def test_rows_do_not_influence_each_other(model: Any, data: Data) -> None:
    mean, std = model.predict(data.X_new, return_std=True)
    order = np.random.default_rng(0).permutation(len(data.X_new))
    shuffled_mean, shuffled_std = model.predict(data.X_new[order], return_std=True)
    np.testing.assert_allclose(shuffled_mean, mean[order], rtol=1e-12)
    np.testing.assert_allclose(shuffled_std, std[order], rtol=1e-10)
    for row in range(5):
        one_mean, one_std = model.predict(data.X_new[[row]], return_std=True)
        np.testing.assert_allclose(one_mean, mean[[row]], rtol=1e-12)
        np.testing.assert_allclose(one_std, std[[row]], rtol=1e-10)


def test_chunks_leave_no_seam(model: Any, data: Data) -> None:
    rng = np.random.default_rng(0)
    X = data.X_new[rng.integers(0, 25, size=2 * CHUNK + 3)]
    mean, std = model.predict(X, return_std=True)
    for rows in (slice(0, CHUNK), slice(CHUNK - 5, CHUNK + 5), slice(2 * CHUNK, None)):
        part_mean, part_std = model.predict(X[rows], return_std=True)
        np.testing.assert_allclose(part_mean, mean[rows], rtol=1e-9)
        np.testing.assert_allclose(part_std, std[rows], rtol=1e-9)
    assert len(mean) == len(X)


@for_latents
@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32", "matern52"])
def test_far_from_the_data_the_prior_remains(
    case: Case, make: Any, data: Data, kernel: str
) -> None:
    case.skip_if_a_network_is_the_mean()
    model = make(kernel=kernel, max_iter=5).fit(data.X, data.y)
    far = np.full((1, 3), 1e7)
    latent_variance = model.predict_latent(far).var()
    top = model.stack_.top
    kernel_variance = top.kernel.variance.item() * data.y.var()
    np.testing.assert_allclose(latent_variance, kernel_variance, rtol=1e-6)
    np.testing.assert_allclose(
        model.predict_dist(far).var(), kernel_variance + model.noise_variance_, rtol=1e-6
    )
    prior_mean = data.y.mean() + data.y.std() * top.mean.item()
    np.testing.assert_allclose(model.predict(far), prior_mean, rtol=1e-6)
    # Where there are data, something is known; the nodes of hidden layers differ only there.
    assert (model.predict_latent(data.X).components().std ** 2 < latent_variance).all()


@for_normals
def test_distributions_are_normal(model: Any, data: Data) -> None:
    """Without hidden layers a row has one component (parametric GP paper, Eqn 11)."""
    dist = model.predict_dist(data.X_new)
    mean, std = dist.mean(), dist.std()
    np.testing.assert_allclose(
        dist.logpdf(data.y_new), stats.norm.logpdf(data.y_new, mean, std), rtol=1e-9
    )


def test_noise_variance_of_one_output_is_a_number(model: Any) -> None:
    assert isinstance(model.noise_variance_, float)
    assert model.noise_variance_ > 0.0


def test_units_of_the_noise_variance(make: Any, data: Data) -> None:
    factor, offset, y_factor = np.array([10.0, 1e-3, 1e5]), np.array([0.0, 5.0, -7.0]), 1e3
    params = {"dtype": "float64", "max_iter": 5}
    model = make(**params).fit(data.X, data.y)
    moved = make(**params).fit(data.X * factor + offset, data.y * y_factor)
    np.testing.assert_allclose(
        moved.noise_variance_, model.noise_variance_ * y_factor**2, rtol=1e-5
    )


@for_gps
def test_units_of_the_fitted_attributes_of_a_gp(case: Case, data: Data) -> None:
    factor, offset = np.array([10.0, 1e-3, 1e5]), np.array([0.0, 5.0, -7.0])
    params = {"dtype": "float64", "max_iter": 5}
    model = case.make(**params).fit(data.X, data.y)
    moved = case.make(**params).fit(data.X * factor + offset, data.y)
    assert model.lengthscales_.shape == (*case.functions, 3)
    np.testing.assert_allclose(moved.lengthscales_, model.lengthscales_ * factor, rtol=1e-5)


@for_inducing
def test_units_of_the_inducing_inputs(case: Case, data: Data) -> None:
    factor, offset = np.array([10.0, 1e-3, 1e5]), np.array([0.0, 5.0, -7.0])
    params = {"dtype": "float64", "max_iter": 5}
    model = case.make(**params).fit(data.X, data.y)
    moved = case.make(**params).fit(data.X * factor + offset, data.y)
    assert model.inducing_points_.shape == (*case.functions, 15, 3)
    np.testing.assert_allclose(
        moved.inducing_points_, model.inducing_points_ * factor + offset, rtol=1e-5
    )


@for_inducing
@pytest.mark.usefixtures("no_steps")
def test_inducing_inputs_start_at_the_rows_if_there_are_enough(make: Any, data: Data) -> None:
    model = make(n_inducing=100, max_iter=1).fit(data.X, data.y)
    rows = data.X[np.lexsort(data.X.T[::-1])]
    for Z in model.inducing_points_.reshape(-1, 60, 3):
        order = np.lexsort(Z.T[::-1])
        np.testing.assert_allclose(Z[order], rows, rtol=1e-5, atol=1e-4)


@for_inducing
def test_inducing_inputs_cover_the_data(model: Any, data: Data) -> None:
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    margin = high - low
    assert (
        (model.inducing_points_ > low - margin) & (model.inducing_points_ < high + margin)
    ).all()
    assert (np.ptp(model.inducing_points_, axis=-2) > 0.3 * margin).all()


@for_gps
@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52"])
def test_lengthscales_describe_the_kernel(make: Any, data: Data, name: str) -> None:
    """The kernel on scaled inputs is gpytorch's on the user's, with these lengthscales."""
    model = make(kernel=name, max_iter=5).fit(data.X, data.y)
    ard = {"ard_num_dims": 3}
    nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
    kernel = (
        gpytorch.kernels.MaternKernel(nu=nu[name], **ard)
        if name in nu
        else gpytorch.kernels.RBFKernel(**ard)
    ).double()
    scaled = [
        torch.from_numpy((X - data.X.mean(axis=0)) / data.X.std(axis=0))
        for X in (data.X[:5], data.X_new[:7])
    ]
    blocks = model.stack_.bottom.kernel.Kuf(scaled[0][None], scaled[1])
    for lengthscales, actual in zip(np.atleast_2d(model.lengthscales_), blocks, strict=True):
        kernel.lengthscale = torch.from_numpy(lengthscales.copy())
        desired = kernel(*map(torch.tensor, (data.X[:5], data.X_new[:7]))).to_dense()
        np.testing.assert_allclose(actual.detach(), desired.detach(), rtol=1e-6, atol=1e-9)


def test_model_is_a_torch_module_in_float64(model: Any) -> None:
    assert isinstance(model.model_, torch.nn.Module)
    assert {p.dtype for p in model.model_.parameters()} == {torch.float64}


@for_gps
def test_stack_is_a_part_of_the_model(model: Any) -> None:
    assert model.stack_ is model.model_.stack


def test_record_of_the_fit(case: Case, make: Any, data: Data) -> None:
    """A fit that starts at an optimum of the bound first leaves it, and needs some steps.

    A Markov chain that starts near the mode leaves it for good.
    """
    model = make(max_iter=15).fit(data.X, data.y)
    assert model.n_iter_ == len(model.loss_curve_) == 15
    assert case.name == "sghmc-one" or model.loss_curve_[-1] < model.loss_curve_[0]
    assert model.n_outputs_ == 1
    assert model.n_features_in_ == 3
    assert model.validation_scores_ is None
    assert model.best_validation_score_ is None


def test_the_noise_variance_needs_a_fit(make: Any, data: Data) -> None:
    assert_needs_a_fit("noise_variance_", make(max_iter=1), data)


@for_gps
@pytest.mark.parametrize("name", GP_PROPERTIES)
def test_properties_of_a_gp_need_a_fit(make: Any, data: Data, name: str) -> None:
    assert_needs_a_fit(name, make(max_iter=1), data)


@for_inducing
def test_inducing_inputs_need_a_fit(make: Any, data: Data) -> None:
    assert_needs_a_fit("inducing_points_", make(max_iter=1), data)


def assert_needs_a_fit(name: str, model: Any, data: Data) -> None:
    with pytest.raises(NotFittedError):
        getattr(model, name)
    assert not hasattr(model, name)  # NotFittedError is an AttributeError
    assert hasattr(model.fit(data.X, data.y), name)


@pytest.mark.parametrize("spoilt", [False, True], ids=["new", "after a failed fit"])
@pytest.mark.parametrize("method", ["predict", "predict_dist", "predict_proba", "sample_y"])
def test_prediction_needs_a_fit(make: Any, data: Data, method: str, spoilt: bool) -> None:
    assert_refuses_to_predict(make(), method, data, spoilt)


@for_gps
def test_prediction_of_the_latent_function_needs_a_fit(make: Any, data: Data) -> None:
    assert_refuses_to_predict(make(), "predict_latent", data, spoilt=False)


def assert_refuses_to_predict(model: Any, method: str, data: Data, spoilt: bool) -> None:
    if spoilt:
        with pytest.raises(ValueError, match="y contains NaN"):
            model.fit(data.X, np.full(len(data.X), np.nan))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(model, method)(data.X)


def test_prediction_changes_nothing(model: Any, data: Data) -> None:
    names = set(vars(model))
    state = {name: value.clone() for name, value in model.model_.state_dict().items()}
    first = model.predict_dist(data.X_new)
    for method in ("predict", "predict_interval"):
        getattr(model, method)(data.X_new)
    if model.model_.has_gp_latents:
        model.sample_y(data.X_new)
    if hasattr(model, "predict_latent"):
        model.predict_latent(data.X_new)
    again = model.predict_dist(data.X_new)
    np.testing.assert_array_equal(first.mean(), again.mean())
    np.testing.assert_array_equal(first.std(), again.std())
    assert set(vars(model)) == names
    assert all(torch.equal(state[k], value) for k, value in model.model_.state_dict().items())
