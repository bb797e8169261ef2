"""Known noise of single rows, against scikit-learn's alpha, limits, and what carries it along."""

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp import ExactGPRegressor, load, save
from skgp.compose import cross_val_predict_dist

pytestmark = pytest.mark.usefixtures("short_start")

N = 60
FAST = {"max_iter": 10, "input_warping": False, "random_state": 0}
SHORT = {"max_iter": 2, "input_warping": False, "random_state": 0}


@pytest.fixture
def table(rng):
    """Inputs, targets with known noise, its variances and further inputs."""
    X = rng.uniform(-2.0, 2.0, (N, 2)) * [1.0, 10.0]
    noise = rng.permutation(np.geomspace(1e-3, 1e3, N))
    noise[:5] = 0.0
    y = 50.0 + 5.0 * np.sin(2.0 * X[:, 0]) + rng.standard_normal(N) * np.sqrt(0.1 + noise)
    return X, y, noise, rng.uniform(-2.5, 2.5, (20, 2)) * [1.0, 10.0]


def alike(one, other, X, rtol=1e-7):
    for part in ("mean", "std"):
        actual, expected = (getattr(m.predict_dist(X), part)() for m in (one, other))
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol)


def compare_with_scikit_learn(model, X, y, alpha, X_new):
    """Of a fitted model the predictions and the likelihood of its rows."""
    gp, scale = model.stack_.top, model.model_.y_scale
    unit, mean = scale.unit[0], scale.offset[0] + scale.unit[0] * gp.mean.item()
    kernel = ConstantKernel(gp.kernel.variance.item() * unit**2)
    kernel *= Matern(model.lengthscales_, nu=2.5)
    twin = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(X, y - mean)
    f_mean, f_cov = twin.predict(X_new, return_cov=True)
    np.testing.assert_allclose(model.predict(X_new), f_mean + mean, rtol=1e-8)
    f_std = np.sqrt(np.diagonal(f_cov))
    np.testing.assert_allclose(model.predict_latent(X_new).std(), f_std, rtol=1e-7)
    cov = f_cov + model.noise_variance_ * np.eye(len(X_new))
    np.testing.assert_allclose(model.predict(X_new, return_cov=True)[1], cov, atol=1e-7)
    value = model.log_marginal_likelihood_value_ - len(y) * np.log(unit)
    np.testing.assert_allclose(value, twin.log_marginal_likelihood_value_, rtol=1e-9)


def test_predictions_and_likelihood_are_those_of_scikit_learn(table):
    X, y, noise, X_new = table
    model = ExactGPRegressor(**FAST).fit(X, y, noise_variance=noise)
    compare_with_scikit_learn(model, X, y, model.noise_variance_ + noise, X_new)
    f = 50.0 + 5.0 * np.sin(2.0 * X_new[:, 0])
    error, blind = (
        np.square(m.predict(X_new) - f).mean() for m in (model, ExactGPRegressor(**FAST).fit(X, y))
    )
    assert error < 0.5 * blind


def test_the_loss_is_the_likelihood(table):
    X, y, noise, _ = table
    model = ExactGPRegressor(random_state=0).fit(X, y, noise_variance=noise)
    value = model.log_marginal_likelihood_value_
    np.testing.assert_allclose(-N * model.loss_curve_[-1], value, rtol=0, atol=1e-5)


def test_noisy_rows_count_for_little_at_the_start(table):
    """Else a fit starts 1.2 to 1.5 nats per row above the optimum, of six tables like this one."""
    X, y, noise, _ = table
    model = ExactGPRegressor(random_state=0).fit(X, y, noise_variance=noise)
    assert model.loss_curve_[0] < model.loss_curve_[-1] + 1.0


