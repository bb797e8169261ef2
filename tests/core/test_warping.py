"""Power transforms of skewed inputs, and the choice between them and the inputs as they are."""

import pickle

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import boxcox1p
from scipy.stats import boxcox_llf

import skgp
from skgp import DSPPRegressor, ExactGPRegressor, SVGPClassifier, SVGPRegressor
from skgp.core.networks.warping import InputWarp, box_cox, skewed_columns

RNG = np.random.default_rng(0)
N = 400
COLUMNS = np.stack(
    [
        np.exp(1.2 * RNG.normal(size=N)),
        RNG.normal(size=N),
        -np.square(RNG.normal(size=N)),
        RNG.uniform(size=N),
        (RNG.uniform(size=N) < 0.02).astype(float),
    ],
    1,
)
X = torch.from_numpy((COLUMNS - COLUMNS.mean(0)) / COLUMNS.std(0))


def warp_of(x: torch.Tensor) -> InputWarp:
    warp = skewed_columns(x, torch.ones(len(x), dtype=x.dtype))
    assert warp is not None
    return warp


def test_transform_is_that_of_box_and_cox():
    z = torch.linspace(0.0, 50.0, 101, dtype=torch.float64)
    for power in (-2.0, -0.3, 0.0, 1e-9, 0.5, 1.0):
        value = box_cox(z, torch.tensor(power, dtype=z.dtype))
        np.testing.assert_allclose(value, boxcox1p(z.numpy(), power), rtol=1e-12)


def test_power_is_the_most_likely_one():
    warp = warp_of(X)
    for column in (0, 2):
        x = X[:, column].numpy()
        z = x - x.min() if column == 0 else x.max() - x
        z = 1.0 + z / z.mean()
        best = minimize_scalar(lambda p, z=z: -boxcox_llf(p, z), bounds=(-3, 1), method="bounded")
        assert abs(best.x - float(warp.power[column])) <= 0.051  # powers are tenths


def test_only_skewed_columns_change_and_have_unit_variance():
    warp = warp_of(X)
    h = warp(X)
    assert warp.is_linear.tolist() == [False, True, False, True, True]
    assert torch.equal(h[:, [1, 3, 4]], X[:, [1, 3, 4]])
    np.testing.assert_allclose(h.mean(0), 0.0, atol=1e-12)
    np.testing.assert_allclose(h.std(0, correction=0), 1.0, rtol=1e-12)
    assert skewed_columns(X[:, [1, 3]], torch.ones(N, dtype=X.dtype)) is None


def test_weights_count_as_repetitions():
    weight = torch.from_numpy(RNG.integers(1, 4, N))
    weighted = skewed_columns(X, weight.double())
    repeated = warp_of(X.repeat_interleave(weight, dim=0))
    assert weighted is not None
    for name, value in weighted.named_buffers():
        torch.testing.assert_close(value, getattr(repeated, name), rtol=1e-10, atol=1e-12)


def test_order_of_values_is_kept_and_the_inverse_finds_them():
    warp = warp_of(X)
    grid = torch.linspace(-4.0, 30.0, 200, dtype=torch.float64).unsqueeze(-1).expand(-1, 5)
    h = warp(grid)
    assert bool((h.diff(dim=0) > 0.0).all())
    torch.testing.assert_close(warp.inverse(h), grid, rtol=1e-8, atol=1e-8)


def test_beyond_the_farthest_row_the_transform_is_a_line():
    """A negative power alone is bounded there."""
    warp = warp_of(X)
    assert warp.power[0] < 0.0
    farthest = torch.where(warp.sign > 0.0, X.amax(0), X.amin(0))
    steps = torch.tensor([-1e-6, 0.0, 1e-6, 1.0, 1e6], dtype=torch.float64).unsqueeze(-1)
    before, at, after, far, farther = warp(farthest + warp.sign * steps)
    slope = (after - at) / 1e-6
    torch.testing.assert_close(slope, (at - before) / 1e-6, rtol=1e-4, atol=0.0)
    torch.testing.assert_close((far - at) / 1.0, slope, rtol=1e-6, atol=0.0)
    torch.testing.assert_close((farther - at) / 1e6, slope, rtol=1e-6, atol=0.0)
    inputs = torch.stack([at, far, farther])
    expected = farthest + warp.sign * steps[[1, 3, 4]]
    torch.testing.assert_close(warp.inverse(inputs), expected, rtol=1e-8, atol=1e-8)


def test_a_file_of_an_earlier_version_has_no_farthest_row():
    warp, old = warp_of(X), warp_of(X)
    del old.far
    torch.testing.assert_close(old(X), warp(X))
    torch.testing.assert_close(old.inverse(old(X)), X, rtol=1e-8, atol=1e-8)


