"""What the package promises of a fit and of its data, for the classifiers."""

from typing import Any

import numpy as np
import pytest
import torch
from contract_cases import CLASSIFIERS, Case, Data, make_labels
from gpytorch.kernels import MaternKernel
from sklearn.metrics import log_loss
from test_continued_training import (
    Recorder,
    ends_in_numbers,
    interrupt_at,
    reported_interruption,
    test_a_fit_that_cannot_be_saved_raises_with_a_remedy,  # noqa: F401  (runs here over other cases)
)
from test_fit_options import KERNELS, WITHOUT_CHANCE
from test_sklearn_integration import (
    assert_untouched_by_fit,
    test_an_unfitted_pickle_can_be_fitted,  # noqa: F401  (as above)
    test_fit_leaves_parameters_untouched,  # noqa: F401  (as above)
)

from skgp.exceptions import OutlierWarning

pytestmark = pytest.mark.usefixtures("short_start")

CASES = CLASSIFIERS
# One layer and a deep one. All five keep the promises of test_classifier_contract.py.
QUICK = tuple(case for case in CASES if case.name in {"svgp", "dspp"})


@pytest.fixture(scope="module")
def data() -> Data:
    return make_labels()


def assert_same_probabilities(a: Any, b: Any, X: Any, rtol: float = 0.0) -> None:
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=rtol)


def assert_proper(model: Any, X: Any) -> None:
    """Probabilities, at the data and far away from them."""
    assert np.isfinite(model.loss_curve_).all()
    for rows in (X, X + 1e3 * (np.ptp(X, axis=0) + np.abs(X).max() + 1.0)):
        p = model.predict_proba(rows)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0.0, atol=1e-12)
        assert (p > 0.0).all()
        mean, var = model.latent_mean_and_variance(rows)
        assert np.isfinite(mean).all()
        assert (var > 0.0).all()


# ------------------------------------------------------------------- weights


@pytest.mark.parametrize("batch_size", [1000, 15])
def test_weight_zero_drops_the_row(make: Any, data: Data, batch_size: int) -> None:
    weight = np.arange(60) % 3 * 1.0
    y = np.where(weight == 0.0, "bottom", data.y)
    kept = weight > 0.0
    params = {"max_iter": 5, "batch_size": batch_size}
    dropped = make(**params).fit(data.X[kept], y[kept], weight[kept])
    assert_same_probabilities(make(**params).fit(data.X, y, weight), dropped, data.X_new)


def test_integer_weights_repeat_rows(case: Case, data: Data) -> None:
    weight = np.arange(60) % 4
    params = case.known(WITHOUT_CHANCE | {"max_iter": 10, "learning_rate_init": 0.01})
    weighted = case.make(**params).fit(data.X, data.y, weight)
    repeated = case.make(**params).fit(np.repeat(data.X, weight, 0), np.repeat(data.y, weight))
    assert_same_probabilities(weighted, repeated, data.X_new, rtol=1e-5)
    plain = case.make(**params).fit(data.X, data.y)
    assert not np.allclose(plain.predict_proba(data.X_new), weighted.predict_proba(data.X_new))


def test_weights_pull_the_fit(make: Any, data: Data) -> None:
    """Two contradicting populations: the heavier one wins, by as much as it is heavier."""
    X, y = np.vstack([data.X, data.X]), np.repeat(["a", "b"], 60)
    model = make(max_iter=60).fit(X, y, np.repeat([1.0, 9.0], 60))
    np.testing.assert_allclose(model.predict_proba(data.X_new)[:, 1], 0.9, atol=0.06)


# --------------------------------------------------------------- divergences


@pytest.mark.usefixtures("full_start")
def test_a_larger_divergence_weight_pulls_to_the_prior(make: Any, data: Data) -> None:
    weak, strong = (
        make(beta_reg=b, max_iter=60, learning_rate_init=0.1).fit(data.X, data.y)
        for b in (0.01, 1e4)
    )
    spreads = [model.predict_proba(data.X_new).std(axis=0).mean() for model in (strong, weak)]
    assert spreads[0] < 0.5 * spreads[1]


def test_n_total_divides_the_divergence(make: Any, data: Data) -> None:
    """loss = -fit + beta KL / n_total, so doubling both changes nothing.

    A kernel by name has a prior, which is divided by n_total too and not multiplied by beta.
    """
    params = {"kernel": MaternKernel(nu=2.5), "dtype": "float64"}
    models = [make(beta_reg=beta, **params) for beta in (1.0, 2.0, 2.0)]
    for model, n_total in zip(models, (100, 200, 100), strict=True):
        for _ in range(3):
            model.partial_fit(data.X, data.y, n_total=n_total)
    a, b, c = (model.loss_curve_ for model in models)
    np.testing.assert_allclose(a, b, rtol=1e-9)
    assert c != b