def test_equal_known_noise_is_learned_noise(table):
    """K + (s2 + a) I has the same optimum, whichever part of the noise is known."""
    X, y, _, X_new = table
    plain = ExactGPRegressor(random_state=0).fit(X, y)
    known = 0.4 * plain.noise_variance_
    model = ExactGPRegressor(random_state=0).fit(X, y, noise_variance=np.full(N, known))
    np.testing.assert_allclose(model.noise_variance_ + known, plain.noise_variance_, rtol=1e-3)
    np.testing.assert_allclose(model.predict(X_new), plain.predict(X_new), rtol=1e-4)
    assert model.model_.y_scale.unit[0] == pytest.approx(plain.model_.y_scale.unit[0], rel=1e-12)


def test_rows_of_endless_noise_are_left_out(table):
    """Whatever their targets: of scales, optimum and predictions."""
    X, y, noise, X_new = table
    X = (X - X.mean(0)) / X.std(0)
    settings = {"normalize_X": False, "random_state": 0}
    left = ExactGPRegressor(**settings).fit(X[2:], y[2:], noise_variance=noise[2:])
    y, noise = y.copy(), noise.copy()
    y[:2], noise[:2] = (1e6, -300.0), 1e20
    model = ExactGPRegressor(**settings).fit(X, y, noise_variance=noise)
    np.testing.assert_allclose(model.model_.y_scale.unit, left.model_.y_scale.unit, rtol=1e-6)
    np.testing.assert_allclose(model.noise_variance_, left.noise_variance_, rtol=1e-3)
    alike(model, left, X_new / 10.0, 1e-3)


@pytest.mark.parametrize("normalize_y", [True, False])
def test_noise_is_in_the_units_of_y(table, normalize_y):
    """A thousand times the targets have a million times the noise."""
    X, y, noise, X_new = table
    params = FAST | {"normalize_y": normalize_y}
    y = (y - 50.0) / 5.0
    noise = noise / 25.0
    model = ExactGPRegressor(**params).fit(X, y, noise_variance=noise)
    compare_with_scikit_learn(model, X, y, model.noise_variance_ + noise, X_new)
    if normalize_y:
        large = ExactGPRegressor(**params).fit(X, 1e3 * y, noise_variance=1e6 * noise)
        np.testing.assert_allclose(large.predict(X_new), 1e3 * model.predict(X_new), rtol=1e-6)
        assert large.noise_variance_ == pytest.approx(1e6 * model.noise_variance_, rel=1e-6)


def test_several_outputs_have_noise_of_their_own(table):
    """Where a target is missing, nothing needs to be known of its noise."""
    X, y, noise, X_new = table
    Y, noises = np.column_stack([y, X[:, 0]]), np.column_stack([noise, noise[::-1] / 1e3])
    Y[::7, 1] = noises[::7, 1] = np.nan
    model = ExactGPRegressor(**FAST).fit(X, Y, noise_variance=noises)
    top, scale = model.stack_.top, model.model_.y_scale
    for p in range(2):
        rows = ~np.isnan(Y[:, p])
        kernel = ConstantKernel(top.kernel.variance[p].item() * scale.unit[p] ** 2)
        kernel *= Matern(model.lengthscales_[p], nu=2.5)
        alpha = model.noise_variance_[p] + noises[rows, p]
        level = scale.offset[p] + scale.unit[p] * top.mean[p].item()
        twin = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None)
        twin.fit(X[rows], Y[rows, p] - level)
        expected = level + twin.predict(X_new)
        np.testing.assert_allclose(model.predict(X_new)[:, p], expected, rtol=1e-7)


def test_a_row_of_weight_two_is_two_rows(table):
    X, y, noise, X_new = table
    weight = np.where(np.arange(N) % 3 == 0, 2.0, 1.0)
    weight[:4] = 0.0
    rows = np.repeat(np.arange(N), weight.astype(int))
    model = ExactGPRegressor(**FAST).fit(X, y, weight, noise_variance=noise)
    repeated = ExactGPRegressor(**FAST).fit(X[rows], y[rows], noise_variance=noise[rows])
    alike(model, repeated, X_new, 1e-5)


