"""Classifiers: scikit-learn's checks, its Gaussian process, labels, weights, hostile tables."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

import skgp
from skgp import DGPClassifier, DSPPClassifier, PPGPRClassifier, SVGPClassifier
from skgp.core.likelihoods.bernoulli import Probit
from skgp.core.likelihoods.robust_max import RobustMax
from skgp.core.likelihoods.softmax import Softmax
from skgp.core.nodes.rules import Nodes
from skgp.distributions import Bernoulli, Categorical

pytestmark = pytest.mark.usefixtures("short_start")

# Exactly so many epochs; a search for their number is for test_cross_validated_epochs.py.
SMALL = {"n_inducing": 15, "max_iter": 20, "early_stopping": False, "random_state": 0}
UNICODE = np.array(["ä", "日本", "z z", "Ω"])


def table(n: int = 90, n_classes: int = 3, seed: int = 0) -> tuple[Any, Any]:
    """Numbers of classes by the angle of two inputs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    angle = np.arctan2(X[:, 1], X[:, 0]) / (2.0 * np.pi) + 0.5
    return X, np.minimum((angle * n_classes).astype(int), n_classes - 1)


CLASSIFIERS: dict[str, tuple[type, dict[str, Any]]] = {
    "svgp": (SVGPClassifier, {}),
    "ppgpr": (PPGPRClassifier, {"n_inducing_mean": 20}),
    "dgp": (DGPClassifier, {"n_samples": 3, "n_prediction_samples": 8}),
    "dspp": (DSPPClassifier, {"n_sites": 3}),
}
every = pytest.mark.parametrize("name", CLASSIFIERS)


def make(name: str, **overrides: Any) -> Any:
    cls, params = CLASSIFIERS[name]
    return cls(**{**SMALL, **params, **overrides})


def test_every_classifier_is_tested() -> None:
    public = {name for name in skgp.__all__ if name.endswith("Classifier")}
    assert public == {cls.__name__ for cls, _ in CLASSIFIERS.values()}


@parametrize_with_checks(
    [make(name, dtype="float64") for name in CLASSIFIERS],
)
def test_sklearn_checks(estimator: Any, check: Any) -> None:
    if "check_classifiers" not in str(check):  # these ask for a score
        estimator.set_params(max_iter=2)
    check(estimator)


@pytest.mark.slow  # several fits for each one
@parametrize_with_checks([make("ppgpr", dtype="float64", early_stopping="auto")])
def test_sklearn_checks_with_a_search(estimator: Any, check: Any) -> None:
    check(estimator)


