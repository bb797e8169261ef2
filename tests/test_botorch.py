"""Fitted estimators in BoTorch's acquisition functions; needs the extra `bo`."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

pytest.importorskip("botorch", reason="needs the extra bo, which the checks do not install")

from botorch.acquisition import (
    LogExpectedImprovement,
    UpperConfidenceBound,
    qExpectedImprovement,
    qLogExpectedImprovement,
)
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.optim import optimize_acqf
from botorch.sampling.index_sampler import IndexSampler

from skgp import DGPRegressor, MOGPRegressor, SVGPRegressor
from skgp.botorch import EstimatorModel

LOWEST = 0.398
UNIT_SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
# What BoTorch and its optimisers warn of is not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")


def branin(X):
    """On the unit square, with three minima of 0.398."""
    a, b = 15.0 * X[:, 0] - 5.0, 15.0 * X[:, 1]
    valley = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0


X = np.random.default_rng(0).uniform(size=(40, 2))
Y = np.column_stack([-branin(X), 100.0 * X[:, 0] - 0.5 * branin(X)])
BATCHES = torch.tensor(np.random.default_rng(1).uniform(size=(2, 3, 4, 2)))  # b1 x b2 x q x d


@pytest.fixture(scope="module")
def model():
    return SVGPRegressor(n_inducing=20, random_state=0).fit(X, Y[:, 0])


@pytest.fixture(scope="module")
def deep():
    params = {"n_inducing": 10, "max_iter": 20, "early_stopping": False, "random_state": 0}
    return DGPRegressor(width=2, **params).fit(X, Y)


@pytest.mark.parametrize("noisy", [False, True])
def test_posterior_is_that_of_the_estimator(model, noisy):
    posterior = EstimatorModel(model).posterior(BATCHES, observation_noise=noisy)
    assert posterior.mean.shape == posterior.variance.shape == (2, 3, 4, 1)
    rows = BATCHES[1, 2].numpy()
    mean, cov = model.predict(rows, return_cov=True)
    cov -= (not noisy) * model.noise_variance_ * np.eye(4)
    np.testing.assert_allclose(posterior.mean[1, 2, :, 0], mean, rtol=1e-10)
    matrix = posterior.distribution.covariance_matrix[1, 2]
    np.testing.assert_allclose(matrix, cov, rtol=1e-7, atol=1e-9)


def test_samples_of_several_outputs_have_their_covariances():
    """In standard errors: of rows, of outputs, and of both, noise included."""
    estimator = SVGPRegressor(n_inducing=20, max_iter=20, random_state=0).fit(X, Y)
    model, rows, n = EstimatorModel(estimator), 1.0 + BATCHES[0, 0, :3], 20_000
    assert model.num_outputs == 2
    posterior = model.posterior(rows, observation_noise=True)
    _, f_cov = estimator.posterior().mean_and_cov(rows)
    cov = f_cov.numpy().reshape(6, 6) + np.diag(np.tile(estimator.noise_variance_, 3))
    torch.manual_seed(0)
    draws = posterior.rsample(torch.Size([n])).numpy().reshape(n, 6)
    error = np.sqrt((np.outer(np.diagonal(cov), np.diagonal(cov)) + cov**2) / n)
    assert (np.abs(np.cov(draws.T) - cov) < 5.0 * error).all()
    assert np.abs(cov[0, 1]) > 20.0 * error[0, 1]
    noise = posterior.variance - model.posterior(rows).variance
    np.testing.assert_allclose(noise, [estimator.noise_variance_] * 3, rtol=1e-7)
    second = model.posterior(rows, output_indices=[1])
    np.testing.assert_allclose(second.mean, posterior.mean[:, 1:], rtol=1e-12)
    np.testing.assert_allclose(
        second.variance, estimator.predict_latent(rows).var()[:, 1:], rtol=1e-9
    )
    assert torch.equal(model.posterior(rows, output_indices=[-1]).mean, second.mean)
    with pytest.raises(IndexError):
        model.posterior(rows, output_indices=[2])
    part = model.subset_output([1])
    assert (part.num_outputs, model.num_outputs) == (1, 2)
    assert torch.equal(part.posterior(rows).mean, second.mean)
    weights = torch.tensor([1.0, 2.0]).double()
    both = model.posterior(rows, posterior_transform=ScalarizedPosteriorTransform(weights))
    expected = np.einsum("p,ipir,r->i", weights, f_cov, weights)
    np.testing.assert_allclose(both.variance[:, 0], expected, rtol=1e-9)


def test_acquisition_functions_have_their_textbook_values(model):
    wrapped, x = EstimatorModel(model), BATCHES[0, :, :1]
    latent = model.predict_latent(x[:, 0].numpy())
    mean, std = latent.mean(), latent.std()
    best = mean.min()
    z = (mean - best) / std
    expected = np.log(std * (z * norm.cdf(z) + norm.pdf(z)))
    np.testing.assert_allclose(LogExpectedImprovement(wrapped, best)(x), expected, rtol=1e-6)
    bound = UpperConfidenceBound(wrapped, beta=4.0)(x)
    np.testing.assert_allclose(bound, mean + 2.0 * std, rtol=1e-9)


def test_a_deep_model_is_an_ensemble_of_its_functions(deep):
    wrapped = EstimatorModel(deep, n_samples=16, random_state=3)
    posterior = wrapped.posterior(BATCHES)
    assert posterior.values.shape == (2, 3, 16, 4, 2)
    values = deep.sample_functions(16, random_state=3)(BATCHES[1, 2].numpy())  # (n, P, S)
    np.testing.assert_allclose(posterior.values[1, 2], values.transpose(2, 0, 1), rtol=1e-10)


def test_improvement_is_that_of_the_functions(deep):
    """Over the ensemble, within the error of the draws of its members; both rows together."""
    estimator = DGPRegressor(**deep.get_params()).fit(X, Y[:, 0])
    x, n = BATCHES[0, :, :2], 20_000
    f = estimator.sample_functions(16)(x.reshape(-1, 2).numpy()).reshape(3, 2, 16)
    best = np.median(f)
    gain = np.maximum(f - best, 0.0).max(axis=1)
    sampler = IndexSampler(torch.Size([n]), seed=0)
    model = EstimatorModel(estimator, n_samples=16)
    actual = qExpectedImprovement(model, best, sampler=sampler)(x)
    error = gain.std(axis=1) / np.sqrt(n)
    assert (error > 0.0).all()
    assert (np.abs(actual.numpy() - gain.mean(axis=1)) < 5.0 * error).all()


def test_what_is_not_supported(deep, model):
    with pytest.raises(UnsupportedError, match="no observation noise"):
        EstimatorModel(deep, n_samples=2).posterior(BATCHES, observation_noise=True)
    with pytest.raises(UnsupportedError, match="give True or False"):
        EstimatorModel(model).posterior(BATCHES, observation_noise=torch.ones(1, 1))
    readout = MOGPRegressor(max_iter=1, n_inducing=5).fit(X, Y)
    with pytest.raises(NotImplementedError, match="cannot be drawn as a function"):
        EstimatorModel(readout)


def proposed(estimator, X, seed):
    """The point of the largest expected improvement of a minimum."""
    model = EstimatorModel(estimator.fit(X, -branin(X)))
    acquisition = qLogExpectedImprovement(model, best_f=-branin(X).min())
    torch.manual_seed(seed)
    options = {"num_restarts": 4, "raw_samples": 64, "options": {"maxiter": 50}}
    return optimize_acqf(acquisition, UNIT_SQUARE, q=1, **options)[0].numpy()


def test_ten_proposals_come_closer_than_random_points():
    """In each of three runs from eight points, and to less than half of the distance on average."""
    regrets, at_random = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        points, random = rng.uniform(size=(8, 2)), rng.uniform(size=(18, 2))
        estimator = SVGPRegressor(noise_floor=1e-6, random_state=0)
        for _ in range(10):
            points = np.vstack([points, proposed(estimator, points, seed)])
        regrets.append(branin(points).min() - LOWEST)
        at_random.append(branin(random).min() - LOWEST)
    assert (np.array(regrets) < np.array(at_random)).all()
    assert np.mean(regrets) < 0.5 * np.mean(at_random)


def test_a_deep_model_proposes_where_its_functions_improve(deep):
    """The proposal is better than what the estimator was fitted on by the functions' own word."""
    estimator = DGPRegressor(**deep.get_params())
    point = proposed(estimator, X, seed=0)
    f = estimator.sample_functions(128)
    best = -branin(X).min()
    gains = [np.maximum(f(rows) - best, 0.0).mean(axis=1) for rows in (point, X)]
    assert gains[0][0] > gains[1].max()
