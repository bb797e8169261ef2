"""Deep regressors: layers that are built, fitted attributes, training that goes on, messages."""

import gpytorch
import numpy as np
import pytest
from deep_problem import DGP, DSPP, SMALL, both_families, make_table
from oracles.deep import stack_mixture
from oracles.models import to_array
from sklearn.model_selection import GridSearchCV, cross_val_score

from skgp import DGPRegressor, DSPPRegressor

pytestmark = pytest.mark.usefixtures("short_start")


@pytest.fixture
def table(rng):
    return make_table(rng)


# ---------------------------------------------------------- structure of the model


@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize(
    ("topology", "kernel_inputs", "mean_inputs"),
    [
        ("feedforward", 0, 0),
        ("skip-mean", 0, None),
        ("skip-mean-both", 0, 3),
        ("skip-all", 3, 3),
    ],
)
def test_topology_is_that_of_the_second_of_three_layers(
    table, topology, width, kernel_inputs, mean_inputs
):
    """Columns that each layer sees beside those below it; the top layer's mean is a constant."""
    X, Y, _, _ = table
    params = {"width": width, "n_layers": 3, "topology": topology, "max_iter": 1}
    model = DGPRegressor(**{**DGP, **params}).fit(X, Y[:, 0])
    first, second, top = model.stack_.layers
    assert first.Z.shape[2] == 3
    assert second.Z.shape[2] == width + kernel_inputs
    assert top.Z.shape[2] == width
    assert first.slope.shape == (3, width)
    assert second.slope.shape == (3 if mean_inputs is None else width + mean_inputs, width)
    assert top.slope is None


def test_a_mean_that_skips_a_layer_starts_at_directions_of_all_inputs(table, no_steps):
    """It sees the inputs, so it starts as the first layer's does, not at the first W of them."""
    X, Y, _, _ = table
    model = DGPRegressor(**DGP, n_layers=3, topology="skip-mean").fit(X, Y[:, 0])
    first, second, _ = model.stack_.layers
    np.testing.assert_allclose(to_array(second.slope), to_array(first.slope), atol=1e-12)
    assert (to_array(second.slope) != 0.0).all()


@pytest.mark.parametrize("topology", ["feedforward", "skip-mean-both", "skip-all"])
def test_a_mean_of_what_lies_below_starts_at_the_identity(table, no_steps, topology):
    X, Y, _, _ = table
    model = DSPPRegressor(**DSPP, n_layers=3, topology=topology).fit(X, Y[:, 0])
    slope = to_array(model.stack_.layers[1].slope)
    np.testing.assert_array_equal(slope[:2], np.eye(2))
    np.testing.assert_array_equal(slope[2:], 0.0)


def test_linear_means_learn_and_identity_means_do_not(table):
    X, Y, _, _ = table
    for hidden_mean, moves in (("linear", True), ("identity", False)):
        for model in both_families(hidden_mean=hidden_mean, width=3, n_layers=3):
            model.fit(X, Y[:, 0])
            for layer in model.stack_.layers[:2]:
                assert (to_array(layer.slope) != np.eye(3)).any() == moves


def test_concatenated_layers_have_no_linear_mean_and_tell_their_gps_apart(table, no_steps):
    X, Y, _, _ = table
    for model in both_families(hidden_mean="concatenate", n_layers=3):
        model.fit(X, Y[:, 0])
        layers = model.stack_.layers
        assert [layer.slope for layer in layers] == [None] * 3
        assert [layer.Z.shape[2] for layer in layers] == [3, 5, 5]
        mu = np.concatenate([to_array(layer.posterior.mu) for layer in layers[:2]])
        assert len(np.unique(mu)) == mu.size  # of one layer, and of one and another


def test_hidden_layers_start_at_their_linear_mean(table, no_steps):
    """q-means of zero, and little variance of q: next to none in the doubly stochastic paper."""
    X, Y, _, _ = table
    for model, variance in zip(both_families(), (1e-5, 0.01), strict=True):
        hidden = model.fit(X, Y[:, 0]).stack_.layers[0]
        mu, root = hidden.posterior.moments()
        np.testing.assert_array_equal(to_array(mu), 0.0)
        diagonal = root if root.dim() == 2 else root.diagonal(dim1=-2, dim2=-1)
        np.testing.assert_allclose(to_array(diagonal) ** 2, variance, rtol=1e-6)


