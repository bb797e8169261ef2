"""Data that are legal but nasty: a finite answer with a positive deviation comes back."""

from typing import Any

import numpy as np
import pytest
from contract_cases import REPRESENTATIVES, Case, Data, for_gps_alone, for_inducing, make_data

from skgp.exceptions import OutlierWarning

pytestmark = pytest.mark.usefixtures("short_start")

QUICK = REPRESENTATIVES
EPOCHS = 10


@pytest.fixture(scope="module")
def plain(make: Any, data: Data) -> Any:
    """The fit that fits in other units are compared with."""
    return make(max_iter=EPOCHS, dtype="float64").fit(data.X, data.y)


def assert_proper(model: Any, X: Any) -> None:
    """Finite moments and positive deviations, at the data and far away from them."""
    assert np.isfinite(model.loss_curve_).all()
    for rows in (X, X + 1e3 * (np.ptp(X, axis=0) + np.abs(X).max() + 1.0)):
        dists = [model.predict_dist(rows)]
        if hasattr(model, "predict_latent"):
            dists.append(model.predict_latent(rows))
        for dist in dists:
            assert np.isfinite(dist.mean()).all()
            assert np.isfinite(dist.std()).all()
            assert (dist.std() > 0.0).all()
            assert np.isfinite(dist.interval(0.99)).all()


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_rows(make: Any, n: int, n_outputs: int | None) -> None:
    data = make_data(n=n)
    y = data.y if n_outputs is None else data.Y
    model = make(max_iter=EPOCHS).fit(data.X, y)
    assert_proper(model, data.X_new)
    # One row says where y lies but not how far it reaches: its own size is all there is.
    spread = np.ptp(y, axis=0) if n > 1 else np.abs(y[0])
    assert (np.abs(model.predict(data.X) - y.mean(axis=0)) <= spread).all()


@for_inducing
def test_fewer_rows_than_inducing_inputs(case: Case) -> None:
    data = make_data(n=6)
    model = case.make(n_inducing=50).fit(data.X, data.y)
    assert_proper(model, data.X_new)
    assert model.inducing_points_.shape == (*case.functions, 6, 3)


def test_one_input(make: Any, data: Data) -> None:
    model = make().fit(data.X[:, :1], data.y)
    assert_proper(model, data.X_new[:, :1])
    assert model.score(data.X_new[:, :1], data.y_new) > 0.5


def test_more_inputs_than_rows(make: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 500))
    y = X[:, :100].sum(axis=1)
    model = make(max_iter=EPOCHS).fit(X, y)
    assert_proper(model, X)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.5


def test_the_value_of_a_constant_input_does_not_matter(make: Any, data: Data) -> None:
    desired = None
    for value in (0.0, 0.1, 1e9, -1e-9):
        X, X_new = (np.column_stack([X, np.full(len(X), value)]) for X in (data.X, data.X_new))
        model = make(max_iter=EPOCHS, dtype="float64").fit(X, data.y)
        assert_proper(model, X_new)
        assert model.score(X_new, data.y_new) > 0.5
        actual = np.stack(model.predict(X_new, return_std=True))
        desired = actual if desired is None else desired
        np.testing.assert_allclose(actual, desired, rtol=1e-6, err_msg=str(value))


@pytest.mark.parametrize("seed", range(4))  # rounding is above zero or below it
def test_a_constant_input_of_weighted_rows(make: Any, data: Data, seed: int) -> None:
    X = np.column_stack([data.X, np.ones(60)])
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, 60)
    model = make(max_iter=1).fit(X, data.y, sample_weight=weight)  # without a warning
    assert_proper(model, X)
    assert model.model_.x_scale.unit[3] == 1.0


@pytest.mark.usefixtures("full_start")
def test_all_inputs_constant(make: Any, data: Data) -> None:
    X = np.full((60, 3), 2.5)
    model = make().fit(X, data.y)
    assert_proper(model, X)
    mean, std = model.predict(X[:2], return_std=True)
    np.testing.assert_allclose(mean, data.y.mean(), atol=0.3 * data.y.std())
    np.testing.assert_allclose(std, data.y.std(), rtol=0.5)


