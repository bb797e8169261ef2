"""What the arguments of the constructor and of fit do to a fit."""

import re
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from contract_cases import (
    REPRESENTATIVES,
    Case,
    Data,
    for_gps,
    for_inducing,
    for_latents,
    for_minibatches,
    for_normals,
    for_seeded,
    for_variational,
)

from skgp.core.kernels.names import NAMES
from skgp.scoring import crps, nll

pytestmark = pytest.mark.usefixtures("short_start")

QUICK = REPRESENTATIVES


def assert_same_predictions(a: Any, b: Any, X: Any, rtol: float = 0.0) -> None:
    for left, right in zip(
        a.predict(X, return_std=True), b.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(left, right, rtol=rtol)


def assert_different_predictions(a: Any, b: Any, X: Any) -> None:
    assert not np.allclose(a.predict(X), b.predict(X), rtol=1e-5)


# With these every distinct row is an inducing input, and nothing is dropped.
WITHOUT_CHANCE = {"n_inducing": 60, "n_inducing_mean": 60, "dropout": 0.0}


# ---------------------------------------------------------------- randomness


def test_one_seed_gives_one_result(case: Case, data: Data) -> None:
    params = case.known({"batch_size": 20, "early_stopping": True, "max_iter": 5})
    first, second = (case.make(**params).fit(data.X, data.y) for _ in range(2))
    assert_same_predictions(first, second, data.X_new)
    assert first.loss_curve_ == second.loss_curve_
    assert first.validation_scores_ == second.validation_scores_


@for_inducing
def test_one_seed_gives_one_set_of_inducing_inputs(make: Any, data: Data) -> None:
    first, second = (make(max_iter=1).fit(data.X, data.y) for _ in range(2))
    np.testing.assert_array_equal(first.inducing_points_, second.inducing_points_)


def test_refitting_an_estimator_forgets_the_first_fit(make: Any, data: Data) -> None:
    model = make(max_iter=5).fit(data.X_new, data.y_new)
    model.fit(data.X, data.y)
    fresh = make(max_iter=5).fit(data.X, data.y)
    assert_same_predictions(model, fresh, data.X_new)
    assert model.loss_curve_ == fresh.loss_curve_


@for_minibatches
def test_a_fit_forgets_the_chunks_before(make: Any, data: Data) -> None:
    model = make(max_iter=5).fit(data.X_new, data.y_new).partial_fit(data.X, data.y)
    model.fit(data.X, data.y)
    fresh = make(max_iter=5).fit(data.X, data.y)
    assert_same_predictions(model, fresh, data.X_new)
    for again in (model, fresh):
        again.partial_fit(data.X_new, data.y_new)
    assert_same_predictions(model, fresh, data.X_new)


@for_seeded
def test_another_seed_gives_another_result(make: Any, data: Data) -> None:
    first, second = (make(random_state=seed).fit(data.X, data.y) for seed in (0, 1))
    assert_different_predictions(first, second, data.X_new)


@for_minibatches
def test_a_seed_fixes_the_order_of_rows(case: Case, data: Data) -> None:
    """Of a GP all rows are inducing inputs, so only the order of rows is left to chance."""
    params = case.known(WITHOUT_CHANCE | {"batch_size": 10, "max_iter": 3})
    zero, again, one = (case.make(random_state=s, **params).fit(data.X, data.y) for s in (0, 0, 1))
    assert_same_predictions(zero, again, data.X_new)
    assert zero.loss_curve_ != one.loss_curve_


@for_seeded
def test_a_random_state_object_moves_on(make: Any, data: Data) -> None:
    state = np.random.RandomState(0)
    first = make(random_state=state).fit(data.X, data.y)
    second = make(random_state=state).fit(data.X, data.y)
    assert_different_predictions(first, second, data.X_new)
    assert_same_predictions(first, make(random_state=0).fit(data.X, data.y), data.X_new)


def test_no_global_random_state_is_read_or_changed(case: Case, data: Data) -> None:
    params = case.known({"max_iter": 2, "batch_size": 20})
    legacy = np.random.mtrand._rand  # what np.random.seed sets
    torch_state, numpy_state = torch.get_rng_state(), legacy.get_state()
    try:
        torch.manual_seed(1)
        legacy.seed(1)
        before = torch.get_rng_state(), legacy.get_state()[1].copy()
        first = case.make(**params).fit(data.X, data.y)
        assert torch.equal(torch.get_rng_state(), before[0])
        np.testing.assert_array_equal(legacy.get_state()[1], before[1])
        torch.manual_seed(2)
        legacy.seed(2)
        assert_same_predictions(first, case.make(**params).fit(data.X, data.y), data.X_new)
    finally:
        torch.set_rng_state(torch_state)
        legacy.set_state(numpy_state)


# ------------------------------------------------------------------- weights


@pytest.mark.parametrize("batch_size", [1000, 15])
def test_weight_zero_drops_the_row(case: Case, data: Data, batch_size: int) -> None:
    weight = np.arange(len(data.X)) % 3 * 1.0
    Y = data.Y.copy()
    Y[weight == 0.0] = 1e6
    kept = weight > 0.0
    params = case.known({"max_iter": 5, "batch_size": batch_size})
    dropped = case.make(**params).fit(data.X[kept], Y[kept], weight[kept])
    assert_same_predictions(case.make(**params).fit(data.X, Y, weight), dropped, data.X_new)


@pytest.mark.parametrize("options", [{"batch_size": 15}, {"early_stopping": True}], ids=repr)
def test_a_row_without_targets_is_dropped(case: Case, data: Data, options: Any) -> None:
    """Among those to train on and among those held out, if they do not come from the same rows."""
    Y = data.Y.copy()
    Y[::3] = np.nan
    kept = np.arange(len(Y)) % 3 > 0
    params = case.known({"max_iter": 5, **options})
    held_out = {"X_val": data.X, "y_val": Y} if "early_stopping" in params else {}
    whole = case.make(**params).fit(data.X, Y, **held_out)
    held_out = {name: rows[kept] for name, rows in held_out.items()}
    dropped = case.make(**params).fit(data.X[kept], Y[kept], **held_out)
    assert_same_predictions(whole, dropped, data.X_new)
    assert whole.n_samples_seen_ == kept.sum()
    assert whole.validation_scores_ == dropped.validation_scores_


def test_integer_weights_repeat_rows(case: Case, data: Data) -> None:
    """Exactly so if nothing is left to chance and a step sees all rows."""
    case.skip_if_rows_have_draws()
    weight = np.arange(len(data.X)) % 4
    params = case.known(WITHOUT_CHANCE | {"max_iter": 10, "learning_rate_init": 0.01})
    weighted = case.make(**params).fit(data.X, data.y, weight)
    repeated = case.make(**params).fit(np.repeat(data.X, weight, 0), np.repeat(data.y, weight))
    assert_same_predictions(weighted, repeated, data.X_new, rtol=1e-5)
    np.testing.assert_allclose(weighted.loss_curve_, repeated.loss_curve_, rtol=1e-6, atol=1e-6)


def test_equal_weights(case: Case, data: Data) -> None:
    """Weight 1 is no weight; weight 3 is three copies of every row.

    In float64: sums with and without weights are rounded otherwise, which ten steps in float32
    enlarge to 1e-5.
    """
    options = {"max_iter": 10, "learning_rate_init": 0.01, "dtype": "float64"}
    params = case.known(WITHOUT_CHANCE | options)
    plain = case.make(**params).fit(data.X, data.y)
    ones = case.make(**params).fit(data.X, data.y, np.ones(60))
    assert_same_predictions(ones, plain, data.X_new, rtol=1e-5)
    case.skip_if_rows_have_draws()
    threes = case.make(**params).fit(data.X, data.y, np.full(60, 3.0))
    copies = case.make(**params).fit(np.tile(data.X, (3, 1)), np.tile(data.y, 3))
    assert_same_predictions(threes, copies, data.X_new, rtol=1e-5)


@for_gps
def test_weights_are_evidence_against_one_prior(case: Case, data: Data) -> None:
    params = case.known({"max_iter": 10, "learning_rate_init": 0.01, "n_inducing": 60})
    plain = case.make(**params).fit(data.X, data.y)
    threes = case.make(**params).fit(data.X, data.y, np.full(60, 3.0))
    assert_different_predictions(threes, plain, data.X_new)


def test_weights_pull_the_fit(make: Any, data: Data) -> None:
    """Two contradicting populations: the heavier one wins."""
    X, y = np.vstack([data.X, data.X]), np.concatenate([data.y, data.y + 10.0])
    weight = np.repeat([1.0, 9.0], len(data.X))
    model = make(max_iter=40).fit(X, y, weight)
    shift = (model.predict(data.X_new) - data.y_new).mean()
    assert 8.0 < shift < 10.0


def test_a_scalar_weight_stands_for_all_rows(make: Any, data: Data) -> None:
    scalar = make(max_iter=3).fit(data.X, data.y, 2.0)
    array = make(max_iter=3).fit(data.X, data.y, np.full(len(data.X), 2.0))
    assert_same_predictions(scalar, array, data.X_new)


# ----------------------------------------------------------- other parameters


def test_precisions_agree_roughly(case: Case, make: Any, data: Data) -> None:
    single, double = (make(dtype=dtype).fit(data.X, data.y) for dtype in ("float32", "float64"))
    y_std = data.y.std()
    mean, std = single.predict(data.X_new, return_std=True)
    # Each precision has random draws of its own, which say more than rounding. Between two seeds
    # the standard deviations of iwdgp differ by 0.15 to 0.26 here, a mean of dgp-gamma by 0.16.
    # The chains of sghmc part after some steps: its means differ by up to 0.18.
    atol = 0.25 if case.name in ("dgp-gamma", "sghmc") else 0.15
    np.testing.assert_allclose(mean, double.predict(data.X_new), atol=atol * y_std)
    rtol = 0.3 if case.name == "iwdgp" else 0.15
    np.testing.assert_allclose(std, double.predict_dist(data.X_new).std(), rtol=rtol)
    # but training did run in another precision
    assert (mean != double.predict(data.X_new)).any()


@for_variational
def test_a_larger_divergence_weight_pulls_to_the_prior(case: Case, data: Data) -> None:
    if case.params.get("prior_mean") == "network":
        pytest.skip("a mean by a network goes through the targets in the prior itself")
    # Natural steps of a tenth need some 200 to forget the precision that a fitted start has.
    params = {"max_iter": 250 if case.has_covariates else 120, "learning_rate_init": 0.1}
    weak, strong = (case.make(beta_reg=b, **params).fit(data.X, data.y) for b in (0.01, 1e4))
    assert strong.predict(data.X_new).std() < 0.8 * weak.predict(data.X_new).std()


@for_minibatches
def test_batches_give_a_fit_of_the_same_quality(case: Case, data: Data) -> None:
    # With several batches a deep model has no fitted start, with one it has. A chain of 100 epochs
    # does not make up for it: its ratio of scores was 1.7 to 2.5 over eight seeds.
    max_iter, factor = (100, 2.0) if case.is_deep else (20, 1.5)
    factor = 3.0 if case.name == "sghmc" else factor
    whole = case.make(max_iter=max_iter).fit(data.X, data.y)
    batches = case.make(max_iter=max_iter, batch_size=20).fit(data.X, data.y)
    scores = [crps(data.y_new, m.predict_dist(data.X_new)) for m in (whole, batches)]
    assert scores[1] < factor * scores[0]
    assert batches.n_iter_ == whole.n_iter_ == max_iter


def test_the_noise_floor_is_a_floor(make: Any, data: Data) -> None:
    """In units of the scaled target: its variance is one."""
    model = make(noise_floor=0.5).fit(data.X, data.y)
    assert model.noise_variance_ > 0.5 * data.y.var()
    assert make(max_iter=60).fit(data.X, data.y).noise_variance_ < 0.5 * data.y.var()


@for_minibatches
def test_the_number_of_epochs_chosen_automatically(case: Case) -> None:
    """100 epochs, but at least 3, and 500 to 10,000 steps.

    Deep models have fewer; latent covariates need 1,500 steps and may have 12,000. A chain has
    2,000 steps, which its burn-in and its window need.
    """
    model = case.make(max_iter="auto", batch_size=10)
    deep = (500, 167, 40, 3, 3)
    expected = {
        "DGPRegressor": deep,
        "NeuralDGPRegressor": deep,
        "IWDGPRegressor": (1500, 1500, 240, 12, 3),
        "DSPPRegressor": (100, 40, 40, 3, 3),
        "SGHMCDGPRegressor": (2000, 667, 40, 3, 3),
    }
    epochs = expected.get(case.cls.__name__, (500, 167, 100, 10, 3))
    n_batches = (1, 3, 50, 1000, 10**5)
    assert tuple(model._recipe().plan(10 * n).max_iter for n in n_batches) == epochs


def test_scaling_can_be_switched_off(case: Case, data: Data) -> None:
    """On data that are scaled already, the switches make no difference."""
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    y = (data.y - data.y.mean()) / data.y.std()
    params = {"dtype": "float64", "max_iter": 5}
    if case.functions:
        # All rows are inducing inputs: k-means of the rows of a hidden layer would turn their
        # rounding into other centres.
        params["n_inducing"] = 60
    on = case.make(**params).fit(X, y)
    off = case.make(normalize_X=False, normalize_y=False, **params).fit(X, y)
    assert_same_predictions(on, off, X, rtol=1e-5)


@for_latents
@pytest.mark.usefixtures("no_steps")
def test_the_prior_and_the_units_without_scaling(case: Case, make: Any, data: Data) -> None:
    """Far away the prior remains, whose mean is the offset of the scale."""
    case.skip_if_a_network_is_the_mean()
    params = {"dtype": "float64", "max_iter": 1}
    far = np.full((1, 3), 1e7)
    unscaled = make(normalize_y=False, **params).fit(data.X, data.y)
    np.testing.assert_allclose(unscaled.predict(far), 0.0, atol=1e-6)
    scaled = make(**params).fit(data.X, data.y)
    np.testing.assert_allclose(scaled.predict(far), data.y.mean(), rtol=1e-6)
    # Without scaling the units of the inputs matter.
    factor = np.array([1.0, 1e-3, 1.0])
    results = [
        make(normalize_X=normalize_X, **params).fit(data.X * f, data.y).predict(data.X_new * f)
        for normalize_X in (True, False)
        for f in (1.0, factor)
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-3)
    assert not np.allclose(results[2], results[3], rtol=1e-3)


@for_inducing
def test_the_number_of_inducing_inputs(case: Case, data: Data) -> None:
    for n_inducing in (1, 7):
        model = case.make(n_inducing=n_inducing, max_iter=1).fit(data.X, data.y)
        assert model.inducing_points_.shape == (*case.functions, n_inducing, 3)


def test_verbose_writes_a_line_per_epoch(make: Any, data: Data, capsys: Any) -> None:
    model = make(max_iter=3, verbose=2).fit(data.X, data.y, X_val=data.X_new, y_val=data.y_new)
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    for epoch, line in enumerate(lines, start=1):
        assert re.match(rf"{type(model).__name__}: epoch {epoch}/3  ", line)
        assert f"loss {model.loss_curve_[epoch - 1]:.4f}" in line
        assert f"validation score {model.validation_scores_[epoch - 1]:.4f}" in line
        passed, left = map(float, re.findall(r"([\d.]+) s", line))
        assert abs(left - passed * (3 - epoch) / epoch) <= 0.15  # both are rounded
    assert last.startswith(f"{type(model).__name__}: epoch 3/3  ")
    make(max_iter=2).fit(data.X, data.y)
    assert capsys.readouterr() == ("", "")


# ------------------------------------------------------------------- kernels


def rbf_plus_linear() -> gpytorch.kernels.Kernel:
    return gpytorch.kernels.RBFKernel() + gpytorch.kernels.LinearKernel()


def periodic_times_rbf() -> gpytorch.kernels.Kernel:
    return gpytorch.kernels.PeriodicKernel() * gpytorch.kernels.RBFKernel()


def scaled_matern_with_prior() -> gpytorch.kernels.Kernel:
    prior = gpytorch.priors.GammaPrior(3.0, 2.0)
    return gpytorch.kernels.ScaleKernel(
        gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=3, lengthscale_prior=prior)
    )