@pytest.mark.parametrize(("noise", "is_fitted"), [(0.1, True), (1.0, False)])
def test_a_top_layer_starts_if_hidden_layers_explain_the_targets(
    rng, no_steps, monkeypatch, noise, is_fitted
):
    """Up to a twentieth of their variance. A bound is better off without that start."""
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(60)
    dgp, dspp = both_families(batch_size=15, n_inducing=20, dtype="float64")
    # With one batch as with several:
    monkeypatch.setattr("skgp.recipes.spec._KEPT_JITTER", 1.0)
    monkeypatch.setattr("skgp.recipes.hidden._CLOSE_VAR", 1.0)
    mean = dspp.fit(X, y).predict(X)
    assert (np.ptp(mean) > 1e-3) == is_fitted
    assert np.ptp(dgp.fit(X, y).predict(X)) < 1e-3
    if is_fitted:
        one_batch = dspp.set_params(batch_size=60).fit(X, y).predict(X)
        np.testing.assert_allclose(mean, one_batch, rtol=1e-9, atol=1e-9)
    dspp.set_params(batch_size=15, initial_noise=0.05).fit(X, y)  # which no search looks for
    assert np.ptp(dspp.predict(X)) < 1e-3
    np.testing.assert_allclose(dspp.noise_variance_, 0.05 * y.var(), rtol=1e-6)


# ---------------------------------------------------------------- fitted attributes


def test_attributes_of_the_first_layer_are_in_units_of_x(table):
    """Inducing inputs start among the rows, lengthscales at sqrt(D) standard deviations."""
    X, Y, _, _ = table
    for model in both_families(max_iter=1, learning_rate_init=1e-9):
        model.fit(X, Y[:, 0])
        Z, lengthscales = model.inducing_points_, model.lengthscales_
        assert Z.shape == (2, 8, 3)
        assert (Z >= X.min(0) - 1e-6).all()
        assert (Z <= X.max(0) + 1e-6).all()
        np.testing.assert_allclose(Z[0], Z[1], rtol=1e-6)
        np.testing.assert_allclose(
            lengthscales, np.sqrt(3.0) * np.broadcast_to(X.std(0), (2, 3)), rtol=1e-6
        )


def test_attributes_behind_a_feature_extractor_are_those_of_features(table):
    X, Y, _, _ = table
    for model in both_families(feature_extractor=[4, 2]):
        model.fit(X, Y[:, 0])
        hidden = model.stack_.layers[0]
        np.testing.assert_array_equal(model.inducing_points_, to_array(hidden.Z))
        np.testing.assert_array_equal(model.lengthscales_, to_array(hidden.kernel.lengthscale))


@pytest.mark.parametrize("quadrature", ["qr1", "qr2", "qr3", "continuous", "gauss-hermite"])
@pytest.mark.parametrize("n_layers", [2, 3])
def test_quadrature_attributes_are_the_nodes_of_a_prediction(table, quadrature, n_layers):
    X, Y, X_new, _ = table
    model = DSPPRegressor(**{**DSPP, "quadrature": quadrature, "n_layers": n_layers})
    model.fit(X, Y[:, 0])
    points, weights = model.quadrature_points_, model.quadrature_weights_
    n_nodes = {"qr3": 3, "continuous": 3 * 4}.get(quadrature, 3 ** (2 * (n_layers - 1)))
    assert points.shape == (n_layers - 1, n_nodes, 2)
    assert weights.shape == (n_nodes,)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    naive = stack_mixture(
        model.stack_,
        model.model_.likelihood,
        (X_new - model.model_.x_scale.offset) / model.model_.x_scale.unit,
        [layer[:, None] for layer in points],
        weights,
    )
    offset, unit = model.model_.y_scale.offset, model.model_.y_scale.unit
    np.testing.assert_allclose(
        model.predict(X_new), offset[0] + unit[0] * naive.total_mean()[:, 0], rtol=1e-8
    )
    components = model.predict_dist(X_new).components()
    np.testing.assert_allclose(
        components.weights, np.broadcast_to(weights, components.weights.shape), rtol=1e-10
    )