def test_slope_is_the_derivative_at_the_mean():
    warp = warp_of(X)
    zero = torch.zeros(1, 5, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(warp(zero).sum(), zero)
    torch.testing.assert_close(warp.slope(), slope[0])


def test_gradients_pass_at_and_beyond_the_end():
    warp = warp_of(X)
    x = torch.stack([warp.end, warp.end - warp.sign, warp.end + warp.sign])
    (slope,) = torch.autograd.grad(warp(x.requires_grad_()).sum(), x)
    assert bool((slope.isfinite() & (slope > 0.0)).all())


# ------------------------------------------------------------------ in a fit

COUNT = np.exp(1.5 * RNG.normal(size=150))
ROWS = np.c_[COUNT, RNG.normal(size=150)]
NOISE = 0.1 * RNG.normal(size=150)
OF_LOGS = np.sin(2.0 * np.log(COUNT)) + NOISE
SMALL = {"n_inducing": 20, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return SVGPRegressor(**SMALL).fit(ROWS, OF_LOGS)


def test_bound_decides(model):
    assert model.input_powers_[0] < 0.2
    assert model.input_powers_[1] == 1.0
    of_values = SVGPRegressor(**SMALL, max_iter=1).fit(ROWS, np.sin(COUNT) + NOISE)
    np.testing.assert_array_equal(of_values.input_powers_, 1.0)


def test_transformed_fit_is_one_of_transformed_inputs(model):
    warp = model.stack_.features
    scaled = (ROWS - model.model_.x_scale.offset) / model.model_.x_scale.unit
    features = warp(torch.from_numpy(scaled)).numpy()
    # The features are standardised: scaling them again changes rounding alone, and where L-BFGS
    # is after its hundredth iteration, by less than a tenth of the noise.
    other = SVGPRegressor(input_warping=False, **SMALL).fit(features, OF_LOGS)
    a, b = model.predict_dist(ROWS), other.predict_dist(features)
    np.testing.assert_allclose(a.mean(), b.mean(), atol=1e-2)
    np.testing.assert_allclose(a.std(), b.std(), rtol=5e-2)


def test_nothing_changes_without_skewed_columns():
    rows = RNG.normal(size=(60, 2))
    y = np.sin(rows[:, 0])
    models = [
        ExactGPRegressor(input_warping=on, max_iter=5, random_state=0).fit(rows, y)
        for on in ("auto", False)
    ]
    np.testing.assert_array_equal(models[0].predict(rows), models[1].predict(rows))


def test_attributes_are_in_the_units_of_the_inputs(model):
    scale, warp = model.model_.x_scale, model.stack_.features
    inducing = warp(torch.from_numpy((model.inducing_points_ - scale.offset) / scale.unit))
    torch.testing.assert_close(inducing, model.stack_.bottom.Z[0], rtol=1e-8, atol=1e-8)
    # The lengthscale holds at the mean: a small part of it is the same part of the feature's own.
    step = 1e-4 * model.lengthscales_[0]
    steps = np.array([[-0.5 * step, 0.0], [0.5 * step, 0.0]])
    around = (ROWS.mean(0) + steps - scale.offset) / scale.unit
    h = warp(torch.from_numpy(around))
    own = model.stack_.bottom.kernel.lengthscale[0, 0].item()
    assert float(h[1, 0] - h[0, 0]) == pytest.approx(1e-4 * own, rel=1e-4)


def test_function_draws_have_gradients_through_the_transform(model):
    f = model.sample_functions(2, random_state=0)
    x = torch.from_numpy(ROWS[:3]).requires_grad_()
    assert torch.autograd.gradcheck(f.evaluate, x, eps=1e-6, atol=1e-4)


def test_moments_over_rows_are_those_of_predictions(model):
    latent = model.predict_latent(ROWS[:4])
    mean, std = model.posterior().mean_and_std(torch.from_numpy(ROWS[:4]))
    np.testing.assert_allclose(mean.detach(), latent.mean(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(std.detach(), latent.std(), rtol=1e-10)
    _, cov = model.predict(ROWS[:4], return_cov=True)
    np.testing.assert_allclose(np.diag(cov), model.predict_dist(ROWS[:4]).var(), rtol=1e-10)


def test_a_file_and_a_pickle_keep_the_transform(model, tmp_path):
    skgp.save(model, tmp_path / "model.skgp")
    for copy in (skgp.load(tmp_path / "model.skgp"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.predict(ROWS), model.predict(ROWS))
        np.testing.assert_array_equal(copy.input_powers_, model.input_powers_)


@pytest.mark.parametrize("parameters", [{"normalize_X": False}, {"feature_extractor": [3]}])
def test_other_settings_have_no_transform(parameters):
    model = SVGPRegressor(**SMALL, input_warping=True, max_iter=2, **parameters)
    model.fit(ROWS, OF_LOGS)
    np.testing.assert_array_equal(model.input_powers_, 1.0)


def test_deep_models_and_classifiers_have_it_too():
    deep = DSPPRegressor(**SMALL, max_iter=2, early_stopping=False).fit(ROWS, OF_LOGS)
    assert deep.input_powers_[0] < 0.2
    classes = SVGPClassifier(**SMALL, max_iter=2).fit(ROWS, OF_LOGS > 0.0)
    assert classes.input_powers_[0] < 0.2


def test_far_rows_of_a_long_tail_are_uncertain():
    """Ten times the largest input is no neighbour of it."""
    x = np.exp(2.0 * np.random.default_rng(1).standard_normal(150))
    y = np.log(x) + 0.1 * NOISE[:150]
    model = SVGPRegressor(random_state=0).fit(x[:, None], y)
    assert model.input_powers_[0] < -1.0
    std = model.predict(np.array([[x.max()], [1e3 * x.max()]]), return_std=True)[1]
    assert std[1] > 3.0 * std[0]