def test_further_rows_have_known_noise_too(table):
    X, y, noise, X_new = table
    model = ExactGPRegressor(**FAST).fit(X[:40], y[:40], noise_variance=noise[:40])
    more = model.condition_on(X[40:50], y[40:50], noise_variance=noise[40:50])
    more = more.condition_on(X[50:], y[50:])
    alpha = model.noise_variance_ + np.where(np.arange(N) < 50, noise, 0.0)
    compare_with_scikit_learn(more, X, y, alpha, X_new)
    nothing = model.condition_on(X[40:], y[40:], noise_variance=np.full(20, 1e20))
    alike(nothing, model, X_new)


def test_conjugate_gradients_take_known_noise(table):
    X, y, noise, X_new = table
    direct = ExactGPRegressor(**FAST).fit(X[:50], y[:50], noise_variance=noise[:50])
    more = direct.condition_on(X[50:], y[50:], noise_variance=noise[50:])
    iterative = ExactGPRegressor(**FAST, max_cholesky_size=55)
    iterative.fit(X[:50], y[:50], noise_variance=noise[:50])
    iterative = iterative.condition_on(X[50:], y[50:], noise_variance=noise[50:])
    assert iterative.stack_.top.L_inv is None
    alike(iterative, more, X_new, 1e-3)
    gap = iterative.log_marginal_likelihood_value_ - more.log_marginal_likelihood_value_
    assert abs(gap) < 0.05 * N
    fitted = ExactGPRegressor(max_iter=3, random_state=0, max_cholesky_size=10)
    fitted.fit(X, y, noise_variance=noise)
    assert np.abs(fitted.predict(X_new) - more.predict(X_new)).mean() < 1.0


def test_files_keep_known_noise(table, tmp_path):
    pytest.importorskip("safetensors")
    X, y, noise, X_new = table
    model = ExactGPRegressor(**FAST).fit(X, y, noise_variance=noise)
    save(model, tmp_path / "known.skgp")
    kept = load(tmp_path / "known.skgp")
    np.testing.assert_array_equal(kept.predict(X_new), model.predict(X_new))
    assert kept.log_marginal_likelihood_value_ == model.log_marginal_likelihood_value_
    alike(*(m.condition_on(X[:2], y[:2], noise_variance=noise[:2]) for m in (kept, model)), X_new)


def test_a_checkpoint_is_of_rows_with_their_noise(table, tmp_path):
    X, y, noise, _ = table
    model = ExactGPRegressor(**FAST, checkpoint=tmp_path / "fit.ckpt")
    model.fit(X, y, noise_variance=noise)
    model.fit(X, y, noise_variance=noise)
    with pytest.raises(ValueError, match="the rows"):
        model.fit(X, y, noise_variance=2.0 * noise)


def by_hand(model, X, y, noise, cv):
    """Scores of the folds, of a pipeline's last step under its own name."""
    scores = []
    for train, test in cv.split(X):
        model.fit(X[train], y[train], noise_variance=noise[train])
        scores.append(model.score(X[test], y[test]))
    return scores