def test_with_inducing_inputs_at_the_rows_it_is_close_to_the_laplace_approximation() -> None:
    """GaussianProcessClassifier has a logistic link, no mean function and a given kernel here.

    The table is odd, so that our mean function has nothing to learn.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (30, 2))
    y = (np.sin(2.0 * X[:, 0]) + X[:, 1] + rng.logistic(0.0, 0.5, 30) > 0.0).astype(int)
    X, y = np.concatenate([X, -X]), np.concatenate([y, 1 - y])
    kernel = ScaleKernel(RBFKernel())
    kernel.outputscale, kernel.base_kernel.lengthscale = 1.5, 1.0
    kernel.requires_grad_(False)
    ours = SVGPClassifier(
        kernel=kernel, likelihood="logit", n_inducing=60, max_iter=400, random_state=0,
        jitter=1e-6, normalize_X=False,
    ).fit(X, y)  # fmt: skip
    theirs = GaussianProcessClassifier(ConstantKernel(1.5) * RBF(1.0), optimizer=None).fit(X, y)
    X_new = rng.uniform(-2.0, 2.0, (200, 2))
    mean, variance = ours.latent_mean_and_variance(X_new)
    assert mean.shape == variance.shape == (200,)
    assert np.all(variance > 0.0)
    p, q = ours.predict_proba(X_new)[:, 1], theirs.predict_proba(X_new)[:, 1]
    np.testing.assert_allclose(ours.stack_.top.mean.item(), 0.0, atol=1e-3)
    np.testing.assert_allclose(p, q, rtol=0, atol=0.02)
    clear = np.abs(q - 0.5) > 0.02
    np.testing.assert_array_equal(mean[clear] > 0.0, q[clear] > 0.5)
    np.testing.assert_array_equal(mean > 0.0, p > 0.5)


@every
@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_predictions_of_several_classes_agree(name: str, likelihood: str) -> None:
    X, codes = table()
    model = make(name, likelihood=likelihood, max_iter=60).fit(X, UNICODE[codes])
    np.testing.assert_array_equal(model.classes_, np.sort(UNICODE[:3]))
    p = model.predict_proba(X)
    assert type(p) is np.ndarray
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(1)])
    np.testing.assert_allclose(np.log(p), model.predict_log_proba(X))
    assert model.decision_function(X).shape == (90, 3)
    dist = model.predict_dist(X)
    assert isinstance(dist, Categorical)
    np.testing.assert_allclose(np.asarray(dist), p, rtol=1e-12)
    assert model.latent_mean_and_variance(X)[1].shape == (90, 3)
    assert model.score(X, UNICODE[codes]) > 0.9
    np.testing.assert_allclose(model.predict_proba(X[:7]), p[:7], rtol=1e-11)


@every
@pytest.mark.parametrize("likelihood", ["probit", "logit", "robust-max", "softmax"])
def test_predictions_of_two_classes_agree(name: str, likelihood: str) -> None:
    X, codes = table(n_classes=2)
    model = make(name, likelihood=likelihood, max_iter=60).fit(X, codes == 1)
    assert model.classes_.dtype == bool
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), np.log(p[:, 1] / p[:, 0]), atol=1e-9)
    assert isinstance(model.predict_dist(X), Bernoulli)
    assert model.score(X, codes == 1) > 0.9
    shape = (90,) if likelihood in ("probit", "logit") else (90, 2)
    assert model.latent_mean_and_variance(X)[0].shape == shape


def test_labels_are_names() -> None:
    """Whatever the labels are, as long as they sort alike, the probabilities are the same bits."""
    X, codes = table()
    p = SVGPClassifier(**SMALL).fit(X, codes).predict_proba(X)
    for labels in (np.sort(UNICODE), np.array([-5, 0, 10**12]), np.array([0.0, 1.0, 2.0])):
        other = SVGPClassifier(**SMALL).fit(X, labels[codes])
        np.testing.assert_array_equal(other.predict_proba(X), p)
        assert set(other.predict(X)) <= set(labels)


def test_class_weight_is_a_weight_of_rows() -> None:
    X, codes = table()
    weight = {0: 1.0, 1: 3.0, 2: 0.5}
    by_class = SVGPClassifier(class_weight=weight, **SMALL).fit(X, codes)
    of_rows = np.array([weight[c] for c in codes])
    by_row = SVGPClassifier(**SMALL).fit(X, codes, sample_weight=of_rows)
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    balanced = SVGPClassifier(class_weight="balanced", **SMALL).fit(X, codes)
    shares = balanced.class_weight_ * np.bincount(codes)
    np.testing.assert_allclose(shares, 30.0)


@pytest.mark.parametrize(
    ("y", "weight"),
    [(["a"] * 20, None), ([0] * 10 + [1] * 10, [1.0] * 10 + [0.0] * 10)],
    ids=["one", "one-of-positive-weight"],
)
def test_single_class_is_an_error(y: Any, weight: Any) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="at least two classes"):
        SVGPClassifier(**SMALL).fit(X, y, sample_weight=weight)


@every
def test_class_with_one_row(name: str) -> None:
    X, codes = table(60, 2)
    codes[7] = 2
    p = make(name).fit(X, codes).predict_proba(X)
    assert p.shape == (60, 3)
    assert np.all(np.isfinite(p))


@every
def test_fifty_classes(name: str) -> None:
    X, codes = table(300, 50)
    model = make(name, max_iter=3).fit(X, codes)
    p = model.predict_proba(X)
    assert p.shape == (300, 50)
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=0, atol=1e-12)


@every
def test_one_row_in_ten_thousand(name: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10_001, 2)), np.zeros(10_001)
    y[123] = 1.0
    model = make(name, max_iter=3).fit(X, y)
    p = model.predict_proba(X)[:, 1]
    assert np.all((p > 0.0) & (p < 0.1))
    assert p.mean() < 2e-3


@every
def test_likelihood_that_is_chosen_automatically(name: str) -> None:
    """Of several classes: the softmax where a bound is maximised."""
    X, codes = table()
    likelihood = Softmax if name in ("svgp", "dgp") else RobustMax
    model = make(name, max_iter=1).fit(X, codes)
    assert type(model.model_.likelihood) is likelihood
    assert type(model.fit(X, codes > 0).model_.likelihood) is Probit
    words = " ".join(type(model).__doc__.split())
    of_several = "softmax" if likelihood is Softmax else "robust-max"
    assert f'"probit" for two classes and "{of_several}" for more' in words


def test_wrong_likelihood_and_unknown_labels_are_errors() -> None:
    X, codes = table()
    with pytest.raises(ValueError, match=r"likelihood='probit' is for two classes.*robust-max"):
        SVGPClassifier(likelihood="probit", **SMALL).fit(X, codes)
    with pytest.raises(ValueError, match=r"y_val contains labels \[7\]"):
        SVGPClassifier(**SMALL).fit(X, codes, X_val=X[:2], y_val=[0, 7])
    with pytest.raises(ValueError, match="balanced"):
        SVGPClassifier(class_weight="balanced", **SMALL).partial_fit(X, codes)


def test_shapes_of_hyperparameters() -> None:
    """With a function for each class there is a leading axis; with one function there is none."""
    X, codes = table()
    several, two = (SVGPClassifier(**SMALL).fit(X, y) for y in (codes, codes > 0))
    assert several.lengthscales_.shape == (3, 2)
    assert several.inducing_points_.shape == (3, 15, 2)
    assert two.lengthscales_.shape == (2,)
    assert two.inducing_points_.shape == (15, 2)


@pytest.mark.parametrize("name", ["svgp", "ppgpr", "dspp"])
def test_five_classes_share_a_kernel(name: str) -> None:
    for n_classes, n_kernels in ((4, 4), (5, 1)):
        top = make(name, max_iter=1).fit(*table(n_classes=n_classes)).stack_.layers[-1]
        assert len(top.kernel.variance) == len(top.Z) == n_kernels
        assert len(top.mean) == n_classes
    decoupled = PPGPRClassifier(**{**SMALL, "max_iter": 1}, covariance="decoupled")
    assert len(decoupled.fit(*table(n_classes=5)).stack_.top.Z) == 5


def test_classes_that_are_easily_told_apart_start_with_a_large_function(monkeypatch: Any) -> None:
    """The variance starts half a unit above that of the residuals, or where it was."""
    variances = {}
    for noise_var in (0.1, 0.7):
        residual = torch.full((1,), noise_var, dtype=torch.float64)

        def start(*_: Any, residual: torch.Tensor = residual, **__: Any) -> torch.Tensor:
            return residual

        monkeypatch.setattr("skgp.recipes.stack.start_hyperparameters", start)
        model = make("svgp", max_iter=1, learning_rate_init=1e-12).fit(*table(n_classes=2))
        variances[noise_var] = model.stack_.top.kernel.variance.item()
    np.testing.assert_allclose([variances[0.1], variances[0.7]], [5.0, 1.0], rtol=1e-6)


def test_lengthscales_do_not_follow_chance() -> None:
    """All of ten inputs count the same, and 80 rows could not tell which count more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(580, 10))
    y = rng.random(580) < expit(1.2 * X.sum(1))
    model = SVGPClassifier(random_state=0).fit(X[:80], y[:80])
    assert np.ptp(np.log(model.lengthscales_ / X[:80].std(0))) < 0.3
    assert log_loss(y[80:], model.predict_proba(X[80:])) < 0.56