def test_sigma_points_learn_and_fixed_ones_do_not(table):
    X, Y, _, _ = table
    learned = dict.fromkeys(("qr1", "qr2", "continuous"), True)
    for quadrature, learns in {**learned, "gauss-hermite": False}.items():
        models = [
            DSPPRegressor(**{**DSPP, "quadrature": quadrature, "max_iter": n}).fit(X, Y[:, 0])
            for n in (1, 10)
        ]
        for name in ("quadrature_points_", "quadrature_weights_"):
            few, many = (getattr(model, name) for model in models)
            assert np.allclose(few, many, rtol=0, atol=1e-12) != learns


def test_a_search_over_quadrature_rules(table):
    X, Y, _, _ = table
    rules = ["qr3", "continuous"]
    search = GridSearchCV(DSPPRegressor(**DSPP), {"quadrature": rules}, cv=2).fit(X, Y[:, 0])
    expected = [
        cross_val_score(DSPPRegressor(**{**DSPP, "quadrature": name}), X, Y[:, 0], cv=2).mean()
        for name in rules
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-9)
    assert search.best_params_ == {"quadrature": rules[np.argmax(expected)]}
    assert expected[0] != expected[1]


# ------------------------------------------------------- training that goes on


def test_prediction_samples_are_fixed_by_the_fit(table):
    """32 nodes or as many as asked; the same for every call and whatever rows come along."""
    X, Y, X_new, _ = table
    model = DGPRegressor(**DGP).fit(X, Y[:, 0])
    whole = model.predict_dist(X_new)
    assert whole.components().mean.shape[-1] == 5
    np.testing.assert_array_equal(model.predict_dist(X_new).mean(), whole.mean())
    alone = np.concatenate([model.predict(X_new[i : i + 1]) for i in range(len(X_new))])
    np.testing.assert_allclose(alone, whole.mean(), rtol=1e-10)


def test_continued_training_uses_new_draws(table):
    """partial_fit and warm_start go on with the step number, not with the first draws again."""
    X, Y, _, _ = table
    model = DGPRegressor(**DGP)
    for n_calls in range(1, 4):
        model.partial_fit(X, Y[:, 0])
        assert model.model_.n_steps == n_calls
    warm = DGPRegressor(**DGP, warm_start=True).fit(X, Y[:, 0])
    assert warm.model_.n_steps == 6
    warm.fit(X, Y[:, 0])
    assert warm.model_.n_steps == 12


def test_validation_does_not_use_up_draws(table):
    X, Y, _, _ = table
    plain = DGPRegressor(**DGP).fit(X, Y[:, 0])
    watched = DGPRegressor(**{**DGP, "early_stopping": True})
    watched.fit(X, Y[:, 0], X_val=X[:5], y_val=Y[:5, 0])
    assert len(watched.validation_scores_) == 6
    np.testing.assert_array_equal(plain.loss_curve_, watched.loss_curve_)


def test_chunks_of_a_stream_train_all_layers(table):
    """Two full-batch calls are two epochs of constant rate, in every parameter."""
    X, Y, _, _ = table
    for model in both_families():
        model.partial_fit(X, Y[:, 0])
        before = {name: to_array(p) for name, p in model.model_.named_parameters()}
        model.partial_fit(X, Y[:, 0])
        for name, parameter in model.model_.named_parameters():
            assert (to_array(parameter) != before[name]).any(), name


def test_warm_start_goes_on_from_the_fitted_nodes(table):
    X, Y, _, _ = table
    tiny = {"learning_rate_init": 1e-12, "max_iter": 1}
    model = DSPPRegressor(**DSPP, warm_start=True).fit(X, Y[:, 0])
    points, weights = model.quadrature_points_, model.quadrature_weights_
    model.set_params(**tiny).fit(X, Y[:, 0])
    np.testing.assert_allclose(model.quadrature_points_, points, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.quadrature_weights_, weights, rtol=0, atol=1e-6)


# --------------------------------------------------------------------- messages


