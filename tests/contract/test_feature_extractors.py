"""Deep kernels: what every estimator promises, with a network between inputs and kernel."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from contract_cases import Case, Data
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from skgp import PPGPRRegressor, SVGPRegressor, VFITCRegressor
from skgp.core.data import Batch, Targets
from skgp.core.networks.chance import chance_of


def tanh_network(n_features: int) -> nn.Module:
    """A factory of a module, which pickles by its name; without batch norm."""
    return nn.Sequential(nn.Linear(n_features, 6), nn.Tanh(), nn.Linear(6, 2))


def normed_network(n_features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_features, 6), nn.BatchNorm1d(6), nn.Tanh())


class TanhNetwork(nn.Sequential):
    """A class that makes the same one; it has a length only where it is made."""

    def __init__(self, n_features: int) -> None:
        super().__init__(nn.Linear(n_features, 6), nn.Tanh(), nn.Linear(6, 2))


CLASSES = {"svgp": SVGPRegressor, "ppgpr": PPGPRRegressor, "vfitc": VFITCRegressor}
EXTRACTORS = {"sizes": [12, 3], "factory": normed_network}
pytestmark = pytest.mark.usefixtures("short_start")
CASES = [
    *(
        Case(f"{name}-{kind}", cls, {"feature_extractor": extractor})
        for name, cls in CLASSES.items()
        for kind, extractor in EXTRACTORS.items()
    ),
    Case("svgp-dkl", SVGPRegressor, {"feature_extractor": "dkl"}),
]
SMALL = {"max_iter": 2, "n_inducing": 8}


def predictions(model: Any, X: Any) -> Any:
    return np.stack(model.predict(X, return_std=True))


def test_clones_pickles_and_repeated_fits_are_equal(case: Case, data: Data) -> None:
    """Bit for bit, in prediction also row by row: running statistics, not those of the call."""
    model = case.make(**SMALL).fit(data.X, data.y)
    expected = predictions(model, data.X_new)
    again = clone(model)
    assert again.feature_extractor == model.feature_extractor
    np.testing.assert_array_equal(predictions(again.fit(data.X, data.y), data.X_new), expected)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(predictions(restored, data.X_new), expected)
    alone = np.concatenate([predictions(model, data.X_new[i : i + 1]) for i in range(3)], 1)
    np.testing.assert_allclose(alone, expected[:, :3], rtol=1e-9)
    assert not model.model_.training
    other = clone(model).set_params(random_state=1).fit(data.X, data.y)
    assert (predictions(other, data.X_new) != expected).any()


@pytest.mark.parametrize("name", list(CLASSES))
def test_training_goes_on_after_validation(name: str, data: Data) -> None:
    """Validation switches batch norms to their running statistics, and back."""
    model = CLASSES[name](feature_extractor=[5, 2], random_state=0, n_inducing=8, max_iter=4)
    model.fit(data.X, data.y, X_val=data.X_new, y_val=data.y_new)
    assert len(model.validation_scores_) == 4
    alone = clone(model).fit(data.X, data.y)
    np.testing.assert_array_equal(predictions(model, data.X), predictions(alone, data.X))
    assert clone(model).set_params(early_stopping=True).fit(data.X, data.y).n_iter_ > 0


@pytest.mark.parametrize("name", list(CLASSES))
def test_fits_go_on(name: str, data: Data) -> None:
    model = CLASSES[name](feature_extractor=[5, 2], random_state=0, n_inducing=8, warm_start=True)
    model.set_params(max_iter=20, learning_rate_init=0.01).fit(data.X, data.y)
    weights, first = network_weights(model), model.loss_curve_
    model.set_params(max_iter=2).fit(data.X, data.y)
    assert model.loss_curve_[0] == pytest.approx(first[-1], abs=0.02)
    assert model.loss_curve_[0] < first[0]
    model.partial_fit(data.X, data.y)
    assert model.n_iter_ == 3
    assert model.loss_curve_[-1] < first[0]
    moved = network_weights(model)
    assert 0.0 < np.abs(moved - weights).max() < 0.1


def network_weights(model: Any) -> Any:
    parameters = model.stack_.features.parameters()
    return torch.nn.utils.parameters_to_vector(parameters).detach().numpy()


@pytest.mark.parametrize("name", list(CLASSES))
def test_several_outputs_with_missing_entries(name: str, data: Data) -> None:
    Y = data.Y.copy()
    Y[::4, 1] = np.nan
    model = CLASSES[name](feature_extractor=[6, 2], random_state=0, n_inducing=8, max_iter=3)
    mean, std = model.fit(data.X, Y).predict(data.X_new, return_std=True)
    assert mean.shape == (25, 2)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    assert model.lengthscales_.shape == (2, 2)


def test_a_class_makes_a_network_as_a_function_does(data: Data) -> None:
    makers = TanhNetwork, tanh_network
    models = [SVGPRegressor(feature_extractor=m, random_state=0, **SMALL) for m in makers]
    of_class, of_function = (predictions(m.fit(data.X, data.y), data.X_new) for m in models)
    np.testing.assert_array_equal(of_class, of_function)


def test_a_search_over_networks(data: Data) -> None:
    grid = {"feature_extractor": [None, [4, 2], tanh_network]}
    search = GridSearchCV(SVGPRegressor(random_state=0, **SMALL), grid, cv=2).fit(data.X, data.y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(set(scores)) == 3


def test_weight_decay_is_a_penalty_on_the_network_alone(data: Data) -> None:
    """Finite differences of the training loss, with and without it, in every parameter."""
    estimator = SVGPRegressor(feature_extractor=tanh_network, random_state=0, **SMALL)
    model = estimator.fit(data.X, data.y).model_.double()
    x, y = torch.from_numpy(data.X[:9] / 30.0), torch.from_numpy(data.y[:9, None] / 20.0)
    batch = Batch(x, Targets(y, None), None)
    network = {id(p) for p in model.stack.features.parameters()}

    def slope(parameter: nn.Parameter, decay: float) -> float:
        values = []
        recipe = estimator.set_params(weight_decay=decay)._recipe()
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                parameter.view(-1)[0] += step
                values.append(recipe.loss(model, batch, 0, 60.0).item())
        with torch.no_grad():
            parameter.view(-1)[0] += 1e-5
        return (values[0] - values[1]) / 2e-5

    for parameter in model.parameters():
        share = slope(parameter, 0.7) - slope(parameter, 0.0)
        expected = 0.7 * parameter.view(-1)[0].item() if id(parameter) in network else 0.0
        assert share == pytest.approx(expected, abs=1e-6)
    assert len(network) == 4


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", list(CLASSES))
def test_a_single_row_is_refused(name: str, method: str, data: Data) -> None:
    model = CLASSES[name](feature_extractor=[4, 2], random_state=0, **SMALL)
    with pytest.raises(ValueError, match=r"feature_extractor has a batch norm.*n_samples=1"):
        getattr(model, method)(data.X[:1], data.y[:1])
    assert not hasattr(model, "model_")


def test_a_batch_of_a_single_row_is_refused(data: Data) -> None:
    """Also the last one of an odd number of rows; without batch norm one row is enough."""
    model = SVGPRegressor(feature_extractor=[4, 2], random_state=0, **SMALL)
    for batch_size, n in ((1, 6), (2, 3)):
        model.set_params(batch_size=batch_size)
        with pytest.raises(ValueError, match=r"feature_extractor.*n_samples=1.*larger batches"):
            model.fit(data.X[:n], data.y[:n])
    model.set_params(batch_size=2).fit(data.X[:4], data.y[:4])
    with pytest.raises(ValueError, match="n_samples=1"):
        model.partial_fit(data.X[:1], data.y[:1])
    model.set_params(feature_extractor=tanh_network, batch_size=1)
    assert np.isfinite(model.fit(data.X[:3], data.y[:3]).predict(data.X)).all()


def test_fitted_attributes_are_in_the_units_of_the_features(data: Data) -> None:
    """Inputs in any unit: the features and what belongs to them stay standardised."""
    params = {"feature_extractor": [4, 2], "max_iter": 1, "random_state": 0, "dtype": "float64"}
    model = SVGPRegressor(n_inducing=8, **params).fit(data.X, data.y)
    scaled = SVGPRegressor(n_inducing=8, **params).fit(1024.0 * data.X, data.y)
    assert model.lengthscales_.shape == (2,)
    assert model.inducing_points_.shape == (8, 2)
    assert np.abs(model.inducing_points_).max() < 6.0
    np.testing.assert_allclose(scaled.lengthscales_, model.lengthscales_, rtol=1e-9)
    np.testing.assert_allclose(scaled.inducing_points_, model.inducing_points_, rtol=1e-6)
    layer = model.stack_.bottom
    np.testing.assert_array_equal(model.inducing_points_, layer.Z[0].detach())
    np.testing.assert_array_equal(model.lengthscales_, layer.kernel.lengthscale[0].detach())


def rotated_steps(n: int, seed: int) -> tuple[Any, Any]:
    """A staircase along one direction that no input is parallel to."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    direction = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, 1.0]) / np.sqrt(8.0)
    return X, np.sign(X @ direction) + 0.05 * rng.standard_normal(n)