KERNELS = [rbf_plus_linear, periodic_times_rbf, scaled_matern_with_prior]


@for_gps
@pytest.mark.parametrize("kernel", NAMES)
def test_kernels_by_name(case: Case, data: Data, kernel: str) -> None:
    # Rough hidden functions have more to learn.
    params = {"max_iter": 40} if case.is_deep else {}
    model = case.make(kernel=kernel, **params).fit(data.X, data.y)
    assert model.score(data.X_new, data.y_new) > 0.7
    assert nll(data.y_new, model.predict_dist(data.X_new)) < np.log(data.y.std()) + 1.42


@for_gps
@pytest.mark.parametrize("make_kernel", KERNELS)
@pytest.mark.usefixtures("full_start")
def test_kernels_of_gpytorch(case: Case, data: Data, make_kernel: Any) -> None:
    kernel, make = make_kernel(), case.make
    if case.sees_other_columns and make_kernel is scaled_matern_with_prior:
        with pytest.raises(ValueError, match=r"layer [23] of"):
            make(kernel=kernel).fit(data.X, data.y)
        return
    before = {name: value.clone() for name, value in kernel.state_dict().items()}
    # Periodic hidden functions learn slowly, and mixing networks and units have more to learn.
    model = make(kernel=kernel, **({"max_iter": 60} if case.has_readout else {}))
    model.fit(data.X, data.y)
    least = 0.05 if case.has_readout else 0.1 if case.is_deep else 0.3
    assert model.score(data.X_new, data.y_new) > least
    assert (model.predict_dist(data.X_new).std() > 0.0).all()
    assert model.kernel is kernel
    assert before.keys() == kernel.state_dict().keys()
    assert all(torch.equal(before[name], value) for name, value in kernel.state_dict().items())
    assert all(p.grad is None for p in kernel.parameters())
    trained = [p.detach() for p in model.stack_.top.kernel.parameters()]
    original = [p.detach().double() for p in kernel.parameters()]
    assert len(trained) == len(original)
    assert not all(torch.equal(a, b) for a, b in zip(trained, original, strict=True))