@pytest.mark.parametrize("quadrature", ["qr1", "qr2", "gauss-hermite"])
def test_a_grid_that_explodes_says_what_would_fit(table, quadrature):
    X, Y, _, _ = table
    model = DSPPRegressor(quadrature=quadrature, n_sites=10, width=3, **SMALL)
    message = r"10\*\*3 components, and at most 500.*n_sites <= 7,.*quadrature='qr3'"
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y[:, 0])
    model.set_params(n_layers=3, n_sites=3)
    with pytest.raises(ValueError, match=r"3\*\*6 components.*n_sites <= 2"):
        model.fit(X, Y[:, 0])
    for n_layers, width, largest in ((2, 3, 7), (3, 1, 22), (2, 4, 4)):  # 343, 484 and 256 nodes
        model.set_params(n_layers=n_layers, width=width, n_sites=largest)._validate_params()
        with pytest.raises(ValueError, match=f"n_sites <= {largest},"):
            model.set_params(n_sites=largest + 1)._validate_params()


def test_lined_nodes_are_as_many_as_one_likes():
    DSPPRegressor(n_sites=1000, width=20, n_layers=4)._validate_params()


def test_gamma_needs_the_bound(table):
    X, Y, _, _ = table
    model = DGPRegressor(objective="predictive", gamma=1.05, **DGP)
    with pytest.raises(ValueError, match=r"gamma=1\.05 belongs to objective='elbo'"):
        model.fit(X, Y[:, 0])


@pytest.mark.parametrize("topology", ["skip-mean", "skip-mean-both", "skip-all"])
def test_a_topology_needs_linear_means(table, topology):
    X, Y, _, _ = table
    for model in both_families(hidden_mean="concatenate", topology=topology):
        with pytest.raises(ValueError, match=f"topology='{topology}'.*use topology='feedforward'"):
            model.fit(X, Y[:, 0])


@pytest.mark.parametrize("cls", [DGPRegressor, DSPPRegressor])
def test_number_of_layers(table, cls):
    X, Y, _, _ = table
    least = 1 if cls is DGPRegressor else 2
    for bad in (least - 1, -1, 2.0, None):
        with pytest.raises(ValueError, match="'n_layers' parameter"):
            cls(n_layers=bad, **SMALL).fit(X, Y[:, 0])


def test_a_kernel_that_does_not_fit_a_hidden_layer_says_which(table):
    """The first layer sees the columns of X, those above see `width`, or both."""
    X, Y, _, _ = table
    ard = gpytorch.kernels.RBFKernel(ard_num_dims=3)
    for model in both_families(kernel=ard):
        with pytest.raises(
            ValueError, match=r"kernel.*layer 2 of 2,.* 2 columns.*leave out.*let width"
        ):
            model.fit(X, Y[:, 0])
    for model in both_families(kernel=ard, n_layers=3, topology="skip-all", width=3):
        with pytest.raises(ValueError, match=r"layer 2 of 3,.* 6 columns.*leave out") as caught:
            model.fit(X, Y[:, 0])
        assert "width" not in str(caught.value)  # no width would fit
    for model in both_families(kernel=ard, n_layers=3, topology="skip-mean"):
        with pytest.raises(ValueError, match=r"layer 2 of 3,.* 2 columns.*let width"):
            model.fit(X, Y[:, 0])
    for model in both_families(kernel=ard, hidden_mean="concatenate"):
        with pytest.raises(ValueError, match=r"layer 2 of 2,.* 5 columns"):
            model.fit(X, Y[:, 0])


def test_a_kernel_that_does_not_fit_the_inputs_is_told_so(table):
    X, Y, _, _ = table
    ard = gpytorch.kernels.RBFKernel(ard_num_dims=2)
    for model in both_families(kernel=ard):
        with pytest.raises(ValueError, match=r"ard_num_dims=2.*X has 3 columns"):
            model.fit(X, Y[:, 0])


def test_kernels_of_gpytorch_that_fit(table):
    X, Y, X_new, _ = table
    for kernel, width in (
        (gpytorch.kernels.RBFKernel(ard_num_dims=3), 3),
        (gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel()), 2),
    ):
        for model in both_families(kernel=kernel, width=width):
            model.fit(X, Y[:, 0])
            error = model.predict(X_new) - Y[:, 0].mean()
            assert np.isfinite(error).all()
            copies = [id(k) for layer in model.stack_.layers for k in layer.kernel.kernels]
            assert len(set(copies)) == width + 1
