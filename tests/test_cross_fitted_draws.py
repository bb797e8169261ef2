"""Joint draws of ensembles over folds against the moments of their members."""

from copy import copy
from typing import Any

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from toy_regressor import ToyBayesianRidge

from skgp import IWDGPRegressor, SVGPRegressor
from skgp.compose import CrossFittedRegressor

pytestmark = pytest.mark.usefixtures("short_start")

N_DRAWS = 20_000
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(45, 1))
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_normal(45)
OUTPUTS = np.column_stack([Y, 3.0 * Y + RNG.standard_normal(45)])
NEAR = np.array([[-0.5], [-0.5 + 1e-6], [3.5]])
FOLDS = KFold(3, shuffle=True, random_state=0)
SVGP = SVGPRegressor(n_inducing=10, max_iter=30, random_state=0)
GP = make_pipeline(
    StandardScaler(),
    GaussianProcessRegressor(RBF(0.5) + WhiteKernel(0.02), optimizer=None, normalize_y=True),
)


@pytest.mark.parametrize("recalibrate", [False, True])
@pytest.mark.parametrize("y", [Y, OUTPUTS], ids=["one output", "two outputs"])
@pytest.mark.parametrize("member", [SVGP, GP], ids=["SVGP", "pipeline around scikit-learn's GP"])
def test_draws_have_the_moments_of_the_mixture(member: Any, y: Any, recalibrate: bool) -> None:
    """Those of a row are those of `predict_dist`; those of rows those of `return_cov`."""
    model = CrossFittedRegressor(member, cv=FOLDS, recalibrate=recalibrate).fit(X, y)
    assert (model.scale_ != 1.0) == recalibrate
    draws = model.sample_y(NEAR, N_DRAWS, random_state=1)
    assert draws.shape == (*NEAR.shape[:1], *y.shape[1:], N_DRAWS)
    dist = model.predict_dist(NEAR)
    mean, var = dist.mean(), dist.var()
    assert (np.abs(draws.mean(axis=-1) - mean) < 4.5 * np.sqrt(var / N_DRAWS)).all()
    squares = (draws - mean[..., None]) ** 2
    error = squares.std(axis=-1) / np.sqrt(N_DRAWS)
    assert (np.abs(squares.mean(axis=-1) - var) < 4.5 * error).all()
    cov = model.predict(NEAR, return_cov=True)[1].reshape(3, 3, -1)
    centred = (draws - mean[..., None]).reshape(3, -1, N_DRAWS)
    products = centred[0] * centred[1]
    error = products.std(axis=-1) / np.sqrt(N_DRAWS)
    assert (np.abs(products.mean(axis=-1) - cov[0, 1]) < 4.5 * error).all()
    assert (cov[0, 1] > 7.0 * error).all()  # draws of single rows would have none


@pytest.mark.parametrize("y", [Y, OUTPUTS], ids=["one output", "two outputs"])
def test_draws_of_a_transformed_target_are_transformed(y: Any) -> None:
    """The exponential of what the members draw, whose distribution is that of `predict_dist`."""
    member = TransformedTargetRegressor(SVGP, func=np.log, inverse_func=np.exp)
    model = CrossFittedRegressor(member, cv=FOLDS).fit(X, np.exp(y))
    draws = model.sample_y(NEAR, N_DRAWS)
    plain = copy(model)
    plain.estimators_ = [member.regressor_ for member in model.estimators_]
    np.testing.assert_allclose(draws, np.exp(plain.sample_y(NEAR, N_DRAWS)))
    below = (draws < model.predict_dist(NEAR).median()[..., None]).mean(axis=-1)
    assert (np.abs(below - 0.5) < 4.5 * 0.5 / np.sqrt(N_DRAWS)).all()
    assert model.sample_y(NEAR, 0).shape == (*draws.shape[:-1], 0)


def test_each_draw_is_of_one_member_chosen_by_chance() -> None:
    """Far from each other the means of the members tell whose a draw is."""
    model = CrossFittedRegressor(GP, cv=FOLDS).fit(X, Y)
    for number, member in enumerate(model.estimators_):
        member[-1]._y_train_mean = 1000.0 * number
    draws = model.sample_y(NEAR, 3000)
    numbers = np.round(draws / 1000.0).astype(int)
    assert (numbers == numbers[0]).all()
    counts = np.bincount(numbers[0], minlength=3)
    assert (np.abs(counts - 1000.0) < 4.5 * np.sqrt(3000.0 * 2.0 / 9.0)).all()
    changes = np.mean(numbers[0, 1:] != numbers[0, :-1])  # a draw tells nothing about the next
    assert abs(changes - 2.0 / 3.0) < 4.5 * np.sqrt(2.0 / 9.0 / 3000.0)


def test_draws_follow_their_random_state() -> None:
    model = CrossFittedRegressor(SVGP, cv=FOLDS, recalibrate=True).fit(X, Y)
    draws = model.sample_y(NEAR, 5)
    np.testing.assert_array_equal(draws, model.sample_y(NEAR, 5, random_state=0))
    assert (draws != model.sample_y(NEAR, 5, random_state=1)).all()
    state = np.random.RandomState(0)
    np.testing.assert_array_equal(draws, model.sample_y(NEAR, 5, random_state=state))
    assert (draws != model.sample_y(NEAR, 5, random_state=state)).all()
    assert model.sample_y(NEAR).shape == (3, 1)
    assert model.sample_y(NEAR, 0).shape == (3, 0)
    for wrong, error in ((-1, ValueError), (2.5, TypeError)):
        with pytest.raises(error, match="n_samples"):
            model.sample_y(NEAR, wrong)


@pytest.mark.parametrize(
    "member",
    [
        ToyBayesianRidge(),
        IWDGPRegressor(max_iter=1, n_inducing=5, random_state=0),
    ],
    ids=["without the method", "latent covariates"],
)
def test_members_without_joint_draws(member: Any) -> None:
    model = CrossFittedRegressor(member, cv=FOLDS).fit(X, Y)
    with pytest.raises(NotImplementedError, match=r"predict_dist\(X\)\.rvs\(n_samples\)"):
        model.sample_y(NEAR, 3)