def test_duplicated_rows(make: Any, data: Data) -> None:
    X, y = np.repeat(data.X[:5], 20, axis=0), np.repeat(data.y[:5], 20)
    model = make().fit(X, y)
    assert_proper(model, X)
    assert model.score(X, y) > 0.5


@for_inducing
def test_duplicated_rows_are_one_inducing_input(make: Any, data: Data) -> None:
    X, y = np.repeat(data.X[:5], 20, axis=0), np.repeat(data.y[:5], 20)
    model = make(max_iter=1).fit(X, y)
    assert model.inducing_points_.shape[-2] == 5
    assert {layer.Z.shape[-2] for layer in model.stack_.layers} == {5}


@pytest.mark.usefixtures("full_start")
def test_duplicated_inputs_with_contradicting_targets(make: Any) -> None:
    X = np.repeat([[0.0], [1.0]], 50, axis=0)
    y = np.tile([0.0, 1.0], 50)
    model = make().fit(X, y)
    assert_proper(model, X)
    mean, std = model.predict([[0.0], [1.0]], return_std=True)
    np.testing.assert_allclose(mean, 0.5, atol=0.15)
    np.testing.assert_allclose(std, 0.5, rtol=0.5)


@pytest.mark.parametrize("value", [0.0, 1e9, -1e9, 1e-9, 0.1])
def test_a_constant_target(case: Case, make: Any, data: Data, value: float) -> None:
    case.skip_if_a_network_is_the_mean()
    model = make(max_iter=EPOCHS).fit(data.X, np.full(len(data.X), value))
    assert_proper(model, data.X_new)
    mean, std = model.predict(data.X_new, return_std=True)
    unit = abs(value) or 1.0
    np.testing.assert_allclose(mean, value, atol=0.05 * unit)
    # Ignorance in the units of the target: neither certainty nor some fixed number.
    assert (std > 1e-3 * unit).all()
    assert (std < unit).all()


def test_a_constant_output_beside_another(case: Case, data: Data) -> None:
    make = case.make
    Y = np.column_stack([data.y, np.full(len(data.y), 7.0)])
    model = make().fit(data.X, Y)
    assert_proper(model, data.X_new)
    mean, std = model.predict(data.X_new, return_std=True)
    np.testing.assert_allclose(mean[:, 1], 7.0, atol=0.5)
    assert (std[:, 1] < 7.0).all()
    alone = make().fit(data.X, data.y)
    assert model.score(data.X_new, np.column_stack([data.y_new, mean[:, 1]])) > 0.5
    # Two outputs have other random units than one.
    tolerance = (0.7 if case.has_units else 0.5) * data.y.std()
    np.testing.assert_allclose(mean[:, 0], alone.predict(data.X_new), atol=tolerance)


@pytest.mark.parametrize("unit", [1e-9, 1e9, 1e100])
def test_units_of_the_target(make: Any, data: Data, plain: Any, unit: float) -> None:
    mean, std = plain.predict(data.X_new, return_std=True)
    scaled = make(max_iter=EPOCHS, dtype="float64").fit(data.X, data.y * unit)
    scaled_mean, scaled_std = scaled.predict(data.X_new, return_std=True)
    np.testing.assert_allclose(scaled_mean / unit, mean, rtol=1e-6)
    np.testing.assert_allclose(scaled_std / unit, std, rtol=1e-6)
    assert (scaled_std > 0.0).all()
    for quantile in (0.05, 0.95):
        np.testing.assert_allclose(
            scaled.predict_quantiles(data.X_new, quantile) / unit,
            plain.predict_quantiles(data.X_new, quantile),
            rtol=1e-6,
        )
    assert scaled.score(data.X_new, data.y_new * unit) == pytest.approx(
        plain.score(data.X_new, data.y_new), rel=1e-6
    )