def test_stream_with_declared_classes() -> None:
    """A class that the first chunk lacks is learned from the second."""
    X, codes = table(200)
    first = codes < 2
    model = SVGPClassifier(**SMALL).partial_fit(X[first], codes[first], classes=[2, 1, 0])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    for _ in range(60):
        model.partial_fit(X, codes)
    assert model.score(X, codes) > 0.9
    with pytest.raises(ValueError, match="not those of the first call"):
        model.partial_fit(X, codes, classes=[0, 1])
    with pytest.raises(ValueError, match=r"labels \[3\]"):
        model.partial_fit(X, codes + 1)


def test_declared_classes_are_labels() -> None:
    X, codes = table(n_classes=2)
    names = np.array(["no", "yes"])[codes]
    for classes, y, match in (
        ([0.0, 1.0, np.nan], codes, "Input contains NaN"),
        ([0.0, 1.0, 1.5], codes, "Unknown label type"),
        (["no", "yes", 3], names, "Mix of label input types"),
    ):
        model = SVGPClassifier(**SMALL)
        # scikit-learn casts the missing one first
        with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=match):
            model.partial_fit(X, y, classes=classes)
        assert not hasattr(model, "classes_")
    model = SVGPClassifier(**SMALL).partial_fit(X, names.astype(object), classes=["yes", "no"])
    assert model.partial_fit(X, names).score(X, names) > 0.5


