"""The predictive distribution of nested models equals the one worked out by hand."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from scipy.special import expit, logit
from sklearn import clone, config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from toy_regressor import ForeignRegressor, ToyBayesianRidge, make_data

from skgp.compose import CrossFittedRegressor, predict_dist, predict_latent
from skgp.distributions import Bernoulli, MonotoneTransformed, NormalMixture


def assert_equal(got: Any, expected: Any) -> None:
    """The two distributions are the same normals."""
    assert type(got) is type(expected) is NormalMixture
    np.testing.assert_allclose(got.mean(), expected.mean(), rtol=1e-10)
    np.testing.assert_allclose(got.std(), expected.std(), rtol=1e-10)


class Centring(TransformerMixin, BaseEstimator):
    """Transformer that learns nothing scikit-learn could see."""

    def fit(self, X: Any, y: Any = None) -> "Centring":
        return self

    def transform(self, X: Any) -> Any:
        return X - 1.0


X, Y = make_data()
INNER = ToyBayesianRidge().fit(X, Y)
CENTRED = ToyBayesianRidge().fit(X - 1.0, Y)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (ToyBayesianRidge(), INNER.predict_dist(X)),
        (ForeignRegressor(), INNER.predict_dist(X)),
        (make_pipeline(ToyBayesianRidge()), INNER.predict_dist(X)),
        (make_pipeline("passthrough", ToyBayesianRidge()), INNER.predict_dist(X)),
        (Pipeline([("none", None), ("end", ToyBayesianRidge())]), INNER.predict_dist(X)),
        (make_pipeline(Centring(), ToyBayesianRidge()), CENTRED.predict_dist(X - 1.0)),
        (make_pipeline(Centring(), make_pipeline(Centring(), "passthrough", ToyBayesianRidge())),
         ToyBayesianRidge().fit(X - 2.0, Y).predict_dist(X - 2.0)),
        (GridSearchCV(make_pipeline(Centring(), ToyBayesianRidge()),
                      {"toybayesianridge__inflation": [1.0]}, cv=2),
         CENTRED.predict_dist(X - 1.0)),
        (RandomizedSearchCV(ForeignRegressor(), {}, n_iter=1, cv=2), INNER.predict_dist(X)),
        (FrozenEstimator(INNER), INNER.predict_dist(X)),
        (FrozenEstimator(TransformedTargetRegressor(INNER).fit(X, Y)), INNER.predict_dist(X)),
        (FrozenEstimator(make_pipeline(Centring(), CENTRED)), CENTRED.predict_dist(X - 1.0)),
        (make_pipeline(Centring(), FrozenEstimator(CENTRED)), CENTRED.predict_dist(X - 1.0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("enable_metadata_routing", [False, True])
def test_walk(model: Any, expected: Any, enable_metadata_routing: bool) -> None:
    with config_context(enable_metadata_routing=enable_metadata_routing):
        assert_equal(predict_dist(model.fit(X, Y), X), expected)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names_on_the_way(frame: Any) -> None:
    data = frame({"a": X[:, 0], "b": X[:, 1]})
    model = make_pipeline(StandardScaler().set_output(transform="pandas"), ToyBayesianRidge())
    search = GridSearchCV(model, {"toybayesianridge__alpha": [1.0]}, cv=2).fit(data, Y)
    Z = StandardScaler().fit_transform(X)
    assert_equal(predict_dist(search, data), ToyBayesianRidge().fit(Z, Y).predict_dist(Z))


@pytest.mark.parametrize("n_outputs", [None, 3])
@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        MinMaxScaler((-1.0, 4.0)),
        FunctionTransformer(),
        FunctionTransformer(lambda y: -3.0 * y, lambda z: -z / 3.0),
        FunctionTransformer(lambda y: (y - 5.0) * 1e9, lambda z: z * 1e-9 + 5.0),
        make_pipeline(StandardScaler(), MinMaxScaler()),
    ],
)
def test_affine_target_transformers_are_undone_exactly(
    transformer: Any, n_outputs: int | None
) -> None:
    X, y = make_data(n_outputs=n_outputs)
    model = TransformedTargetRegressor(ToyBayesianRidge(), transformer=transformer,
                                       check_inverse=False).fit(X, y)  # fmt: skip
    dist = predict_dist(model, X)
    assert type(dist) is NormalMixture
    assert dist.shape == y.shape
    np.testing.assert_allclose(dist.mean(), model.predict(X), rtol=1e-10)
    # One predictive standard deviation on either side, mapped by scikit-learn itself.
    inner = model.regressor_.predict_dist(X)
    ends = [
        model.transformer_.inverse_transform((inner.mean() + k * inner.std()).reshape(len(y), -1))
        for k in (-1, 1)
    ]
    np.testing.assert_allclose(
        2 * dist.std().reshape(len(y), -1),
        np.abs(ends[1] - ends[0]),
        rtol=1e-9,
    )


def test_large_offset_costs_no_digits_of_the_scale() -> None:
    y = 1e9 + 1e-3 * Y
    model = TransformedTargetRegressor(ToyBayesianRidge(), transformer=StandardScaler())
    dist = predict_dist(model.fit(X, y), X)
    inner = model.regressor_.predict_dist(X)
    assert type(dist) is NormalMixture
    np.testing.assert_allclose(dist.std(), inner.std() * model.transformer_.scale_[0], rtol=1e-9)


def test_a_rows_distribution_does_not_depend_on_the_other_rows() -> None:
    for target in ({"transformer": StandardScaler()}, {"func": np.log1p, "inverse_func": np.expm1}):
        y = np.exp(0.1 * Y)
        model = TransformedTargetRegressor(ToyBayesianRidge(), **target).fit(X, y)
        together, alone = predict_dist(model, X), predict_dist(model, X[7:8])
        assert together.logpdf(y)[7] == alone.logpdf(y[7:8])[0]
        assert together.ppf(0.9)[7] == alone.ppf(0.9)[0]


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("as_transformer", [False, True])
def test_log1p_target_is_a_shifted_lognormal(n_outputs: int | None, as_transformer: bool) -> None:
    X, y = make_data(n_outputs=n_outputs)
    y = np.exp(y / y.std(axis=0))
    target: dict[str, Any] = {"func": np.log1p, "inverse_func": np.expm1}
    if as_transformer:
        target = {"transformer": FunctionTransformer(np.log1p, np.expm1)}
    model = TransformedTargetRegressor(ToyBayesianRidge(), **target).fit(X, y)
    dist = predict_dist(model, X)
    base = model.regressor_.predict_dist(X)
    oracle = stats.lognorm(s=base.std(), loc=-1.0, scale=np.exp(base.mean()))
    np.testing.assert_allclose(dist.cdf(y), oracle.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(dist.logpdf(y), oracle.logpdf(y), rtol=1e-8)
    np.testing.assert_allclose(dist.mean(), oracle.mean(), rtol=1e-8)
    np.testing.assert_allclose(dist.ppf(0.05), oracle.ppf(0.05), rtol=1e-8)
    np.testing.assert_array_equal(dist.ppf(0.0), np.full(y.shape, -1.0))
    np.testing.assert_array_equal(dist.ppf(1.0), np.full(y.shape, np.inf))
    missing = y.copy()
    missing[3] = np.nan
    np.testing.assert_allclose(dist.cdf(missing)[4:], oracle.cdf(y)[4:], rtol=1e-9)
    assert np.isnan(dist.cdf(missing)[3]).all()
    if n_outputs:
        np.testing.assert_allclose(dist.joint_logpdf(y), oracle.logpdf(y).sum(axis=1), rtol=1e-8)


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_quantile_transformer_keeps_quantiles_and_probabilities(n_outputs: int | None) -> None:
    X, y = make_data(200, n_outputs=n_outputs)
    transformer = QuantileTransformer(n_quantiles=50, output_distribution="normal")
    model = TransformedTargetRegressor(
        ToyBayesianRidge(), transformer=transformer, check_inverse=False
    ).fit(X, y)
    dist = predict_dist(model, X)
    base = model.regressor_.predict_dist(X)
    assert type(dist) is MonotoneTransformed
    for q in (0.2, 0.5, 0.7):
        z = base.ppf(q).reshape(len(y), -1)
        expected = model.transformer_.inverse_transform(z).reshape(y.shape)
        np.testing.assert_allclose(dist.ppf(q), expected, rtol=1e-12)
    inside = (np.sort(y, axis=0)[5:-5].min(axis=0) < y) & (y < np.sort(y, axis=0)[-5])
    z = model.transformer_.transform(y.reshape(len(y), -1)).reshape(y.shape)
    np.testing.assert_allclose(dist.cdf(y)[inside], base.cdf(z)[inside], rtol=1e-9)


def test_a_row_beyond_the_targets_of_a_quantile_transformer_has_their_extreme() -> None:
    X, y = make_data(200)
    model = TransformedTargetRegressor(
        ToyBayesianRidge(), transformer=QuantileTransformer(n_quantiles=50), check_inverse=False
    ).fit(X, y)
    rows = np.vstack([X[:2], 100.0 * X[:1], -100.0 * X[:1]])
    dist = predict_dist(model, rows)
    expected = np.where(model.regressor_.predict(rows[2:]) > 0.5, y.max(), y.min())
    np.testing.assert_allclose(dist.median()[2:], expected)
    np.testing.assert_allclose(dist.mean()[:2], predict_dist(model, rows[:2]).mean(), rtol=1e-9)
    np.testing.assert_allclose(predict_dist(model, rows[2:3]).median(), expected[:1])


def test_nested_target_transformers_are_undone_from_the_inside() -> None:
    y = np.exp(0.1 * Y)
    inner = TransformedTargetRegressor(
        ToyBayesianRidge(), func=np.log1p, inverse_func=np.expm1, check_inverse=False
    )
    outer = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), inner), transformer=MinMaxScaler((1.0, 2.0))
    ).fit(X, y)
    dist = predict_dist(outer, X)
    by_hand = predict_dist(outer.regressor_, X)
    low = outer.transformer_.inverse_transform([[0.0]])[0, 0]
    high = outer.transformer_.inverse_transform([[1.0]])[0, 0]
    z = (y - low) / (high - low)
    np.testing.assert_allclose(dist.cdf(y), by_hand.cdf(z), rtol=1e-9)
    np.testing.assert_allclose(dist.mean(), low + (high - low) * by_hand.mean(), rtol=1e-9)


@pytest.mark.parametrize(
    ("transformer", "n_outputs", "message"),
    [
        (PCA(2), 2, "PCA mixes the outputs"),
        (PCA(1), 2, "PCA turns 1 outputs into 2"),
        (FunctionTransformer(np.reciprocal, np.reciprocal), None, "is not increasing"),
        (FunctionTransformer(np.sqrt, np.square), None, "is not increasing"),
        (FunctionTransformer(np.square, np.sqrt), None, "undefined"),
        (
            FunctionTransformer(np.zeros_like, np.zeros_like, check_inverse=False),
            None,
            "is not increasing",
        ),
        (PowerTransformer("box-cox"), 2, "undefined.*output 0"),
        (
            KBinsDiscretizer(encode="ordinal", quantile_method="averaged_inverted_cdf"),
            None,
            "KBinsDiscretizer has no inverse for every number",
        ),
    ],
)
def test_other_target_transformers_are_refused(
    transformer: Any, n_outputs: int | None, message: str
) -> None:
    X, y = make_data(n_outputs=n_outputs)
    y = np.abs(y / np.std(y, axis=0)) + 0.1
    model = TransformedTargetRegressor(
        ToyBayesianRidge(), transformer=transformer, check_inverse=False
    ).fit(X, y)
    with pytest.raises(ValueError, match=message):
        predict_dist(model, X)


def test_values_that_a_transformer_refuses_are_outside_the_support() -> None:
    """Box-Cox raises for what is not positive; the other rows are what they are alone."""
    X, y = make_data(n_outputs=None)
    y = np.exp(0.1 * y / np.std(y))
    model = TransformedTargetRegressor(
        ToyBayesianRidge(), transformer=PowerTransformer("box-cox"), check_inverse=False
    ).fit(X, y)
    dist = predict_dist(model, X)
    points = y.copy()
    points[[0, 3, 4]] = [-1.0, 0.0, np.nan]
    inside = np.delete(np.arange(len(y)), [0, 3, 4])
    for found, desired, limit in (
        (dist.cdf(points), dist.cdf(y), 0.0),
        (dist.sf(points), dist.sf(y), 1.0),
        (dist.logpdf(points), dist.logpdf(y), -np.inf),
    ):
        np.testing.assert_array_equal(found[inside], desired[inside])
        np.testing.assert_array_equal(found[[0, 3, 4]], [limit, limit, np.nan])


@pytest.mark.parametrize(
    ("transformer", "ends"),
    [
        (PowerTransformer("box-cox"), (0.0, np.inf)),
        (PowerTransformer("box-cox", standardize=False), (0.0, np.inf)),
        (make_pipeline(PowerTransformer("box-cox"), StandardScaler()), (0.0, np.inf)),
        (PowerTransformer(), (-np.inf, np.inf)),
        (FunctionTransformer(np.log, np.exp), (0.0, np.inf)),
        (FunctionTransformer(np.sqrt, np.square), (0.0, np.inf)),
        (FunctionTransformer(np.arcsinh, np.sinh), (-np.inf, np.inf)),
        (FunctionTransformer(logit, expit), (0.0, 1.0)),
        (FunctionTransformer(lambda y: -1.0 / y, lambda z: -1.0 / z), (0.0, np.inf)),
    ],
)
@pytest.mark.parametrize("scale", [0.05, -0.05])  # powers of either sign
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_quantiles_of_zero_and_one_are_the_ends_of_the_support(
    transformer: Any, ends: tuple[float, float], scale: float, n_outputs: int | None
) -> None:
    X, y = make_data(n_outputs=n_outputs)
    y = 0.5 * np.exp(scale * y / np.std(y, axis=0))
    model = TransformedTargetRegressor(
        ToyBayesianRidge(inflation=0.1), transformer=transformer, check_inverse=False
    ).fit(X, y)
    dist = predict_dist(model, X)
    assert type(dist) is MonotoneTransformed
    for found, end in zip(dist.interval(1.0), ends, strict=True):
        np.testing.assert_array_equal(found, np.full(y.shape, end))
    np.testing.assert_allclose(dist.cdf(ends[0]), np.zeros(y.shape), atol=1e-19)
    np.testing.assert_allclose(dist.sf(ends[1]), np.zeros(y.shape), atol=1e-19)
    assert (np.diff(dist.ppf([0.0, 1e-300, 1e-30, 0.5, 1.0 - 1e-16, 1.0]), axis=-1) >= 0.0).all()


def test_non_affine_transformers_need_a_normal_mixture() -> None:
    class Lognormal(ToyBayesianRidge):
        def predict_dist(self, X: Any) -> Any:
            return MonotoneTransformed(super().predict_dist(X), np.exp, np.log)

        def predict(self, X: Any) -> Any:
            return self.predict_dist(X).mean()

    model = TransformedTargetRegressor(
        Lognormal(), func=np.log1p, inverse_func=np.expm1, check_inverse=False
    )
    with pytest.raises(TypeError, match="MonotoneTransformed"):
        predict_dist(model.fit(X, np.exp(0.1 * Y)), X)
    log = TransformedTargetRegressor(ToyBayesianRidge(), func=np.log, inverse_func=np.exp)
    members = CrossFittedRegressor(log, cv=2)
    model = TransformedTargetRegressor(members, transformer=MinMaxScaler((1, 2)))
    with pytest.raises(TypeError, match=r"MinMaxScaler .*MonotoneTransformed.* innermost"):
        predict_dist(model.fit(X, np.exp(0.1 * Y)), X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LinearRegression(), "LinearRegression offers no predictive distribution"),
        (make_pipeline(StandardScaler(), LinearRegression()), "LinearRegression offers"),
        (TransformedTargetRegressor(LinearRegression()), "LinearRegression offers"),
        (GridSearchCV(LinearRegression(), {"copy_X": [True]}, cv=2), "LinearRegression offers"),
        (VotingRegressor([("a", LinearRegression())]), "LinearRegression offers"),
        (make_pipeline(StandardScaler(), "passthrough"), "passthrough offers"),
    ],
)
def test_models_without_a_distribution_are_named(model: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        predict_dist(model.fit(X, Y), X)


def test_array_of_class_probabilities_is_no_distribution() -> None:
    model = LogisticRegression().fit(X, Y.mean() < Y)
    with pytest.raises(TypeError, match=r"LogisticRegression .* returns a ndarray"):
        predict_dist(model, X)


def test_unfitted_models_say_so() -> None:
    for model in (
        ToyBayesianRidge(),
        make_pipeline(ToyBayesianRidge()),
        TransformedTargetRegressor(ToyBayesianRidge()),
        GridSearchCV(ToyBayesianRidge(), {"alpha": [1.0]}),
        TunedThresholdClassifierCV(LogisticDistribution()),
    ):
        with pytest.raises(NotFittedError):
            predict_dist(model, X)
    search = GridSearchCV(ToyBayesianRidge(), {"alpha": [1.0]}, cv=2, refit=False).fit(X, Y)
    with pytest.raises(NotFittedError, match="refit=False"):
        predict_dist(search, X)


class LogisticDistribution(LogisticRegression):
    """Its probabilities, as a distribution."""

    def predict_dist(self, X: Any) -> Bernoulli:
        return Bernoulli.of_columns(self.predict_proba(X), self.classes_)


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_a_threshold_leaves_probabilities_as_they_are(in_pipeline: bool) -> None:
    y = np.where(np.median(Y) < Y, "yes", "no")
    inner = LogisticDistribution()
    member = make_pipeline(Centring(), inner) if in_pipeline else inner
    fitted = clone(member).fit(X, y)
    for model in (
        TunedThresholdClassifierCV(member, cv=2).fit(X, y),
        FixedThresholdClassifier(member, threshold=0.9, pos_label="yes").fit(X, y),
        FixedThresholdClassifier(FrozenEstimator(fitted)),
    ):
        np.testing.assert_allclose(predict_dist(model, X), fitted.predict_proba(X), rtol=1e-12)


def test_probing_a_transformer_is_silent() -> None:
    y = np.exp(0.1 * Y)
    model = TransformedTargetRegressor(
        ToyBayesianRidge(), transformer=PowerTransformer(), check_inverse=False
    ).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dist = predict_dist(model, X)
        inner = model.regressor_.predict_dist(X).ppf(0.3)
        expected = model.transformer_.inverse_transform(inner[:, None])[:, 0]
        np.testing.assert_allclose(dist.ppf(0.3), expected, rtol=1e-12)


class WithLatent(ToyBayesianRidge):
    """Its function is half as uncertain as its observations."""

    def predict_latent(self, X: Any) -> NormalMixture:
        dist = self.predict_dist(X)
        return NormalMixture.normal(dist.mean(), 0.5 * dist.std())


def test_distribution_of_the_function_takes_the_same_way() -> None:
    pipe = make_pipeline(Centring(), GridSearchCV(WithLatent(), {}, cv=2))
    scaled = TransformedTargetRegressor(pipe, transformer=StandardScaler()).fit(X, Y)
    dist = predict_dist(scaled, X)
    expected = NormalMixture.normal(dist.mean(), 0.5 * dist.std())
    assert_equal(predict_latent(scaled, X), expected)
    logarithmic = TransformedTargetRegressor(WithLatent(), func=np.log1p, inverse_func=np.expm1)
    logarithmic.fit(X, np.exp(Y / 10.0))
    levels = [0.1, 0.5, 0.9]
    np.testing.assert_allclose(
        predict_latent(logarithmic, X).ppf(levels),
        np.expm1(logarithmic.regressor_.predict_latent(X).ppf(levels)),
    )


def test_estimator_without_a_function_is_named() -> None:
    with pytest.raises(TypeError, match="ForeignRegressor offers no distribution of its function"):
        predict_latent(make_pipeline(Centring(), ForeignRegressor()).fit(X, Y), X)


def test_nested_steps_are_applied_from_the_outside_and_undone_from_the_inside() -> None:
    double = FunctionTransformer(lambda X: 2.0 * X)
    pipe = make_pipeline(Centring(), make_pipeline(double, ToyBayesianRidge()))
    shifted = TransformedTargetRegressor(pipe, func=np.log1p, inverse_func=np.expm1)
    scaled = TransformedTargetRegressor(shifted, transformer=MinMaxScaler()).fit(X, Y)
    inner = scaled.regressor_.regressor_[-1][-1].predict_dist(2.0 * (X - 1.0))
    expected = Y.min() + (Y.max() - Y.min()) * np.expm1(inner.median())
    np.testing.assert_allclose(predict_dist(scaled, X).median(), expected)