def test_precisions_agree_roughly(make: Any, data: Data) -> None:
    single, double = (
        make(dtype=dtype).fit(data.X, data.y).predict_proba(data.X_new)
        for dtype in ("float32", "float64")
    )
    # The draws of the two are different, so single probabilities of a small fit may be too: by up
    # to 0.17 over eight seeds, and by up to 0.04 in the mean.
    assert np.abs(single - double).mean() < 0.06
    assert (single != double).any()  # training did run in another precision


def test_batches_give_a_fit_of_the_same_quality(make: Any, data: Data) -> None:
    losses = [
        log_loss(data.y_new, make(max_iter=60, **p).fit(data.X, data.y).predict_proba(data.X_new))
        for p in ({}, {"batch_size": 20})
    ]
    assert losses[1] < 1.5 * losses[0]
    assert max(losses) < 0.8 * np.log(3.0)


# -------------------------------------------------------- stops and goings-on


def test_a_failed_partial_fit_changes_nothing(make: Any, data: Data) -> None:
    model = make().partial_fit(data.X, data.y)
    before = model.predict_proba(data.X_new)
    with pytest.raises(ValueError, match=r"y contains labels \[.lower.\]"):
        model.partial_fit(data.X, np.repeat(["bottom", "lower"], 30))
    np.testing.assert_array_equal(model.predict_proba(data.X_new), before)
    assert model.n_samples_seen_ == 60
    assert model.n_iter_ == 1


def test_early_stopping_restores_the_best_epoch(make: Any, data: Data) -> None:
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(60) < 0.3, rng.permutation(data.y), data.y)
    model = make(
        max_iter=300,
        early_stopping=True,
        n_iter_no_change=5,
        learning_rate_init=0.2,
        beta_reg=0.0,
        n_inducing=40,
    )
    model.fit(data.X, noisy, X_val=data.X_new, y_val=data.y_new)
    scores = model.validation_scores_
    assert model.n_iter_ == len(scores) == len(model.loss_curve_) < 300
    assert model.best_validation_score_ == max(scores) > scores[-1]
    score = -log_loss(data.y_new, model.predict_proba(data.X_new))
    assert score == pytest.approx(model.best_validation_score_, abs=1e-4)


def test_validation_rows_without_early_stopping_only_watch(make: Any, data: Data) -> None:
    watched = make(n_iter_no_change=1, tol=1e6).fit(
        data.X, data.y, X_val=data.X_new, y_val=data.y_new
    )
    assert watched.n_iter_ == len(watched.validation_scores_) == 20
    assert_same_probabilities(watched, make().fit(data.X, data.y), data.X_new)


def test_an_interrupted_fit_keeps_its_last_complete_epoch(
    make: Any, data: Data, monkeypatch: Any
) -> None:
    states: list[Any] = []
    recorder = Recorder(states, data.X_new, "predict_proba")
    make(max_iter=8).set_callbacks(recorder).fit(data.X, data.y)
    interrupt_at(monkeypatch, step=3)
    interrupted = make(max_iter=8)
    with reported_interruption("interrupted after 3 of 8 epochs"):
        interrupted.fit(data.X, data.y)
    assert interrupted.n_iter_ == len(interrupted.loss_curve_) == 3
    np.testing.assert_array_equal(interrupted.predict_proba(data.X_new), states[2])


@pytest.mark.parametrize("rate", [10.0, 1e4])
def test_a_far_too_large_step_ends_in_numbers_or_in_an_error(
    make: Any, data: Data, rate: float
) -> None:
    model = make(learning_rate_init=rate)
    if ends_in_numbers(model, data):
        p = model.predict_proba(data.X_new)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0.0, atol=1e-12)


# ------------------------------------------------------------------- kernels


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32", "matern52"])
def test_kernels_by_name(make: Any, data: Data, kernel: str) -> None:
    model = make(kernel=kernel, max_iter=60).fit(data.X, data.y)
    assert model.score(data.X_new, data.y_new) > 0.6
    assert log_loss(data.y_new, model.predict_proba(data.X_new)) < 0.8 * np.log(3.0)


@pytest.mark.parametrize("make_kernel", KERNELS)
def test_kernels_of_gpytorch(make: Any, data: Data, make_kernel: Any) -> None:
    kernel = make_kernel()
    before = {name: value.clone() for name, value in kernel.state_dict().items()}
    model = make(kernel=kernel, max_iter=60)
    assert_untouched_by_fit(model, data)
    assert log_loss(data.y_new, model.predict_proba(data.X_new)) < np.log(3.0)
    assert all(torch.equal(kernel.state_dict()[name], value) for name, value in before.items())
    trained = [p.detach() for p in model.stack_.top.kernel.parameters()]
    assert not all(
        torch.equal(a, b.double()) for a, b in zip(trained, kernel.parameters(), strict=True)
    )