def test_early_stopping_and_warm_start() -> None:
    X, codes = table(n_classes=2)
    model = make("svgp", early_stopping=True, warm_start=True).fit(X, codes)
    assert len(model.validation_scores_) == model.n_iter_
    score = model.validation_scores_[-1]
    assert -1.0 < score < 0.0
    before = model.predict_proba(X)
    model.set_params(max_iter=1, learning_rate_init=1e-12).fit(X, codes)
    np.testing.assert_allclose(model.predict_proba(X), before, atol=1e-6)


@every
def test_deep_kernel(name: str) -> None:
    X, codes = table()
    model = make(name, feature_extractor=[8, 2], max_iter=60).fit(X, codes)
    assert model.score(X, codes) > 0.8


def test_softmax_reaches_certainty_in_few_steps() -> None:
    """Ten classes that are far apart; functions that start at one unit gave 0.5 of log loss."""
    rng = np.random.default_rng(0)
    codes = np.arange(100) % 10
    X = rng.normal(size=(10, 3))[codes] * 3.0 + 0.1 * rng.normal(size=(100, 3))
    model = SVGPClassifier(likelihood="softmax", **{**SMALL, "n_inducing": 30}).fit(X, codes)
    loss = -model.predict_log_proba(X)[np.arange(100), codes].mean()
    assert loss < 0.05


