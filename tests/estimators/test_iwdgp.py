"""IWDGPRegressor: the limit of one GP, messages, natural steps, rows of a call, two branches."""

import math
import warnings

import numpy as np
import pytest
import torch
from oracles.models import to_array

from skgp import IWDGPRegressor, SVGPRegressor
from skgp.core.layers.posteriors import NaturalPosterior
from skgp.core.stacks.row_posterior import Free
from skgp.core.training.run import Run
from skgp.datasets import bimodal_distribution, make_bimodal
from skgp.exceptions import NotPositiveDefiniteError
from skgp.scoring import nll

pytestmark = pytest.mark.usefixtures("short_start")

SMALL = {"n_inducing": 8, "max_iter": 5, "random_state": 0, "n_prediction_samples": 16}


@pytest.fixture
def table(rng):
    X = rng.uniform(-1.0, 1.0, (40, 2))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(40)
    return X, y


# ------------------------------------------------------------------ one GP


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_one_gp_is_svgp(table, covariance):
    X, y = table
    same = {
        "optimizer": "adam", "covariance": covariance, "n_inducing": 8, "max_iter": 7,
        "batch_size": 16, "learning_rate_init": 0.02, "jitter": 1e-5, "random_state": 3,
        "noise_floor": 1e-4,
    }  # fmt: skip
    ours = IWDGPRegressor(architecture="GP", **same).fit(X, y)
    theirs = SVGPRegressor(**same).fit(X, y)
    pairs = zip(ours.stack_.parameters(), theirs.stack_.parameters(), strict=True)
    for actual, expected in pairs:
        np.testing.assert_allclose(to_array(actual), to_array(expected), rtol=0, atol=1e-12)
    for actual, expected in zip(
        ours.predict(X, return_std=True), theirs.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


# ------------------------------------------------------------------ plain importance weighting


def test_plain_importance_weighting_fits_and_says_what_it_cannot(table):
    """Its training loss is another one; steps that need a quadratic objective are refused."""
    params = {**SMALL, "optimizer": "adam"}
    plain, closed = (
        IWDGPRegressor(inference=name, **params).fit(*table) for name in ("iw", "iwvi")
    )
    assert plain.loss_curve_[0] != closed.loss_curve_[0]
    assert np.isfinite(plain.loss_curve_).all()
    with pytest.raises(ValueError, match=r"inference='iw'.*use optimizer='adam'"):
        IWDGPRegressor(inference="iw", **SMALL).fit(*table)
    with pytest.raises(ValueError, match="with inference='iw' use gradient='reparameterized'"):
        IWDGPRegressor(inference="iw", gradient="doubly_reparameterized", **params).fit(*table)


# ------------------------------------------------------------------ gradients


@pytest.mark.parametrize("amortized", [True, False])
def test_doubly_reparameterized_gradients_change_the_path_but_not_the_bound(table, amortized):
    """The loss before the first step is the same, and those after it are not."""
    settings = {"architecture": "LV-GP-GP", "amortized": amortized, **SMALL}
    usual, doubly = (
        IWDGPRegressor(gradient=gradient, **settings).fit(*table).loss_curve_
        for gradient in ("reparameterized", "doubly_reparameterized")
    )
    np.testing.assert_allclose(doubly[0], usual[0], rtol=1e-5)
    assert abs(doubly[-1] - usual[-1]) > 1e-4


# ------------------------------------------------------------------ messages


@pytest.mark.parametrize("architecture", ["", "LV", "GP-LV", "gp", "LV-GP-", "LV_GP", "LV-XX-GP"])
def test_architecture_that_is_none_is_named(table, architecture):
    with pytest.raises(ValueError, match=r"architecture='.*' must join layers 'GP' and 'LV'"):
        IWDGPRegressor(architecture=architecture, **SMALL).fit(*table)


def test_rows_with_parameters_of_their_own_are_no_stream(table):
    with pytest.raises(ValueError, match="partial_fit needs amortized=True"):
        IWDGPRegressor(amortized=False, **SMALL).partial_fit(*table)
    IWDGPRegressor(architecture="GP-GP", amortized=False, **SMALL).partial_fit(*table)


def test_rows_with_parameters_of_their_own_go_on_with_the_same_number(table):
    X, y = table
    model = IWDGPRegressor(amortized=False, warm_start=True, **SMALL).fit(X, y)
    model.fit(X, y)
    with pytest.raises(ValueError, match="of which there were 40, and got 30"):
        model.fit(X[:30], y[:30])


def test_rows_with_parameters_of_their_own_go_on_in_any_order(table):
    """The moments of each row stay with it; other rows, of the same number too, are refused."""
    X, y = table
    order = np.random.default_rng(1).permutation(len(y))

    def moments(model):
        (module,) = (part for part in model.model_.modules() if isinstance(part, Free))
        return np.column_stack([to_array(module.mean), to_array(module.log_std)])

    for rows in (slice(None), order):
        model = IWDGPRegressor(amortized=False, warm_start=True, **SMALL).fit(X, y)
        first = moments(model)
        model.set_params(learning_rate_init=1e-12).fit(X[rows], y[rows])
        np.testing.assert_allclose(moments(model), first[rows], atol=1e-8)
    for other in ((X + 1.0, y), (X, 2.0 * y), (X[::-1], y)):
        with pytest.raises(ValueError, match="the rows of the last fit, and got others: use amort"):
            model.fit(*other)


def test_rows_with_parameters_of_their_own_that_another_split_holds_out(table):
    stops = {**SMALL, "early_stopping": True, "amortized": False, "warm_start": True}
    model = IWDGPRegressor(**stops).fit(*table).fit(*table)
    model.set_params(random_state=1)
    with pytest.raises(ValueError, match="a number for random_state if early_stopping"):
        model.fit(*table)


# ------------------------------------------------------------------ natural steps


@pytest.mark.parametrize("architecture", ["LV-GP", "GP-LV-GP"])
def test_large_inputs_that_are_not_scaled_do_not_make_training_leap(table, architecture):
    X, y = table
    model = IWDGPRegressor(architecture=architecture, normalize_X=False, **SMALL).fit(1e8 * X, y)
    assert max(model.loss_curve_) < 10.0
    mean, std = model.predict(1e8 * X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()


def test_outliers_among_large_inputs_that_are_not_scaled_have_a_remedy(table):
    X, y = table
    X[3] = 1e10
    with pytest.raises(NotPositiveDefiniteError, match=r"keep normalize_X on$"):
        IWDGPRegressor(architecture="GP-LV-GP", normalize_X=False, **SMALL).fit(X, y)


def test_natural_step_that_would_lose_the_covariance_is_not_taken():
    """The precision I - length * grad of one GP of two has a negative eigenvalue."""
    posterior = NaturalPosterior(torch.ones(2, 3, dtype=torch.float64), 1.0)
    posterior.theta.grad = torch.full((2, 3), 0.5, dtype=torch.float64)
    slope = torch.zeros(2, 3, 3, dtype=torch.float64)
    slope[1] = torch.diag(torch.tensor([0.0, 2.0, 0.0]))
    posterior.precision.grad = slope
    posterior.step(0.6)
    np.testing.assert_array_equal(to_array(posterior.theta), 1.0)
    np.testing.assert_array_equal(to_array(posterior.precision[1]), np.eye(3))
    posterior.step(0.4)
    np.testing.assert_allclose(to_array(posterior.theta), 0.8, rtol=1e-14)
    np.testing.assert_allclose(to_array(posterior.precision[0]), np.eye(3), rtol=1e-14)
    np.testing.assert_allclose(to_array(posterior.precision[1]), np.diag([1.0, 0.2, 1.0]))


# ------------------------------------------------------------------ predictions


@pytest.mark.parametrize("architecture", ["LV-GP", "LV-GP-GP", "GP-LV-GP"])
def test_predictions_of_a_row_do_not_depend_on_the_rows_beside_it(table, architecture):
    X, y = table
    model = IWDGPRegressor(architecture=architecture, **SMALL).fit(X, y)
    whole = model.predict_dist(X).logpdf(y)
    alone = [model.predict_dist(X[i : i + 1]).logpdf(y[i : i + 1])[0] for i in (0, 7, 39)]
    np.testing.assert_allclose(whole[[0, 7, 39]], alone, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(whole, model.predict_dist(X).logpdf(y))


@pytest.mark.parametrize(
    ("architecture", "deviations"),
    [
        ("GP-LV-GP", {1: [1.0, 2.0], 2: [1.0, 2.0**0.5, 2.0**0.5]}),
        ("LV-GP-GP", {1: [2.0, 1.0, 1.0], 2: [2.0**0.5, 2.0**0.5, 1.0, 1.0, 1.0]}),
    ],
)
def test_nodes_of_covariates_are_twice_as_wide(table, architecture, deviations):
    """Others are not; the weights of two covariates are worth as many nodes or more."""
    many = {**SMALL, "n_prediction_samples": 2048}
    model = IWDGPRegressor(architecture=architecture, width=1, **many)
    for latent_dim, expected in deviations.items():
        nodes = model.set_params(latent_dim=latent_dim).fit(*table).model_.nodes
        np.testing.assert_allclose(to_array(nodes.fixed).std(0), expected, rtol=0.02)
        assert 1.0 / (np.exp(to_array(nodes.log_omega)) ** 2).sum() > 0.64 * 2048


def test_covariates_start_as_residuals(table):
    """Without a step worth the name; the residual is that of ordinary least squares."""
    X, y = table
    model = IWDGPRegressor(
        **{**SMALL, "max_iter": 1}, learning_rate_init=1e-9, dtype="float64"
    ).fit(X, y)
    covariates = model.stack_.hidden[0]
    x = (X - X.mean(0)) / X.std(0)
    z = (y - y.mean()) / y.std()
    known = np.column_stack([x, z, np.ones(len(z))])
    w = to_array(covariates.posterior(torch.from_numpy(known), None).mean)[:, 0]
    residual = z - x @ np.linalg.lstsq(x, z, rcond=None)[0]
    np.testing.assert_allclose(np.abs(w), np.abs(residual) / residual.std(), rtol=0, atol=0.02)


@pytest.mark.parametrize(("width", "n_directions"), [(1, 1), (2, 2), (9, 3)])
def test_hidden_functions_move_principal_directions_and_covariates(rng, width, n_directions):
    X = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 3))
    y = X[:, 0] + 0.1 * rng.standard_normal(30)
    made = {**SMALL, "width": width, "latent_dim": 2, "normalize_X": False}
    projection = to_array(IWDGPRegressor(**made).fit(X, y).stack_.hidden[1].projection)
    leading = np.linalg.svd(X - X.mean(0))[2][:n_directions]
    assert projection.shape == (n_directions + 2, 5)
    overlap = np.abs(projection[:n_directions, :3] @ leading.T)
    np.testing.assert_allclose(overlap, np.eye(n_directions), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(projection[n_directions:, 3:], np.eye(2))
    assert not projection[:n_directions, 3:].any()
    assert not projection[n_directions:, :3].any()


def test_hidden_layers_are_trained_in_float32_and_one_gp_in_float64(table, monkeypatch):
    seen = []
    plain = Run.gradients

    def spy(self, batch, step):
        seen.append(batch.x.dtype)
        return plain(self, batch, step)

    monkeypatch.setattr(Run, "gradients", spy)
    for architecture, dtype in [("LV-GP", torch.float32), ("GP", torch.float64)]:
        seen.clear()
        IWDGPRegressor(architecture=architecture, **SMALL).fit(*table)
        assert set(seen) == {dtype}


def test_two_branches_have_a_mode_each():
    """Masses within 0.12 of the truth, the densest points within 0.12, 0.25 nats held out.

    150 epochs are too few for the density between the branches to vanish: a tenth of the mass lies
    there, where the truth has next to none.
    """
    X, y = make_bimodal(600, random_state=0)
    model = IWDGPRegressor(
        architecture="LV-GP", n_inducing=32, max_iter=150, batch_size=200, random_state=0
    ).fit(X, y)
    grid = np.linspace(-3.0, 3.0, 601)
    step = grid[1] - grid[0]
    for x in (0.6, 1.2, 1.8):
        at_x = np.full((len(grid), 1), x)
        density, truth = (
            d.pdf(grid) for d in (model.predict_dist(at_x), bimodal_distribution(at_x))
        )
        branch = 0.5 * (x + 1.0)
        middle = np.abs(grid) < 0.3 * branch
        upper, lower = (grid > 0.0) & ~middle, (grid < 0.0) & ~middle
        for region in (upper, lower, middle):
            assert abs(density[region].sum() - truth[region].sum()) * step < 0.12
        assert abs(grid[upper][density[upper].argmax()] - branch) < 0.12
        assert abs(grid[lower][density[lower].argmax()] + branch) < 0.12
    X_new, y_new = make_bimodal(1000, random_state=1)
    ours, true = model.predict_dist(X_new), bimodal_distribution(X_new)
    assert -0.05 < nll(y_new, ours) - nll(y_new, true) < 0.25


# ------------------------------------------------------------------ densities


def test_kernel_density_estimate_is_that_of_samples_of_the_mixture() -> None:
    """2,000 samples, Silverman's rule: the mean stays, the variance grows by that of the kernel."""
    X, y = make_bimodal(60, random_state=0)
    model = IWDGPRegressor(max_iter=30, n_inducing=10, random_state=0).fit(X, y)
    own, estimate = model.predict_dist(X[:5]), model.predict_dist(X[:5], method="kde")
    assert repr(estimate) == "NormalMixture(n_rows=5, n_outputs=1, n_components=2000)"
    error = own.std() / math.sqrt(2000)
    assert (np.abs(estimate.mean() - own.mean()) < 4.0 * error).all()
    growth = 1.0 + 1500.0**-0.4
    np.testing.assert_allclose(estimate.var() / own.var(), growth, rtol=0.15)
    with pytest.raises(ValueError, match="'mixture' or 'kde', got 'normal'"):
        model.predict_dist(X[:5], method="normal")


@pytest.mark.slow
def test_density_of_two_branches_is_nearly_the_true_one() -> None:
    """Within 0.06 nats, of which most is lost where the branches are farthest apart."""
    X, y = make_bimodal(1000, random_state=0)
    X_new, y_new = make_bimodal(20_000, random_state=1)
    model = IWDGPRegressor(random_state=0).fit(X, y)
    ours, true = model.predict_dist(X_new), bimodal_distribution(X_new)
    assert nll(y_new, ours) - nll(y_new, true) < 0.06


# ------------------------------------------------------------------ jitter


@pytest.mark.slow
def test_a_function_without_noise_is_predicted_with_next_to_no_variance() -> None:
    """A jitter of 1e-4, of the kernel variance, would leave a deviation of some 0.008."""
    X = np.linspace(-1.0, 1.0, 100)[:, None]
    y = np.sin(3.0 * X[:, 0])
    model = IWDGPRegressor(
        architecture="GP", kernel="rbf", n_inducing=30, noise_floor=1e-8, random_state=0
    )
    mean, std = model.fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(mean, y, rtol=0, atol=1e-3)
    assert std.max() < 0.003


@pytest.mark.slow
def test_a_smooth_function_of_one_input_is_learned() -> None:
    """Crowded inducing inputs leave less for the joint draws than rounding adds or takes away."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (1300, 1))
    y = np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(1300)
    model = IWDGPRegressor(kernel="rbf", max_iter=250, random_state=0).fit(X[:300], y[:300])
    residual = y[300:] - np.sin(3.0 * X[300:, 0])
    true = 0.5 * np.mean((residual / 0.3) ** 2) + np.log(0.3) + 0.5 * np.log(2.0 * np.pi)
    assert nll(y[300:], model.predict_dist(X[300:])) - true < 0.1


# ------------------------------------------------------------------ weight of the divergences


def noisy_rows(n: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """A plane with noise that has this share of the variance of y."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    f, noise = X.sum(1), rng.standard_normal(n)
    f, noise = (values - values.mean() for values in (f, noise))
    return X, np.sqrt(1 - share) * f / f.std() + np.sqrt(share) * noise / noise.std()


SHORT = {"max_iter": 3, "n_inducing": 8, "dtype": "float64", "random_state": 0}


@pytest.mark.parametrize(
    ("architecture", "n", "weight"),
    [
        *[("LV-GP", 100, 1.0), ("LV-GP", 150, 1.0), ("LV-GP", 600, 0.25)],
        *[("GP", 150, 1.0), ("GP-GP", 300, 1.0), ("GP-GP", 600, 0.5)],
    ],
)
def test_divergences_weigh_as_for_few_rows(architecture: str, n: int, weight: float) -> None:
    """As for 150 rows where there is little noise, without latent covariates 300."""
    X, y = noisy_rows(n, 0.05)
    made = {**SHORT, "architecture": architecture}
    auto = IWDGPRegressor(**made).fit(X, y)
    assert auto.beta_reg_ == weight
    explicit = IWDGPRegressor(**made, beta_reg=weight).fit(X, y)
    assert auto.loss_curve_ == explicit.loss_curve_
    other = IWDGPRegressor(**made, beta_reg=0.9 * weight).fit(X, y)
    assert auto.loss_curve_ != other.loss_curve_


@pytest.mark.usefixtures("full_start")
@pytest.mark.parametrize("share", [0.2, 0.3, 0.5])
def test_divergences_weigh_more_where_targets_are_noisy(share: float) -> None:
    """As for 1,000 rows times the share of the noise, which a GP finds."""
    n = 800
    X, y = noisy_rows(n, share)
    model = IWDGPRegressor(**SHORT, architecture="LV-GP").fit(X, y)
    # The estimate is off by up to 11 % here: its steps are few.
    assert model.beta_reg_ == pytest.approx(1000 * share / n, rel=0.15)


@pytest.mark.usefixtures("full_start")
def test_noise_is_averaged_over_outputs_whatever_their_units() -> None:
    X, y = noisy_rows(800, 0.5)
    Y = np.column_stack([y, noisy_rows(800, 0.1)[1]])
    of_both = IWDGPRegressor(**SHORT, architecture="LV-GP").fit(X, Y).beta_reg_
    assert of_both == pytest.approx(1000 * 0.3 / 800, rel=0.15)
    # Smaller units, which nothing scales away.
    raw = IWDGPRegressor(**SHORT, architecture="LV-GP", normalize_y=False).fit(X, Y / 2)
    assert raw.beta_reg_ == pytest.approx(of_both, rel=0.1)


@pytest.mark.parametrize(("n_components", "n_rows"), [(8, 2048), (128, 128), (2048, 8)])
def test_memory_of_a_prediction_does_not_grow_with_its_components(table, n_components, n_rows):
    """A step has as many fewer rows: a prediction with 2,000 components took 14 GB."""
    model = IWDGPRegressor(**(SMALL | {"n_prediction_samples": n_components})).fit(*table)
    seen = []
    model.stack_.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    model.predict(np.zeros((2100, 2)) if n_rows > 8 else np.zeros((100, 2)))
    assert seen[0] == n_rows
    assert sum(seen) in (100, 2100)


@pytest.mark.parametrize("share", [0.05, pytest.param(0.5, marks=pytest.mark.slow)])
def test_missing_and_constant_outputs_are_no_noise(share: float) -> None:
    X, y = noisy_rows(800, share)
    weight = IWDGPRegressor(**SHORT, architecture="LV-GP").fit(X, y).beta_reg_
    Y = np.column_stack([y, y])
    Y[::2, 0] = np.nan
    Y[1::2, 1] = np.nan
    some = IWDGPRegressor(**SHORT, architecture="LV-GP").fit(X, Y)
    # From halves of the rows. With zeros for missing targets it is larger by 40 % or more.
    assert some.beta_reg_ == pytest.approx(weight, rel=0.2)
    constant = np.column_stack([y, np.ones(800)])
    other = IWDGPRegressor(**SHORT, architecture="LV-GP").fit(X, constant)
    assert other.beta_reg_ == pytest.approx(weight, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_share_of_the_noise_has_no_units(unit: float) -> None:
    X, y = noisy_rows(800, 0.3)
    model = IWDGPRegressor(**SHORT, architecture="LV-GP")
    expected = model.fit(X, y).beta_reg_
    model.set_params(normalize_X=False, normalize_y=False)
    with warnings.catch_warnings():  # about scales
        warnings.simplefilter("ignore")
        model.fit(unit * X, unit * y + unit)
    assert model.beta_reg_ == pytest.approx(expected, rel=1e-3)


def test_a_warm_start_may_turn_to_the_weight_that_knows_the_noise() -> None:
    X, y = noisy_rows(800, 0.5)
    model = IWDGPRegressor(**SHORT, architecture="LV-GP", beta_reg=1.0, warm_start=True).fit(X, y)
    assert model.beta_reg_ == 1.0
    model.set_params(beta_reg="auto").fit(X, y)
    assert model.beta_reg_ == IWDGPRegressor(**SHORT, architecture="LV-GP").fit(X, y).beta_reg_