def test_cross_validation_splits_known_noise_with_the_rows(table):
    X, y, noise, _ = table
    model, cv = ExactGPRegressor(**SHORT), KFold(2)
    expected = by_hand(ExactGPRegressor(**SHORT), X, y, noise, cv)
    given = {"noise_variance": noise}
    assert cross_val_score(model, X, y, cv=cv, params=given).tolist() == expected
    search = GridSearchCV(model, {"kernel": ["matern52"]}, cv=cv).fit(X, y, **given)
    assert search.best_score_ == pytest.approx(np.mean(expected))
    pipeline = make_pipeline(StandardScaler(), ExactGPRegressor(**SHORT, normalize_X=False))
    named = {"exactgpregressor__noise_variance": noise}
    scores = cross_val_score(pipeline, X, y, cv=cv, params=named)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    with config_context(enable_metadata_routing=True):
        asked = ExactGPRegressor(**SHORT).set_fit_request(noise_variance=True)
        assert cross_val_score(asked, X, y, cv=cv, params=given).tolist() == expected
        routed = make_pipeline(StandardScaler(), asked)
        scores = cross_val_score(routed, X, y, cv=cv, params=given)
        np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_compositions_hand_known_noise_on(table):
    X, y, noise, X_new = table
    model = ExactGPRegressor(**SHORT).fit(X, y, noise_variance=noise)
    # In the units of the target that the regressor sees
    target = TransformedTargetRegressor(ExactGPRegressor(**SHORT), transformer=StandardScaler())
    target.fit(X, y, noise_variance=noise / y.std() ** 2)
    np.testing.assert_allclose(target.predict(X_new), model.predict(X_new), rtol=1e-6)
    cv, given = KFold(2), {"noise_variance": noise}
    dist = cross_val_predict_dist(ExactGPRegressor(**SHORT), X, y, cv=cv, params=given)
    train, test = next(cv.split(X))
    fold = ExactGPRegressor(**SHORT).fit(X[train], y[train], noise_variance=noise[train])
    np.testing.assert_allclose(dist[test].mean(), fold.predict(X[test]))


def test_held_out_targets_are_as_noisy_as_they_are_known_to_be(table):
    X, y, noise, _ = table
    held_out = {"X_val": X[40:], "y_val": y[40:], "noise_variance_val": noise[40:]}
    model = ExactGPRegressor(**FAST).fit(X[:40], y[:40], noise_variance=noise[:40], **held_out)
    dist = model.predict_dist(X[40:])
    score = norm.logpdf(y[40:], dist.mean(), np.sqrt(dist.var() + noise[40:])).mean()
    np.testing.assert_allclose(model.validation_scores_[-1], score, rtol=1e-7)
    stopped = ExactGPRegressor(**FAST, early_stopping=True).fit(X, y, noise_variance=noise)
    assert stopped.best_validation_score_ > -5.0


def test_much_known_noise_is_no_reason_for_a_warning(table):
    """Nor is a learned noise at its floor, if it is all known."""
    X, y, noise, _ = table
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ExactGPRegressor(random_state=0).fit(X, y, noise_variance=100.0 * noise)
        f = 50.0 + 5.0 * np.sin(2.0 * X[:, 0])
        y = f + 0.5 * np.random.default_rng(1).standard_normal(N)
        model = ExactGPRegressor(random_state=0).fit(X, y, noise_variance=np.full(N, 0.4))
    assert model.noise_variance_ < 0.01


def test_messages(table):
    X, y, noise, _ = table
    model = ExactGPRegressor(max_iter=1, random_state=0)
    for wrong, match in (
        (-noise, r"noise_variance holds -.* in row 5: pass variances"),
        (np.where(np.arange(N) == 7, np.nan, noise), r"holds nan in row 7"),
        (np.where(np.arange(N) == 7, np.inf, noise), r"noise_variance contains infinity"),
        (noise[1:], r"noise_variance has shape \(59,\).*needs the shape \(60,\)"),
        (0.1, r"noise_variance has shape \(\)"),
        (noise[:, None], r"noise_variance has shape \(60, 1\)"),
    ):
        with pytest.raises(ValueError, match=match):
            model.fit(X, y, noise_variance=wrong)
    with pytest.raises(ValueError, match=r"noise_variance has shape \(60,\).*\(60, 2\)"):
        model.fit(X, np.column_stack([y, y]), noise_variance=noise)
    with pytest.raises(ValueError, match="noise_variance_val is given without X_val"):
        model.fit(X, y, noise_variance_val=noise)
    with pytest.raises(ValueError, match=r"noise_variance_val has shape \(59,\).*y_val"):
        model.fit(X, y, X_val=X, y_val=y, noise_variance_val=noise[1:])
    fitted = model.fit(X, y)
    with pytest.raises(ValueError, match=r"noise_variance has shape \(2,\)"):
        fitted.condition_on(X[:3], y[:3], noise_variance=noise[:2])