def test_a_network_learns_a_step_along_a_rotated_direction() -> None:
    """ARD scales the inputs one by one, so the plain kernel cannot turn them."""
    X, y = rotated_steps(400, 0)
    X_new, y_new = rotated_steps(300, 1)
    params = {"n_inducing": 20, "max_iter": 60, "learning_rate_init": 0.02, "random_state": 0}
    errors = [
        1.0 - SVGPRegressor(feature_extractor=f, **params).fit(X, y).score(X_new, y_new)
        for f in (None, [16, 2])
    ]
    assert errors[1] < 0.7 * errors[0]


EXPECTED_FAILURES = {
    "check_regressors_no_decision_function": "it forbids predict_proba on regressors, the only "
    "method that Pipeline and GridSearchCV forward and that can return a distribution",
    **dict.fromkeys(
        ("check_sample_weight_equivalence_on_dense_data",),
        "batch norms take their statistics over rows without weights",
    ),
}


@parametrize_with_checks(
    [SVGPRegressor(n_inducing=8, max_iter=40, random_state=0, feature_extractor=[6, 2])],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_sklearn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def dropping_network(n_features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_features, 6), nn.Dropout(0.4), nn.Linear(6, 2))


def test_dropout_layers_draw_from_the_random_state(data: Data) -> None:
    """And neither from torch's global generator nor into it; another seed draws otherwise."""
    model = SVGPRegressor(feature_extractor=dropping_network, n_inducing=5, max_iter=3)
    predictions = []
    for seed in (0, 0, 1):
        torch.rand(3)  # whatever else a program draws
        before = torch.get_rng_state()
        fitted = clone(model).set_params(random_state=seed).fit(data.X, data.y)
        assert torch.equal(torch.get_rng_state(), before)
        predictions.append(fitted.predict(data.X_new))
    np.testing.assert_array_equal(predictions[0], predictions[1])
    assert not np.array_equal(predictions[0], predictions[2])


