"""Targets with several columns, some of them incomplete."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from contract_cases import (
    ONE_PER_CLASS,
    Case,
    Data,
    for_coregionalised,
    for_functions,
    for_gps,
    for_inducing,
    for_normals,
    for_sparse,
    make_data,
    rows_have_draws,
)
from scipy import stats
from sklearn.metrics import r2_score

from skgp import IWDGPRegressor
from skgp.scoring import joint_nll, nll

pytestmark = pytest.mark.usefixtures("short_start")

QUICK = ONE_PER_CLASS


@pytest.fixture(scope="module")
def model(make: Any, data: Data) -> Any:
    return make().fit(data.X, data.Y)


def test_shapes(model: Any, data: Data) -> None:
    X = data.X_new
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == model.predict_dist(X).shape == (25, 2)
    assert model.predict_dist(X).cov().shape == (25, 2, 2)
    assert model.predict_quantiles(X, 0.5).shape == (25, 2)
    assert model.predict_quantiles(X, [0.1, 0.5, 0.9]).shape == (25, 2, 3)
    assert [end.shape for end in model.predict_interval(X)] == [(25, 2), (25, 2)]
    assert model.n_outputs_ == 2
    assert model.noise_variance_.shape == (2,)


@for_functions
def test_shapes_over_rows(model: Any, data: Data) -> None:
    assert model.predict(data.X_new, return_cov=True)[1].shape == (25, 25, 2)
    assert model.sample_y(data.X_new, 4).shape == (25, 2, 4)
    for f in (model.sample_functions(3), model.sample_prior_functions(3)):
        assert f(data.X_new).shape == f.evaluate(torch.tensor(data.X_new)).shape == (25, 2, 3)


@for_functions
def test_covariance_over_rows_has_the_variances(case: Case, model: Any, data: Data) -> None:
    _, std = model.predict(data.X_new, return_std=True)
    _, cov = model.predict(data.X_new, return_cov=True)
    ratio = np.diagonal(cov).T / np.square(std)
    np.testing.assert_allclose(ratio, 1.0, atol=2.0 if rows_have_draws(case.make()) else 1e-9)


@for_gps
def test_shapes_of_a_gp(case: Case, model: Any) -> None:
    axis = () if case.shares_kernel else case.functions or (case.n_functions(2),)
    assert model.lengthscales_.shape == (*axis, 3)


@for_inducing
def test_shapes_of_inducing_inputs(case: Case, model: Any) -> None:
    axis = () if case.shares_kernel else case.functions or (case.n_functions(2),)
    assert model.inducing_points_.shape == (*axis, 15, 3)


def test_every_output_is_learnt(case: Case, model: Any, data: Data) -> None:
    case.skip_if_a_network_is_the_mean()
    Y_new = np.column_stack([data.y_new, 100.0 - 8.0 * data.y_new + data.X_new[:, 1]])
    residual = Y_new - model.predict(data.X_new)
    r2 = 1.0 - np.square(residual).mean(axis=0) / Y_new.var(axis=0)
    assert (r2 > 0.7).all()
    assert model.score(data.X_new, Y_new) == pytest.approx(r2.mean())


def test_one_column_is_one_output_in_another_shape(make: Any, data: Data) -> None:
    flat, column = make().fit(data.X, data.y), make().fit(data.X, data.y[:, None])
    for actual, desired in zip(
        column.predict(data.X_new, return_std=True),
        flat.predict(data.X_new, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(actual, desired[:, None])
    if flat.model_.has_gp_latents:
        np.testing.assert_array_equal(
            column.sample_y(data.X_new, 3), flat.sample_y(data.X_new, 3)[:, None]
        )
    np.testing.assert_array_equal(
        column.predict_quantiles(data.X_new, [0.2, 0.8]),
        flat.predict_quantiles(data.X_new, [0.2, 0.8])[:, None],
    )
    assert column.noise_variance_ == [flat.noise_variance_]


@for_gps
def test_one_column_has_the_gp_of_one_output(case: Case, data: Data) -> None:
    """With an axis of the outputs, unless the first layer is a hidden one."""
    flat, column = (case.make().fit(data.X, y) for y in (data.y, data.y[:, None]))
    names = ["lengthscales_", *case.known({"n_inducing": None})]
    for name in (name.replace("n_inducing", "inducing_points_") for name in names):
        one = getattr(flat, name)
        np.testing.assert_array_equal(
            getattr(column, name), one if case.is_deep or case.shares_kernel else one[None]
        )


def test_covariance_is_exact(model: Any, data: Data) -> None:
    dist = model.predict_dist(data.X_new)
    cov = dist.cov()
    np.testing.assert_array_equal(cov, cov.transpose(0, 2, 1))
    assert (np.linalg.eigvalsh(cov) > 0.0).all()
    np.testing.assert_allclose(np.diagonal(cov, axis1=1, axis2=2), dist.var(), rtol=1e-10)


@for_sparse
def test_covariance_of_a_gp_comes_from_its_factor(model: Any, data: Data) -> None:
    dist = model.predict_dist(data.X_new)
    cov = dist.cov()
    factor = dist.components().scale_tril[:, 0]
    np.testing.assert_allclose(cov, factor @ factor.transpose(0, 2, 1), rtol=1e-10)
    # The second output falls when the first rises, beyond what independent noise explains.
    assert (cov[:, 0, 1] < 0.0).all()


@for_gps
def test_covariance_is_that_of_mixed_latents_and_noise(model: Any, data: Data) -> None:
    """y = A^T f + e with independent latents f (deep sigma point processes, Eqn 24)."""
    cov = model.predict_dist(data.X_new).cov()
    latent = model.predict_latent(data.X_new).cov()
    noise = np.diag(model.noise_variance_)
    np.testing.assert_allclose(
        cov - latent, np.broadcast_to(noise, cov.shape), rtol=1e-6, atol=1e-9
    )


@for_normals
def test_joint_density_is_multivariate_normal(model: Any, data: Data) -> None:
    dist = model.predict_dist(data.X[:8])
    desired = [
        stats.multivariate_normal(mean, cov).logpdf(y)
        for mean, cov, y in zip(dist.mean(), dist.cov(), data.Y, strict=False)
    ]
    np.testing.assert_allclose(dist.joint_logpdf(data.Y[:8]), desired, rtol=1e-9)


def test_samples_have_the_covariance_of_the_distribution(model: Any, data: Data) -> None:
    size = 6000
    dist = model.predict_dist(data.X_new[:6])
    mean, cov = dist.mean(), dist.cov()
    if model.model_.has_gp_latents and not rows_have_draws(model):
        draws = model.sample_y(data.X_new[:6], size, random_state=1)
    else:
        draws = dist.rvs(size, random_state=1)
    std = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    assert (np.abs(draws.mean(axis=-1) - mean) < 4.5 * std / np.sqrt(size)).all()
    for row in range(6):
        correlation = cov[row, 0, 1] / std[row].prod()
        sampled = np.corrcoef(draws[row])[0, 1]
        assert abs(sampled - correlation) < 4.5 * (1.0 - correlation**2) / np.sqrt(size)


def test_a_repeated_column_is_predicted_twice_alike(make: Any, data: Data) -> None:
    model = make().fit(data.X, np.column_stack([data.y, data.y]))
    mean, std = model.predict(data.X_new, return_std=True)
    np.testing.assert_allclose(mean[:, 0], mean[:, 1], atol=0.2 * data.y.std())
    np.testing.assert_allclose(std[:, 0], std[:, 1], rtol=0.2)
    assert np.square(mean[:, 0] - data.y_new).mean() < 0.3 * data.y_new.var()


@for_coregionalised
def test_fewer_latents_than_outputs(make: Any, data: Data) -> None:
    Y = np.column_stack([data.y, 2.0 * data.y, -data.y])
    model = make(n_latents=1).fit(data.X, Y)
    assert len(model.stack_.top.mean) == 1
    dist = model.predict_dist(data.X_new)
    mean, cov = dist.mean(), dist.cov()
    offset = Y.mean(axis=0)
    deviation = (mean - offset) / Y.std(axis=0)
    # One latent function: the outputs' deviations from their constants are proportional.
    assert np.linalg.matrix_rank(np.diff(deviation, axis=0), tol=1e-8) == 1
    latent_cov = cov - np.diag(model.noise_variance_)
    correlation = latent_cov[:, 0, 2] / np.sqrt(latent_cov[:, 0, 0] * latent_cov[:, 2, 2])
    np.testing.assert_allclose(correlation, -1.0, atol=1e-6)


@for_coregionalised
def test_fewer_functions_than_outputs(make: Any, data: Data) -> None:
    """Draws of one latent function, and covariances over rows, are in proportion."""
    model = make(n_latents=1)
    if issubclass(type(model), IWDGPRegressor):
        pytest.skip("latent covariates are no functions of x")
    model.fit(data.X, np.column_stack([data.y, 2.0 * data.y, -data.y]))
    factor = model.model_.likelihood.mixing[:, 0].detach().numpy() * model.model_.y_scale.unit
    f = model.sample_functions(3)(data.X_new) - model.model_.y_scale.offset[:, None]
    unit = f / factor[:, None]
    np.testing.assert_allclose(unit, unit[:, :1].repeat(3, 1), rtol=1e-6, atol=1e-9)
    _, cov = model.predict(data.X_new, return_cov=True)
    unit = (cov - np.eye(25)[..., None] * model.noise_variance_) / factor**2
    np.testing.assert_allclose(unit, unit[..., :1].repeat(3, -1), rtol=1e-5, atol=1e-7)


def test_values_behind_missing_entries_do_not_exist(make: Any, data: Data) -> None:
    """A missing entry is skipped: its predictions come from the other column."""
    Y = data.Y.copy()
    hidden = np.arange(len(Y)) % 3 == 0
    Y[hidden, 1] = np.nan
    model = make(max_iter=40).fit(data.X, Y)
    mean, std = model.predict(data.X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    for rows in (hidden, ~hidden):
        error = mean[rows, 1] - data.Y[rows, 1]
        assert np.square(error).mean() < 0.3 * data.Y[:, 1].var()


@pytest.mark.usefixtures("no_steps")
@pytest.mark.usefixtures("full_start")
def test_the_mean_of_a_column_is_that_of_its_observed_entries(case: Case, data: Data) -> None:
    """Where the inputs say nothing and nothing is learnt, a column's mean is its prediction."""
    Y = data.Y.copy()
    Y[:30, 1] = np.nan
    X = np.ones((60, 2))
    model = case.make(max_iter=1).fit(X, Y)
    # Latent covariates start as residuals, which have their prior's distribution but roughly.
    # Units start close to what the mixing matrix of the latent functions would make of them.
    # The deep ones have more latent functions, and the units of each are off by chance.
    of_units = 0.6 if case.name == "neural-dgp" else 0.3
    roughly = 0.05 if case.has_covariates else of_units if case.has_units else 1e-5
    tolerance = roughly * np.nanstd(Y, axis=0)
    error = np.abs(model.predict(X[:1])[0] - np.nanmean(Y, axis=0))
    assert (error < tolerance).all()