def test_outputs_of_very_different_units(make: Any, data: Data) -> None:
    units = np.array([1e-9, 1e9])
    model, scaled = (
        make(max_iter=EPOCHS, dtype="float64").fit(data.X, Y) for Y in (data.Y, data.Y * units)
    )
    dist, scaled_dist = model.predict_dist(data.X_new), scaled.predict_dist(data.X_new)
    (mean, cov), (scaled_mean, scaled_cov) = ((d.mean(), d.cov()) for d in (dist, scaled_dist))
    np.testing.assert_allclose(scaled_mean / units, mean, rtol=1e-6)
    np.testing.assert_allclose(scaled_cov / np.outer(units, units), cov, rtol=1e-5, atol=1e-7)
    if model.model_.has_gp_outputs:
        cov, scaled_cov = (m.predict(data.X_new, return_cov=True)[1] for m in (model, scaled))
        np.testing.assert_allclose(scaled_cov / units**2, cov, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("offset", [1e6, -1e9])
def test_a_target_far_from_zero(make: Any, data: Data, plain: Any, offset: float) -> None:
    mean, std = plain.predict(data.X_new, return_std=True)
    shifted = make(max_iter=EPOCHS, dtype="float64").fit(data.X, data.y + offset)
    shifted_mean, shifted_std = shifted.predict(data.X_new, return_std=True)
    np.testing.assert_allclose(shifted_mean - offset, mean, atol=1e-5 * data.y.std())
    np.testing.assert_allclose(shifted_std, std, rtol=1e-5)


@pytest.mark.parametrize(
    ("factor", "offset"), [(1e8, 0.0), (1.0, 1e6), (1e8, -1e14), (1e-100, 0.0)]
)
def test_units_and_origin_of_the_inputs(
    make: Any, data: Data, plain: Any, factor: float, offset: float
) -> None:
    moved = make(max_iter=EPOCHS, dtype="float64").fit(data.X * factor + offset, data.y)
    desired = plain.predict(data.X_new, return_std=True)
    actual = moved.predict(data.X_new * factor + offset, return_std=True)
    for a, b in zip(actual, desired, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_an_outlier_among_the_inputs(make: Any, data: Data) -> None:
    X = data.X.copy()
    X[7, 0] += 1e6 * X[:, 0].std()
    model = make().fit(X, data.y)
    assert_proper(model, X)
    assert np.abs(model.predict(X) - data.y).max() < 2.0 * np.ptp(data.y)


def test_an_outlier_among_the_targets(make: Any, data: Data) -> None:
    y = data.y.copy()
    y[7] += 1e6 * y.std()
    model = make().fit(data.X, y)
    assert_proper(model, data.X)
    assert np.abs(model.predict(data.X)).max() < 2.0 * np.abs(y).max()


@for_gps_alone
@pytest.mark.parametrize("distance", [1e6, 1e30, 1e200])
def test_rows_at_an_absurd_distance_get_the_prior(
    case: Case, make: Any, data: Data, distance: float
) -> None:
    case.skip_if_a_network_is_the_mean()
    model = make(max_iter=EPOCHS).fit(data.X, data.y)
    near, far = (
        model.predict(np.full((1, 3), sign * d), return_std=True)
        for sign, d in ((1.0, 1e5), (-1.0, distance))
    )
    np.testing.assert_allclose(far, near, rtol=1e-6)


@pytest.mark.parametrize("distance", [1e6, 1e30, 1e200])
def test_rows_at_an_absurd_distance_get_a_distribution(
    make: Any, data: Data, distance: float
) -> None:
    dist = make(max_iter=EPOCHS).fit(data.X, data.y).predict_dist(np.full((1, 3), distance))
    assert np.isfinite(dist.mean()).all()
    assert (dist.std() > 0.0).all()


def test_validation_rows_at_an_absurd_distance(make: Any, data: Data) -> None:
    X_val = np.vstack([data.X_new, np.full((1, 3), 1e30)])
    y_val = np.append(data.y_new, 20.0)
    model = make(max_iter=2).fit(data.X, data.y, X_val=X_val, y_val=y_val)
    assert np.isfinite(model.validation_scores_).all()
    if hasattr(model, "partial_fit"):
        with pytest.warns(OutlierWarning, match=r"X in row\(s\) 25 is"):
            model.partial_fit(X_val, y_val)
    assert_proper(model, data.X)


def test_without_scaling_the_units_are_those_of_the_user(make: Any, data: Data) -> None:
    unit = np.array([1.0, 30.0, 0.5])
    params = {"normalize_X": False, "normalize_y": False, "max_iter": EPOCHS}
    y = (data.y - 20.0) / 5.0
    model = make(**params).fit(data.X / unit, y)
    assert_proper(model, data.X / unit)
    assert np.corrcoef(model.predict(data.X_new / unit), data.y_new)[0, 1] > 0.5