@pytest.mark.parametrize("batch_size", [15, 1000])
def test_statistics_of_a_batch_norm_draw_from_the_random_state(data: Data, batch_size: int) -> None:
    """They come from a pass in which dropout layers draw."""

    def network(n_features: int) -> nn.Module:
        layers = nn.Linear(n_features, 6), nn.Dropout(0.3), nn.Linear(6, 2), nn.BatchNorm1d(2)
        return nn.Sequential(*layers)

    model = SVGPRegressor(feature_extractor=network, n_inducing=5, max_iter=2, random_state=0)
    model.set_params(batch_size=batch_size)
    predictions = []
    for _ in range(2):
        torch.rand(3)
        before = torch.get_rng_state()
        predictions.append(model.fit(data.X, data.y).predict(data.X_new))
        assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(*predictions)


def test_dropout_layers_go_on_as_they_would_have(data: Data) -> None:
    """The draws of a step are those of its number: a second epoch has others than the first."""
    network = dropping_network(data.X.shape[1])
    x = torch.ones(4, data.X.shape[1])
    draw = chance_of(network, 7)
    first, again, second = (_evaluated(network, x, draw(x.device, step)) for step in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    state = torch.get_rng_state()
    with chance_of(tanh_network(3), 7)(x.device, 0):  # never draws, and is left alone
        torch.rand(3)
    assert not torch.equal(torch.get_rng_state(), state)


def _evaluated(network: nn.Module, x: torch.Tensor, context: Any) -> torch.Tensor:
    with context:
        return network(x).detach()


def test_other_fits_leave_the_global_generator_alone(data: Data, monkeypatch: Any) -> None:
    """Another thread may draw from it meanwhile."""

    def forked(*arguments: Any, **parameters: Any) -> None:
        raise AssertionError("its state was changed")

    monkeypatch.setattr(torch.random, "fork_rng", forked)
    for kernel in ("matern52", "rational_quadratic"):
        model = SVGPRegressor(kernel=kernel, n_inducing=5, max_iter=2, random_state=0)
        model.fit(data.X, data.y).predict(data.X_new)


def test_kernels_that_draw_when_they_are_first_evaluated(data: Data) -> None:
    kernels = pytest.importorskip("gpytorch").kernels

    def predictions() -> np.ndarray:
        kernel = kernels.ScaleKernel(kernels.RFFKernel(num_samples=5))
        model = SVGPRegressor(kernel=kernel, n_inducing=5, max_iter=2, random_state=0)
        torch.rand(2)
        return model.fit(data.X, data.y).predict(data.X_new)

    np.testing.assert_array_equal(predictions(), predictions())