def test_a_single_column_may_have_missing_entries(make: Any, data: Data) -> None:
    Y = data.y[:, None].copy()
    Y[::3] = np.nan
    model = make(max_iter=40).fit(data.X, Y)
    assert model.score(data.X_new, data.y_new) > 0.7


def test_the_order_of_columns_does_not_matter_much(case: Case, data: Data) -> None:
    case.skip_if_a_network_is_the_mean()
    # Where random weights meet other columns, equal functions take longer to find.
    longer = {"max_iter": 60} if case.has_units else {}
    is_network = case.name.startswith("cvae")
    model = case.make(**({"max_iter": 200} if is_network else longer))
    forward = model.fit(data.X, data.Y).predict(data.X_new)
    backward = model.fit(data.X, data.Y[:, ::-1]).predict(data.X_new)[:, ::-1]
    tolerance = 0.3 if case.has_units else 0.2
    assert (np.abs(forward - backward) < tolerance * data.Y.std(axis=0)).all()


def test_validation_score_is_the_joint_log_density(make: Any, data: Data) -> None:
    Y_val = np.column_stack([data.y_new, 100.0 - 8.0 * data.y_new + data.X_new[:, 1]])
    Y_val[::5, 0] = np.nan
    model = make(max_iter=3, dtype="float64").fit(data.X, data.Y, X_val=data.X_new, y_val=Y_val)
    dist = model.predict_dist(data.X_new)
    # A row counts as -1,000 nats or more for each of its outputs, in units of standard deviations.
    floors = np.where(np.isnan(Y_val), 0.0, -1000.0 - np.log(data.Y.std(axis=0))).sum(axis=1)
    score = np.maximum(dist.joint_logpdf(Y_val), floors).mean()
    assert model.validation_scores_[-1] == pytest.approx(score, abs=1e-4)


