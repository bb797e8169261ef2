"""The regressors inside scikit-learn's meta-estimators, cloned, pickled and sent to workers."""

import io
import pickle
from typing import Any

import gpytorch
import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from contract_cases import REPRESENTATIVES, for_gps, for_minibatches
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgp.compose import predict_dist
from skgp.distributions import NormalMixture
from skgp.scoring import crps, neg_crps_scorer

pytestmark = pytest.mark.usefixtures("short_start")

QUICK = REPRESENTATIVES
CV = KFold(2)


def assert_same_distribution(actual: Any, desired: Any) -> None:
    for a, b in zip(actual.components()[:3], desired.components()[:3], strict=True):
        np.testing.assert_array_equal(a, b)


def test_pipeline_forwards_predictions(make: Any, data: Any) -> None:
    pipe = Pipeline([("scale", StandardScaler()), ("gp", make())]).fit(data.X, data.y)
    scaler = StandardScaler().fit(data.X)
    alone = make().fit(scaler.transform(data.X), data.y)
    X_new = scaler.transform(data.X_new)
    mean, std = pipe.predict(data.X_new, return_std=True)
    np.testing.assert_array_equal(mean, alone.predict(X_new))
    np.testing.assert_array_equal(std, alone.predict_dist(X_new).std())
    for dist in (pipe.predict_proba(data.X_new), predict_dist(pipe, data.X_new)):
        assert isinstance(dist, NormalMixture)
        assert_same_distribution(dist, alone.predict_dist(X_new))
    assert pipe.score(data.X_new, data.y_new) == alone.score(X_new, data.y_new) > 0.5


def test_column_transformer_with_categories(make: Any, data: Any) -> None:
    shift = np.arange(len(data.X)) % 2
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"])
    frame["kind"] = np.where(shift, "high", "low")
    y = data.y + 30.0 * shift
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["a", "b", "c"]),
            ("kinds", OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["kind"]),
        ]
    )
    pipe = Pipeline([("columns", columns), ("gp", make())]).fit(frame, y)
    low, high = frame.assign(kind="low"), frame.assign(kind="high")
    difference = pipe.predict(high) - pipe.predict(low)
    np.testing.assert_allclose(difference.mean(), 30.0, atol=5.0)
    dist = predict_dist(pipe, frame)
    assert crps(y, dist) < 0.3 * np.std(y)


def test_grid_search_over_own_and_nested_parameters(make: Any, data: Any) -> None:
    pipe = Pipeline([("scale", StandardScaler()), ("gp", make(max_iter=10))])
    grid = {"gp__noise_floor": [1e-3, 1e2], "scale__with_std": [True, False]}
    search = GridSearchCV(pipe, grid, scoring=neg_crps_scorer, cv=CV).fit(data.X, data.y)
    # With a noise of ten deviations of y the forecasts are useless.
    assert search.best_params_["gp__noise_floor"] == 1e-3
    scores = search.cv_results_["mean_test_score"]
    best_fit = clone(pipe).set_params(**search.best_params_).fit(data.X, data.y)
    assert_same_distribution(search.predict_proba(data.X_new), best_fit.predict_proba(data.X_new))
    assert scores.max() == search.best_score_ < 0.0
    np.testing.assert_array_equal(search.predict(data.X_new), best_fit.predict(data.X_new))


@for_gps
def test_grid_search_over_a_parameter_of_a_gpytorch_kernel_object(make: Any, data: Any) -> None:
    kernels = ["rbf", gpytorch.kernels.MaternKernel(nu=0.5)]
    search = GridSearchCV(make(max_iter=3), {"kernel": kernels}, cv=CV, scoring=neg_crps_scorer)
    search.fit(data.X, data.y)
    own = clone(search.estimator).set_params(kernel=kernels[search.best_index_])
    np.testing.assert_array_equal(
        search.predict(data.X_new), own.fit(data.X, data.y).predict(data.X_new)
    )


def test_cross_val_score_is_the_score_of_the_folds(make: Any, data: Any) -> None:
    scores = cross_val_score(make(), data.X, data.y, cv=CV, scoring=neg_crps_scorer)
    for score, (train, test) in zip(scores, CV.split(data.X), strict=True):
        fold = make().fit(data.X[train], data.y[train])
        assert score == -crps(data.y[test], fold.predict_dist(data.X[test]))


def test_cross_val_predict_with_several_outputs(make: Any, data: Any) -> None:
    predicted = cross_val_predict(make(max_iter=5), data.X, data.Y, cv=CV)
    train, test = next(CV.split(data.X))
    fold = make(max_iter=5).fit(data.X[train], data.Y[train])
    np.testing.assert_array_equal(predicted[test], fold.predict(data.X[test]))