@for_normals
@pytest.mark.usefixtures("no_steps")
def test_a_gpytorch_kernel_with_fixed_parameters(make: Any, data: Data) -> None:
    """It keeps them, and with those of the named kernel it gives nearly the same predictions."""
    own = make(kernel="rbf", max_iter=1).fit(data.X, data.y)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=3))
    kernel.base_kernel.lengthscale = own.lengthscales_ / data.X.std(axis=0)
    kernel.outputscale = own.stack_.top.kernel.variance.item()
    kernel.requires_grad_(False)
    theirs = make(kernel=kernel, max_iter=1).fit(data.X, data.y)
    np.testing.assert_allclose(theirs.lengthscales_, own.lengthscales_, rtol=1e-5)
    mean, std = own.predict(data.X_new, return_std=True)
    np.testing.assert_allclose(theirs.predict(data.X_new), mean, atol=0.05 * data.y.std())
    np.testing.assert_allclose(theirs.predict_dist(data.X_new).std(), std, rtol=0.2)


@for_gps
@pytest.mark.usefixtures("full_start")
def test_a_prior_pulls_its_hyper_parameter(case: Case, make: Any, data: Data) -> None:
    case.skip_if_a_network_is_the_mean()
    fitted = []
    for location in (0.5, 3.0):
        kernel = gpytorch.kernels.RBFKernel(
            lengthscale_prior=gpytorch.priors.NormalPrior(location, 0.01)
        )
        kernel.lengthscale = 1.5
        model = make(kernel=kernel, max_iter=60).fit(data.X, data.y)
        fitted.append(model.stack_.top.kernel.lengthscale.item())
    np.testing.assert_allclose(fitted, [0.5, 3.0], rtol=0.25)