def test_scores_skip_missing_entries(model: Any) -> None:
    data = make_data(seed=1)
    dist = model.predict_dist(data.X)
    Y = data.Y.copy()
    Y[::2, 0] = np.nan
    per_output = nll(Y, dist, multioutput="raw_values")
    assert per_output[0] == pytest.approx(
        nll(data.Y[1::2], dist[1::2], multioutput="raw_values")[0]
    )
    assert np.isfinite(joint_nll(Y, dist))


@pytest.mark.parametrize("kind", [np.array, pd.DataFrame, np.ma.masked_invalid])
def test_r2_skips_missing_entries(kind: Any, model: Any) -> None:
    data = make_data(seed=1)
    Y, mean, weight = data.Y.copy(), model.predict(data.X), np.arange(1.0, len(data.Y) + 1.0)
    Y[::2, 0] = np.nan
    rows = slice(1, None, 2), slice(None)
    for w in (None, weight):
        expected = [
            r2_score(Y[s, k], mean[s, k], sample_weight=None if w is None else w[s])
            for k, s in enumerate(rows)
        ]
        assert model.score(data.X, kind(Y), w) == pytest.approx(np.mean(expected), rel=1e-12)
    # without missing entries, that of scikit-learn bit for bit
    assert model.score(data.X, kind(data.Y), weight) == r2_score(data.Y, mean, sample_weight=weight)


@pytest.mark.parametrize("n_seen", [0, 1])
def test_r2_of_an_output_without_two_entries_is_refused(model: Any, n_seen: int) -> None:
    data = make_data(seed=1)
    Y = data.Y.copy()
    Y[n_seen:, 1] = np.nan
    with pytest.raises(ValueError, match=f"y has {n_seen} observed entries in column 1, and R"):
        model.score(data.X, Y)