def test_transformed_target_is_undone(make: Any, data: Any) -> None:
    """The distribution comes back in the units of the outer target."""
    model = TransformedTargetRegressor(make(), transformer=StandardScaler())
    dist = predict_dist(model.fit(data.X, data.y), data.X_new)
    scaled = (data.y - data.y.mean()) / data.y.std()
    inner = make().fit(data.X, scaled).predict_dist(data.X_new)
    np.testing.assert_allclose(dist.mean(), inner.mean() * data.y.std() + data.y.mean(), rtol=1e-3)
    np.testing.assert_allclose(dist.std(), inner.std() * data.y.std(), rtol=1e-3)


def test_clone_keeps_parameters_and_forgets_the_fit(make: Any, data: Any) -> None:
    model = make(noise_floor=0.3, tol=0.1).fit(data.X, data.y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    # Nothing but that it is a clone, so that an interruption ends what it belongs to.
    private = [name for name in vars(copy) if name.endswith("_") or name.startswith("_")]
    assert private == ["_is_clone"]
    np.testing.assert_array_equal(
        copy.fit(data.X, data.y).predict(data.X_new), model.predict(data.X_new)
    )


def test_fit_leaves_parameters_untouched(make: Any, data: Any) -> None:
    assert_untouched_by_fit(make(), data)


@for_gps
def test_fit_leaves_a_kernel_object_untouched(make: Any, data: Any) -> None:
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    before = {name: value.clone() for name, value in kernel.state_dict().items()}
    assert_untouched_by_fit(make(kernel=kernel), data)
    assert all(torch.equal(kernel.state_dict()[name], value) for name, value in before.items())


def assert_untouched_by_fit(model: Any, data: Any) -> None:
    params = dict(model.get_params(deep=False))
    model.fit(data.X, data.y)
    after = model.get_params(deep=False)
    assert after.keys() == params.keys()
    for name, value in params.items():
        assert after[name] is value, name


@for_gps
def test_clone_of_a_gpytorch_kernel_is_a_copy_of_its_own(make: Any, data: Any) -> None:
    kernel = gpytorch.kernels.RBFKernel() + gpytorch.kernels.LinearKernel()
    copy = clone(make(kernel=kernel, max_iter=5))
    assert copy.kernel is not kernel
    assert type(copy.kernel) is type(kernel)
    original = make(kernel=kernel, max_iter=5).fit(data.X, data.y)
    np.testing.assert_array_equal(
        copy.fit(data.X, data.y).predict(data.X_new), original.predict(data.X_new)
    )


def _pickled(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


def _dumped_by_joblib(model: Any) -> Any:
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


@pytest.mark.parametrize("round_trip", [_pickled, _dumped_by_joblib])
@pytest.mark.parametrize("target", ["y", "Y"])
def test_pickles_predict_the_same_bits(make: Any, data: Any, round_trip: Any, target: str) -> None:
    model = make(max_iter=3).fit(data.X, getattr(data, target))
    assert_predict_the_same_bits(round_trip(model), model, data)


@for_gps
@pytest.mark.parametrize("round_trip", [_pickled, _dumped_by_joblib])
@pytest.mark.parametrize("kernel", ["matern32", gpytorch.kernels.MaternKernel(nu=1.5)])
def test_pickles_keep_the_kernel(make: Any, data: Any, round_trip: Any, kernel: Any) -> None:
    model = make(kernel=kernel, max_iter=3).fit(data.X, data.Y)
    assert_predict_the_same_bits(round_trip(model), model, data)


def assert_predict_the_same_bits(again: Any, model: Any, data: Any) -> None:
    assert_same_distribution(again.predict_dist(data.X_new), model.predict_dist(data.X_new))
    np.testing.assert_array_equal(again.noise_variance_, model.noise_variance_)
    assert again.loss_curve_ == model.loss_curve_


def test_an_unfitted_pickle_can_be_fitted(make: Any, data: Any) -> None:
    model = make(max_iter=3)
    again = _pickled(model).fit(data.X, data.y)
    np.testing.assert_array_equal(
        again.predict(data.X_new), model.fit(data.X, data.y).predict(data.X_new)
    )


def test_a_pickle_goes_on_training_like_the_original(make: Any, data: Any) -> None:
    model = make(max_iter=3, warm_start=True).fit(data.X, data.y)
    again = _pickled(model).fit(data.X, data.y)
    model.fit(data.X, data.y)
    np.testing.assert_array_equal(again.predict(data.X_new), model.predict(data.X_new))
    assert again.loss_curve_ == model.loss_curve_


@for_minibatches
def test_a_pickle_takes_chunks_like_the_original(make: Any, data: Any) -> None:
    model = make(max_iter=3).partial_fit(data.X, data.y)
    again = _pickled(model).partial_fit(data.X, data.y)
    model.partial_fit(data.X, data.y)
    np.testing.assert_array_equal(again.predict(data.X_new), model.predict(data.X_new))
    assert again.loss_curve_ == model.loss_curve_
