"""Predictions of GPs of few rows, which average over their hyper-parameters."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm

from skgp import DSPPRegressor, PPGPRRegressor
from skgp.core.data import Targets
from skgp.core.layers.layer import DrawnLatent, certain
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.objectives.objective import PREDICTIVE
from skgp.files import load, save
from skgp.fitting import cross_validation, draws
from skgp.fitting.model import Layers
from skgp.recipes import laplace, sizes
from skgp.recipes.laplace import LaplaceLayers

pytestmark = pytest.mark.usefixtures("short_start")

BOTH = [PPGPRRegressor, DSPPRegressor]
UNTRAINED = {"max_iter": 1, "random_state": 0}  # one epoch is not clearly ahead


@pytest.fixture(autouse=True)
def untrained_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever held-out rows prefer, the trained model has no share."""
    monkeypatch.setattr(cross_validation, "share_of_first", lambda *given: 0.0)


def _rows(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("make", BOTH)
def test_a_prediction_is_the_mixture_of_the_draws(make) -> None:
    X, y = _rows(60)
    new = _rows(9, seed=1)[0]
    model = make(**UNTRAINED).fit(X, y)
    source, likelihood = model.model_.source, model.model_.likelihood
    assert isinstance(source, LaplaceLayers)
    unit, x = y.std(), model.model_.scaled(new)
    normals = []
    for known in source.posteriors(model.model_.nodes):
        stack, nodes = known.stack, model.model_.nodes(1)
        latent = stack(x, nodes, known.factors)
        var = latent.f_var + known.noise.variance * likelihood.noise_var
        moments = latent.f_mean.detach(), var.detach().sqrt()
        normals.append(norm(*(part[0, :, 0].numpy() for part in moments)))
    values = (np.linspace(-1.0, 1.0, 9) - y.mean()) / unit
    expected = np.mean([each.pdf(values) for each in normals], axis=0) / unit
    found = model.predict_dist(new).pdf(np.linspace(-1.0, 1.0, 9))
    assert_allclose(found, expected, rtol=1e-9)
    ratios = [known.noise.variance for known in source.posteriors(model.model_.nodes)]
    assert np.mean(ratios) == pytest.approx(1.0)
    assert np.ptp(ratios) > 0.05


def test_a_density_has_the_noise_of_each_node(rng) -> None:
    noise = Gaussian(1, 0.3, 1e-5)
    f_mean, v_prior, v_q, y = torch.from_numpy(rng.uniform(0.1, 1.0, (4, 3, 5, 1))).float()
    ratio = torch.tensor([0.5, 1.0, 1.5])[:, None, None]
    latent = DrawnLatent(f_mean, v_prior, v_q, noise_ratio=ratio)
    std = (v_prior + v_q + 0.3 * ratio).sqrt().numpy()
    expected = norm(f_mean.numpy(), std).logpdf(y[:1].numpy())[..., 0]
    found = PREDICTIVE.term(noise, latent, Targets(y[0], None)).detach()
    assert_allclose(found, expected, rtol=1e-4)
    assert_allclose(noise.predictive(latent).var.sqrt().detach(), std, rtol=1e-5)
    more = latent._replace(v_prior=v_prior + 1.0)
    assert_array_equal(more.noise_ratio, ratio)
    assert_array_equal(more.v_prior, v_prior + 1.0)
    assert certain(f_mean).noise_ratio == 1.0


@pytest.mark.parametrize("most", [1000, 0])  # by laws, and by draws of functions
def test_draws_of_y_have_the_noise_of_their_posterior(most, monkeypatch) -> None:
    monkeypatch.setattr(draws, "MOST_JOINT_ROWS", most)
    X, y = _rows(40)
    model = PPGPRRegressor(**UNTRAINED).fit(X, y)
    source = model.model_.source
    with torch.no_grad():  # two kinds of draws that differ by far
        source.gps.noise_var[::2] *= 50.0
    row = [[0.4, 0.2]]
    drawn = model.sample_y(row, 1000, random_state=0)[0]
    dist = model.predict_dist(row)
    assert kstest(drawn, lambda values: dist.cdf(values[None])[0]).pvalue > 1e-3
    plain = norm(*(part[0] for part in model.predict(row, return_std=True)))
    assert kstest(drawn, plain.cdf).pvalue < 1e-6


@pytest.mark.parametrize("make", BOTH)
def test_rows_and_their_copies_are_the_same_in_any_order(make, rng) -> None:
    X, y = _rows(30)
    new = _rows(9, seed=1)[0]
    order = rng.permutation(60)
    once = make(**UNTRAINED).fit(X, y, sample_weight=np.full(30, 2.0)).predict_dist(new)
    twice = make(**UNTRAINED).fit(np.tile(X, (2, 1))[order], np.tile(y, 2)[order])
    assert isinstance(twice.model_.source, LaplaceLayers)
    assert_allclose(twice.predict_dist(new).std(), once.std(), rtol=1e-9)


def test_training_goes_on_from_the_centre() -> None:
    X, y = _rows(60)
    model = PPGPRRegressor(**UNTRAINED, warm_start=True).fit(X, y)
    lengthscales = model.lengthscales_
    before = pickle.dumps(model)
    model.fit(X, y)
    assert type(model.model_.source) is Layers
    assert_allclose(model.lengthscales_, lengthscales, rtol=0.1)
    streamed = pickle.loads(before).partial_fit(X, y)
    assert type(streamed.model_.source) is Layers
    assert_array_equal(streamed.stacking_weights_, [1.0, 0.0])


@pytest.mark.parametrize("make", BOTH)
def test_files_keep_the_draws(make, tmp_path) -> None:
    X, y = _rows(40)
    model = make(**UNTRAINED).fit(X, y)
    save(model, tmp_path / "model.skgp")
    dist = load(tmp_path / "model.skgp").predict_dist(X)
    assert_array_equal(dist.logpdf(y), model.predict_dist(X).logpdf(y))


def test_models_of_folds_are_as_certain_as_that_of_all_rows(monkeypatch) -> None:
    X, y = _rows(60)
    seen = []
    monkeypatch.setattr(sizes, "with_laplace_draws", lambda *given: seen.append(given) or given[0])
    for most, n_models in ((59, 0), (60, 6)):  # of five folds, and of all rows
        monkeypatch.setattr(sizes, "_MOST_UNCERTAIN", most)
        PPGPRRegressor(**UNTRAINED).fit(X, y)
        assert len(seen) == n_models


@pytest.mark.parametrize(
    ("params", "limit"),
    [
        ({"likelihood": "student_t"}, "_DRAWS"),
        ({"dtype": "float32"}, "_DRAWS"),
        ({}, "_MOST_ROWS"),
        ({}, "_MOST_LENGTHSCALES"),
    ],
)
def test_others_are_certain(params, limit, monkeypatch) -> None:
    X, y = _rows(60)
    monkeypatch.setattr(laplace, limit, 1)
    model = PPGPRRegressor(**UNTRAINED, **params).fit(X, y)
    assert model.model_.stack.top.Z.shape[-2] == 60
    assert type(model.model_.source) is Layers