@for_normals  # a linear mean looks at all of them
def test_a_kernel_that_looks_at_one_input_only(case: Case, make: Any, data: Data) -> None:
    case.skip_if_a_network_is_the_mean()
    y = data.y + 0.5 * data.X[:, 1]  # without it the best fit is a constant
    model = make(kernel=gpytorch.kernels.RBFKernel(active_dims=[1])).fit(data.X, y)
    moved = data.X_new.copy()
    moved[:, [0, 2]] += 1.0
    np.testing.assert_allclose(model.predict(moved), model.predict(data.X_new), rtol=1e-9)
    moved[:, 1] += 10.0
    assert_different_predictions_at(model, moved, data.X_new)


def assert_different_predictions_at(model: Any, a: Any, b: Any) -> None:
    assert not np.allclose(model.predict(a), model.predict(b), rtol=1e-3)


@for_gps
def test_several_outputs_with_a_gpytorch_kernel(case: Case, data: Data) -> None:
    """Each latent function trains a copy of its own, unless they share one."""
    model = case.make(kernel=gpytorch.kernels.RBFKernel(), max_iter=40).fit(data.X, data.Y)
    lengthscales = [kernel.lengthscale.item() for kernel in model.stack_.top.kernel.kernels]
    n_top = 2 if case.name == "neural-dgp" else case.n_functions(2)  # ceil(3 P / 4) of two layers
    n_kernels = 1 if case.params.get("share_kernel") else n_top
    assert len(lengthscales) == len(set(lengthscales)) == n_kernels
    Y_new = np.column_stack([data.y_new, 100.0 - 8.0 * data.y_new + data.X_new[:, 1]])
    assert model.score(data.X_new, Y_new) > 0.7