@pytest.mark.parametrize(
    ("name", "learned"),
    [("dgp", {}), ("dspp", {"quadrature": "qr3"}), ("dspp", {"quadrature": "continuous"})],
    ids=["dgp", "dspp-qr3", "dspp-continuous"],
)
def test_deep_predictions_are_mixtures_over_nodes(name: str, learned: dict[str, str]) -> None:
    """Node by node: probabilities, and latent moments by E f^2 - (E f)^2."""
    X, codes = table()
    model = make(name, likelihood="robust-max", max_iter=60, **learned).fit(X, codes)
    module = model.model_
    x = torch.from_numpy((X - module.x_scale.offset) / module.x_scale.unit)
    p, first, second = np.zeros((90, 3)), np.zeros((90, 3)), np.zeros((90, 3))
    with torch.no_grad():
        nodes = module.nodes(1)
        weights = nodes.log_omega.exp().numpy()
        for q, weight in enumerate(weights):
            one = Nodes(tuple(xi[q : q + 1] for xi in nodes.xi), torch.zeros(1))
            latent = module.stack(x, one, module.stack.factors())
            p += weight * module.likelihood.log_probabilities(latent)[0].exp().numpy()
            mean, variance = latent.f_mean[0].numpy(), latent.f_var[0].numpy()
            first += weight * mean
            second += weight * (variance + mean**2)
    assert len(weights) > 2
    assert (weights.std() > 1e-3) == (name == "dspp")
    np.testing.assert_allclose(model.predict_proba(X), p, rtol=1e-9)
    mean, variance = model.latent_mean_and_variance(X)
    np.testing.assert_allclose(mean, first, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(variance, second - first**2, rtol=1e-7)


def test_divergences_of_a_dspp_weigh_more_where_its_nodes_learn() -> None:
    weight = partial(DSPPClassifier()._recipe().divergence, SimpleNamespace(noise_share=0.5))
    assert [weight(n) for n in (20.0, 10_000.0, 10_001.0, 1e6)] == [1.0, 1.0, 5.0, 5.0]


def test_a_dspp_sees_the_inputs_in_its_top_layer_and_holds_its_lengthscales_together() -> None:
    """Up to ten batches; functions that share inducing inputs have more of them."""
    options = {"max_iter": 1, "early_stopping": False, "random_state": 0}
    for n_rows, n_classes, batch_size, n_top in (
        (200, 2, 1000, 64),
        (200, 5, 1000, 150),
        (400, 2, 200, 60),
        (400, 5, 200, 60),
    ):
        X, codes = table(n_rows, n_classes)
        model = DSPPClassifier(batch_size=batch_size, **options).fit(X, codes)
        hidden, top = model.stack_.layers
        assert hidden.Z.shape[-2:] == (min(n_top, 64), 2)
        assert top.Z.shape[-2:] == (n_top, 3 + 2)
        assert hidden.kernel.pulled
        assert top.kernel.pulled
    X, codes = table(200, 2)
    sharing = DSPPClassifier(share_kernel=True, **options).fit(X, codes)
    assert [layer.Z.shape[-2] for layer in sharing.stack_.layers] == [150, 150]
    X, codes = table(330, 2)
    long = DSPPClassifier(batch_size=30, **options).fit(X, codes)
    assert long.stack_.top.Z.shape[-2:] == (300, 3)


def test_a_ppgpr_is_trained_for_the_fewest_epochs_within_a_hundredth() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = rng.random(120) < expit(1.5 * X[:, 0] - X[:, 1])
    model = PPGPRClassifier(n_inducing=300, max_iter=80, random_state=0).fit(X, y)
    scores = np.asarray(model.validation_scores_)
    assert model.n_iter_ == 1 + np.argmax(scores >= scores.max() - 0.01) < 1 + np.argmax(scores)


@pytest.mark.slow
def test_default_divergences_keep_a_small_noisy_table_from_certainty() -> None:
    """Labels of a linear logit: with beta_reg = 1 and no search for epochs it is 0.93."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1250, 8))
    y = rng.random(1250) < expit(2.0 * X[:, 0] + X[:, 1])
    model = DSPPClassifier(n_inducing=40, random_state=0).fit(X[:250], y[:250])
    assert log_loss(y[250:], model.predict_proba(X[250:])) < 0.6


@pytest.mark.parametrize(
    ("n", "n_classes", "likelihood", "n_epochs"),
    [
        (999, 2, "auto", 30),
        (1000, 2, "auto", 300),
        (1000, 3, "auto", 30),
        (1000, 3, "ordinal", 300),
        (1000, 2, "softmax", 30),
        (1600, 2, "logit", 150),
    ],
)
def test_one_function_of_many_rows_takes_300_steps(
    n: int, n_classes: int, likelihood: Any, n_epochs: int
) -> None:
    model = SVGPClassifier(n_inducing=3, likelihood=likelihood, random_state=0)
    model.fit(np.arange(30.0)[:, None], np.arange(30) % n_classes)
    assert model.n_iter_ == 30
    assert model._recipe().plan(n).max_iter == n_epochs