# ------------------------------------------------------------- hostile data


@pytest.mark.parametrize("n", [2, 3])
def test_a_handful_of_rows(make: Any, data: Data, n: int) -> None:
    assert_proper(make(max_iter=10).fit(data.X[:n], np.arange(n)), data.X_new)


def test_fewer_rows_than_inducing_inputs(make: Any, data: Data) -> None:
    model = make(n_inducing=50).fit(data.X[:6], data.y[:6])
    assert_proper(model, data.X_new)
    assert model.inducing_points_.shape[-2:] == (6, 3)


def test_more_inputs_than_rows(make: Any) -> None:
    X = np.random.default_rng(0).normal(size=(30, 500))
    y = X[:, :100].sum(axis=1) > 0.0
    model = make(n_inducing=30).fit(X, y)  # rows are all as far from each other
    assert_proper(model, X)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("value", [0.1, 1e9, -1e-9])
def test_the_value_of_a_constant_input_does_not_matter(make: Any, data: Data, value: float) -> None:
    p, zero = (
        make(max_iter=10, dtype="float64")
        .fit(np.insert(data.X, 3, v, axis=1), data.y)
        .predict_proba(np.insert(data.X_new, 3, v, axis=1))
        for v in (value, 0.0)
    )
    np.testing.assert_allclose(p, zero, rtol=1e-6)


def test_all_inputs_constant(make: Any, data: Data) -> None:
    """What is left are the shares of the classes."""
    X, y = np.full((60, 3), 2.5), np.repeat(["a", "b", "c"], [40, 15, 5])
    model = make(max_iter=100).fit(X, y)
    assert_proper(model, X)
    np.testing.assert_allclose(model.predict_proba(X[:1])[0], [40 / 60, 15 / 60, 5 / 60], atol=0.1)


def test_duplicated_rows_are_one_inducing_input(make: Any, data: Data) -> None:
    X, y = np.repeat(data.X[:5], 20, axis=0), np.repeat(data.y[:5], 20)
    model = make(max_iter=60).fit(X, y)
    assert_proper(model, X)
    assert model.score(X, y) == 1.0
    assert model.inducing_points_.shape[-2] == 5


@pytest.mark.parametrize(
    ("factor", "offset"), [(1e8, 0.0), (1.0, 1e6), (1e8, -1e14), (1e-100, 0.0)]
)
def test_units_and_origin_of_the_inputs(
    make: Any, data: Data, factor: float, offset: float
) -> None:
    model = make(max_iter=10, dtype="float64").fit(data.X, data.y)
    moved = make(max_iter=10, dtype="float64").fit(data.X * factor + offset, data.y)
    p = moved.predict_proba(data.X_new * factor + offset)
    np.testing.assert_allclose(p, model.predict_proba(data.X_new), rtol=1e-5)


def test_an_outlier_among_the_inputs(make: Any, data: Data) -> None:
    X = data.X.copy()
    X[7, 0] += 1e6 * X[:, 0].std()
    assert_proper(make().fit(X, data.y), X)


@pytest.mark.parametrize("distance", [1e6, 1e30, 1e200])
def test_rows_at_an_absurd_distance_are_all_alike(make: Any, data: Data, distance: float) -> None:
    model = make(max_iter=10).fit(data.X, data.y)
    far = model.predict_proba(np.array([[1e5] * 3, [-distance] * 3]))
    np.testing.assert_allclose(far[0], far[1], rtol=1e-6)


def test_validation_rows_at_an_absurd_distance(make: Any, data: Data) -> None:
    X_val = np.vstack([data.X_new, np.full((1, 3), 1e30)])
    y_val = np.append(data.y_new, "bottom")
    model = make(max_iter=2).fit(data.X, data.y, X_val=X_val, y_val=y_val)
    assert np.isfinite(model.validation_scores_).all()
    with pytest.warns(OutlierWarning, match=r"X in row\(s\) 25 is"):
        model.partial_fit(X_val, y_val)
    assert_proper(model, data.X)


def test_inputs_are_not_modified(make: Any, data: Data) -> None:
    X, y, weight = data.X.copy(), data.y.copy(), np.ones(60)
    model = make(max_iter=2).fit(X, y, weight)
    model.partial_fit(X, y, sample_weight=weight).predict(X)
    for now, before in ((X, data.X), (y, data.y), (weight, np.ones(60))):
        np.testing.assert_array_equal(now, before)
