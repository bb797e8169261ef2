"""Classifiers of few rows, mixed with a GP at the optimum of the bound, as held-out rows prefer."""

import copy

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skgp import DSPPClassifier, PPGPRClassifier
from skgp.core.data import Batch, Targets
from skgp.core.objectives.objective import ELBO, loss
from skgp.files import load, save
from skgp.fitting import cross_validation, untrained_gp
from skgp.fitting.model import Layers
from skgp.fitting.stacking import StackedLayers
from skgp.recipes import sizes

pytestmark = pytest.mark.usefixtures("short_start")

BOTH = [PPGPRClassifier, DSPPClassifier]
ONE_BATCH, SEVERAL = {}, {"batch_size": 30}


def _rows(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(n)


@pytest.fixture
def fitted(monkeypatch):
    """Fits with a share of the trained model that is given."""

    def fit(make, share, **params):
        for module in (cross_validation, untrained_gp):
            monkeypatch.setattr(module, "share_of_first", lambda *given: share)
        X, f = _rows(90)
        return make(**{"max_iter": 4, "random_state": 0, **params}).fit(X, f > 0.2)

    return fit


@pytest.mark.parametrize("batches", [ONE_BATCH, SEVERAL])
@pytest.mark.parametrize("make", BOTH)
def test_probabilities_are_mixed(make, batches, fitted):
    params = {**batches, "normalize_X": False}  # a GP by itself has the scales of all rows
    trained, untrained, both = (fitted(make, share, **params) for share in (1.0, 0.0, 0.3))
    kinds = [type(model.model_.source) for model in (trained, untrained, both)]
    assert kinds == [Layers, Layers, StackedLayers]
    shares = [model.stacking_weights_ for model in (trained, untrained, both)]
    assert_allclose(shares, [[1.0, 0.0], [0.0, 1.0], [0.3, 0.7]])
    assert len(untrained.validation_scores_) == untrained.n_iter_ == 1
    assert trained.validation_scores_ == both.validation_scores_
    new = _rows(9, seed=1)[0]
    each = [model.predict_proba(new) for model in (trained, untrained)]
    assert np.abs(each[0] - each[1]).max() > 0.01
    assert_allclose(both.predict_proba(new), 0.3 * each[0] + 0.7 * each[1], rtol=1e-6)
    means, variances = zip(
        *(m.latent_mean_and_variance(new) for m in (trained, untrained)), strict=True
    )
    mean, variance = both.latent_mean_and_variance(new)
    assert_allclose(mean, 0.3 * means[0] + 0.7 * means[1], rtol=1e-6, atol=1e-8)
    second = [v + np.square(m) for m, v in zip(means, variances, strict=True)]
    assert_allclose(variance + np.square(mean), 0.3 * second[0] + 0.7 * second[1], rtol=1e-6)


def test_both_see_rows_in_the_same_scales(fitted):
    both, new = fitted(PPGPRClassifier, 0.3, **SEVERAL), _rows(9, seed=1)[0]
    trained, other = copy.deepcopy(both), copy.deepcopy(both)
    trained.model_.source.release(trained.model_)
    other.model_ = both.model_.source.other
    each = [model.predict_proba(new) for model in (trained, other)]
    assert_allclose(both.predict_proba(new), 0.3 * each[0] + 0.7 * each[1], rtol=1e-6)


@pytest.mark.parametrize("make", BOTH)
def test_the_untrained_gp_knows_all_rows_at_the_optimum_of_the_bound(make, fitted):
    model = fitted(make, 0.0, batch_size=30, jitter=1e-6)
    module = model.model_
    X, f = _rows(90)
    y = torch.from_numpy((f > 0.2).astype(float))[:, None]
    batch = Batch(module.scaled(X), Targets(y, None), None)
    assert model.n_samples_seen_ == 90
    parts = module.stack, module.likelihood, module.nodes(1)
    value = loss(ELBO, *parts, batch, beta_reg=1.0, n_data=90.0)
    slopes = torch.autograd.grad(value, list(module.stack.top.posterior.parameters()))
    assert max(float(slope.abs().max()) for slope in slopes) < 1e-4


@pytest.mark.parametrize("make", BOTH)
def test_files_keep_both(make, fitted, tmp_path):
    model, new = fitted(make, 0.3), _rows(9, seed=1)[0]
    save(model, tmp_path / "model.skgp")
    again = load(tmp_path / "model.skgp")
    assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    assert_array_equal(again.stacking_weights_, [0.3, 0.7])


def test_training_goes_on_without_the_other_one(fitted):
    X, f = _rows(90)
    trained, both = (fitted(PPGPRClassifier, share, warm_start=True) for share in (1.0, 0.3))
    for model in (trained, both):
        model.set_params(max_iter=2, early_stopping=False).fit(X, f > 0.2)
        assert type(model.model_.source) is Layers
        assert_array_equal(model.stacking_weights_, [1.0, 0.0])
    assert_allclose(both.predict_proba(X), trained.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("is_ahead", [True, False])
@pytest.mark.parametrize("batches", [ONE_BATCH, SEVERAL])
def test_thresholds_of_ordered_classes_are_those_of_one_model(is_ahead, batches, monkeypatch):
    for module in (cross_validation, untrained_gp):
        monkeypatch.setattr(module, "is_ahead", lambda *given: is_ahead)
    X, f = _rows(90)
    codes = np.digitize(f, [-0.5, 0.5])
    model = PPGPRClassifier(likelihood="ordinal", max_iter=5, random_state=0, **batches)
    model.fit(X, codes)
    assert type(model.model_.source) is Layers
    assert_array_equal(model.stacking_weights_, [is_ahead, not is_ahead])


@pytest.mark.usefixtures("full_start")
@pytest.mark.parametrize("batches", [ONE_BATCH, SEVERAL])
def test_there_may_be_no_other_model(batches, fitted, monkeypatch):
    X, f = _rows(90)
    with_number = fitted(PPGPRClassifier, 0.0, n_inducing=20, **batches)
    several = PPGPRClassifier(max_iter=5, random_state=0, **batches)
    several.fit(X, np.digitize(f, [-0.5, 0.5]))
    monkeypatch.setattr(sizes, "_MOST_CLASSIFIED", 89)
    of_many = fitted(PPGPRClassifier, 0.0, **batches)
    for model in (with_number, of_many, several):
        assert_array_equal(model.stacking_weights_, [1.0, 0.0])
        assert len(model.validation_scores_) > 1
