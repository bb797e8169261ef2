"""Streams of chunks: outliers, and first chunks that say little of what is to come."""

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_cases import (
    MINIBATCH_REGRESSORS,
    ONE_PER_CLASS,
    REPRESENTATIVES,
    Case,
    Data,
)
from sklearn.base import clone

from skgp import DSPPRegressor, PPGPRRegressor, SVGPClassifier, SVGPRegressor, load, save
from skgp.core.training.optimizers import Clipped
from skgp.estimators.baselines import MCDropoutRegressor
from skgp.exceptions import FitQualityWarning, OutlierWarning
from skgp.scoring import nll

pytestmark = pytest.mark.usefixtures("short_start")

CASES = tuple(case for case in MINIBATCH_REGRESSORS if case in ONE_PER_CLASS)
QUICK = REPRESENTATIVES
MODELS = {
    "svgp": SVGPRegressor(n_inducing=20, random_state=0),
    "svgp-natgrad": SVGPRegressor(n_inducing=20, optimizer="natgrad", random_state=0),
    "ppgpr": PPGPRRegressor(n_inducing=20, n_inducing_mean=20, random_state=0),
    "dspp": DSPPRegressor(n_inducing=20, n_sites=2, width=2, beta_reg=1.0, random_state=0),
    "mcdropout": MCDropoutRegressor(hidden_layer_sizes=(20,), random_state=0),
}


def sine(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


def streamed(name: str, wrong: float | None, at: int, n_chunks: int) -> float:
    """Test score after a stream of chunks of which one has a wrong target."""
    model = MODELS[name].__sklearn_clone__()
    for i in range(n_chunks):
        X, y = sine(100, i)
        if i != at or wrong is None:
            model.partial_fit(X, y)
            continue
        y[3] = wrong
        with pytest.warns(OutlierWarning, match=r"y in row\(s\) 3 is .* leaves them out"):
            model.partial_fit(X, y)
    X, y = sine(1000, 999)
    return nll(y, model.predict_dist(X))


# The masks of dropout are drawn for other rows after the chunk with the outlier, so that the two
# streams differ by chance too.
TOLERANCE = {"mcdropout": 0.25}
# Two layers of a DSPP forget one step at full length slowly: of three seeds 0.07 to 0.08 are left
# after 100 clean chunks, 0.03 to 0.05 after 220.
TOLERANCE_OF_STEPS = {**TOLERANCE, "dspp": 0.1}
QUICKLY = [
    name if name in ("svgp", "dspp") else pytest.param(name, marks=pytest.mark.slow)
    for name in MODELS
]


@pytest.mark.parametrize("name", QUICKLY)
def test_an_outlier_is_named_and_leaves_no_mark(name: str) -> None:
    clean = streamed(name, None, 20, 60)
    for wrong in (100.0, -1e12):
        assert abs(streamed(name, wrong, 20, 60) - clean) < TOLERANCE.get(name, 0.02)


@pytest.mark.usefixtures("full_start")
@pytest.mark.parametrize("name", QUICKLY)
def test_an_outlier_that_is_not_recognised_is_bounded(name: str, monkeypatch: Any) -> None:
    """Without the check of rows the clipped gradients alone keep the stream."""
    monkeypatch.setattr("skgp.fitting.outliers._FAR_TARGET", 1e300)
    clean = streamed(name, None, 20, 120)
    model = MODELS[name].__sklearn_clone__()
    for i in range(120):
        X, y = sine(100, i)
        if i == 20:
            y[3] = 1e6
        model.partial_fit(X, y)
    X, y = sine(1000, 999)
    assert nll(y, model.predict_dist(X)) < clean + TOLERANCE_OF_STEPS.get(name, 0.05)


def test_most_rows_of_other_units_are_no_outliers(case: Case, data: Data) -> None:
    """They are trained on, and a warning says that the scales are those of the first rows."""
    model = case.make().partial_fit(data.X, data.y)
    seen = model.n_samples_seen_
    with pytest.warns(OutlierWarning, match="fit a new one if these are others"):
        model.partial_fit(data.X_new, data.y_new + 1000.0)
    assert model.n_samples_seen_ == seen + 25
    assert np.isfinite(model.predict(data.X_new)).all()


def end_of_stream(case: Case, first: tuple[Any, Any], data: Data, unit: float = 1.0) -> Any:
    """After a first chunk of some kind and chunks that hold the rows six times."""
    model = case.make(learning_rate_init=0.05).partial_fit(*first)
    for _ in range(6):
        for rows in np.split(np.arange(60), 3):
            model.partial_fit(data.X[rows], unit * data.y[rows])
    return model


def test_a_first_chunk_of_one_row(case: Case, data: Data) -> None:
    alike = end_of_stream(case, (data.X[:1], data.y[:1]), data)
    usual = end_of_stream(case, (data.X, data.y), data)
    if hasattr(alike, "inducing_points_"):
        assert alike.inducing_points_.shape == usual.inducing_points_.shape
    assert_close_in_quality(alike, usual, data)


def test_a_first_chunk_with_a_constant_target(case: Case, data: Data) -> None:
    """Its value is no scale."""
    late = end_of_stream(case, (data.X[:10], np.full(10, 2e7)), data, unit=1e6)
    usual = end_of_stream(case, (data.X, 1e6 * data.y), data, unit=1e6)
    scaled = Data(data.X, 1e6 * data.y, data.X_new, 1e6 * data.y_new)
    assert_close_in_quality(late, usual, scaled)


def test_a_first_chunk_from_a_corner_of_the_inputs(case: Case, data: Data) -> None:
    tiny = data.X[:10] + 1e-6 * (data.X[:10] - data.X[:1])
    late = end_of_stream(case, (tiny, data.y[:10]), data)
    usual = end_of_stream(case, (data.X, data.y), data)
    assert_close_in_quality(late, usual, data)


def assert_close_in_quality(late: Any, usual: Any, data: Data) -> None:
    scores = [nll(data.y_new, model.predict_dist(data.X_new)) for model in (late, usual)]
    to_learn = 0.5 * np.log(2 * np.pi * data.y.var()) + 0.5 - scores[1]
    # A GP starts near the optimum of the rows so far; a network begins from random weights again.
    behind = 0.5 if hasattr(late, "kernel") else 0.8
    assert scores[0] < scores[1] + max(0.3, behind * to_learn)


def test_outputs_that_come_and_go(case: Case, data: Data) -> None:
    """An output that no row of a chunk has observed, in the first chunk and in a later one."""
    first, second = data.Y.copy(), data.Y.copy()
    first[:, 1], second[:, 0] = np.nan, np.nan
    model = case.make(learning_rate_init=0.05)
    for Y in (first, second, data.Y, first, second, data.Y, data.Y):
        model.partial_fit(data.X, Y)
    mean, std = model.predict(data.X_new, return_std=True)
    assert np.isfinite(mean).all()
    scale = data.Y.std(axis=0)
    offset = np.abs(mean.mean(axis=0) - data.Y.mean(axis=0))
    assert (offset < 0.5 * scale).all()
    assert (std < 3.0 * scale).all()
    with pytest.raises(ValueError, match="NaN in every entry"):
        model.partial_fit(data.X, np.full((60, 2), np.nan))


def test_validation_rows_that_miss_an_output(case: Case, data: Data) -> None:
    Y_val = data.Y[:25].copy()
    Y_val[:, 1] = np.nan
    model = case.make(max_iter=20).fit(data.X, data.Y, X_val=data.X[:25], y_val=Y_val)
    dist = model.predict_dist(data.X[:25])
    expected = dist.joint_logpdf(Y_val).mean()
    assert model.validation_scores_[-1] == pytest.approx(expected, abs=1e-3)


def test_a_stream_of_single_rows_becomes_a_model() -> None:
    """The model starts anew at 1, 2, 4, 8, ... rows, so that nothing is left of the first."""
    X, y = sine(300, 0)
    model = SVGPRegressor(n_inducing=30, random_state=0)
    sizes = []
    for i in range(300):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        sizes.append(len(model.inducing_points_))
    assert sizes[0] == 1
    assert sizes[31:] == [30] * 269
    X_new, y_new = sine(500, 1)
    assert nll(y_new, model.predict_dist(X_new)) < 0.0  # 1.1 for a constant mean


def test_a_settled_stream_keeps_no_rows() -> None:
    X, y = sine(1200, 0)
    model = SVGPRegressor(n_inducing=20, random_state=0).partial_fit(X[:400], y[:400])
    assert len(model._opening.rows.X) == 400
    model.partial_fit(X[400:], y[400:])
    assert model._opening is None
    assert SVGPRegressor(n_inducing=20, max_iter=1).fit(X[:50], y[:50])._opening is None


def test_classes_that_the_first_chunk_lacks() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.digitize(X[:, 0], [-0.7, 0.7])
    model = SVGPClassifier(n_inducing=30, random_state=0)
    first = np.flatnonzero(y == 1)[:40]
    model.partial_fit(X[first], y[first], classes=[0, 1, 2])
    for rows in np.split(np.arange(400), 8):
        model.partial_fit(X[rows], y[rows])
    assert model.score(X, y) > 0.9


def test_wrong_rows_that_set_the_scales_are_named() -> None:
    """While the scales are those of the rows that hold them, and no longer."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=600)
    y[3] = 1e6
    model = SVGPRegressor(n_inducing=5, random_state=0)
    with pytest.warns(FitQualityWarning, match=r"^half of y .* such as 1e\+06, raise"):
        model.partial_fit(X[:100], y[:100])
    with pytest.warns(FitQualityWarning, match=r"^half of y .* such as 1e\+06, raise"):
        model.partial_fit(X[100:300], y[100:300])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(model).partial_fit(X[100:300], y[100:300])


def test_the_numbers_of_outliers_are_those_of_the_rows_passed() -> None:
    """Rows of weight zero count, and a classifier, which merges equal rows, keeps the numbers."""
    X, y = sine(100, 0)
    far, weight = X.copy(), np.ones(100)
    far[40, 0], weight[:10] = 1e6, 0.0
    for model, target in ((MODELS["svgp"].__sklearn_clone__(), y), (SVGPClassifier(), y > 0.0)):
        model.set_params(n_inducing=10, random_state=0).partial_fit(X, target)
        with pytest.warns(OutlierWarning, match=r"X in row\(s\) 40 is"):
            model.partial_fit(far, target, sample_weight=weight)
        assert model.n_samples_seen_ == 100 + 89


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_without_targets_count_in_the_numbers_of_outliers(weighted: bool) -> None:
    X, y = sine(100, 0)
    far, Y, weight = X.copy(), np.column_stack([y, -y]), np.ones(100)
    model = SVGPRegressor(n_inducing=10, random_state=0).partial_fit(X, Y)
    Y[:7], weight[7:10], far[40, 0] = np.nan, 0.0, 1e6
    with pytest.warns(OutlierWarning, match=r"X in row\(s\) 40 is"):
        model.partial_fit(far, Y, sample_weight=weight if weighted else None)
    assert model.n_samples_seen_ == 100 + (89 if weighted else 92)


def test_targets_of_classifiers_are_no_outliers() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = SVGPClassifier(n_inducing=5, share_kernel=True, random_state=0)
    for _ in range(3):
        model.partial_fit(X, np.arange(200) % 40)
    assert model.n_samples_seen_ == 600


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("svgp", {}),
        ("svgp-natgrad", {"max_iter": 100}),
        ("ppgpr", {"max_iter": 100, "early_stopping": False}),
    ],
)
def test_chunks_of_the_same_law_leave_a_fit_where_it_is(name: str, params: dict[str, Any]) -> None:
    """The first steps of Adam follow signs alone: at the full rate SVGP loses half a nat."""
    X, y = sine(200, 0)
    X_new, y_new = sine(500, 999)
    fitted = MODELS[name].__sklearn_clone__().set_params(**params).fit(X, y)
    before = nll(y_new, fitted.predict_dist(X_new))
    for size in (20, 200):
        model = copy.deepcopy(fitted)
        for i in range(3):
            model.partial_fit(*sine(size, 1 + i))
            assert nll(y_new, model.predict_dist(X_new)) < before + 0.05


@pytest.mark.parametrize(("n_rows", "max_iter"), [(200, 30), (20_000, 2)])
def test_a_stream_of_another_law_leaves_the_fit(n_rows: int, max_iter: int) -> None:
    """However many rows the fit had, a thousand others regain the full rate."""
    model = SVGPRegressor(n_inducing=20, max_iter=max_iter, batch_size=500, random_state=0)
    model.fit(*sine(n_rows, 0))
    X_new, y_new = sine(500, 999)
    assert nll(y_new + 0.7, model.predict_dist(X_new)) > 2.0
    for i in range(20):
        X, y = sine(100, 1 + i)
        model.partial_fit(X, y + 0.7)
    assert nll(y_new + 0.7, model.predict_dist(X_new)) < 0.5


def test_the_rate_after_a_fit_rises_with_rows_and_steps(monkeypatch: Any) -> None:
    """Until both are those of a stream that has begun by itself."""
    rates: list[float] = []
    original = Clipped.step

    def recorded(self: Clipped, closure: Any, rate: float) -> float:
        rates.append(rate)
        return original(self, closure, rate)

    monkeypatch.setattr(Clipped, "step", recorded)
    X, y = sine(100, 0)
    model = SVGPRegressor(n_inducing=5, max_iter=1, batch_size=25, random_state=0).fit(X, y)
    for _ in range(2):
        model.partial_fit(X[:50], y[:50])  # two steps
    for _ in range(4):
        model.partial_fit(X, y)  # four
    assert rates[:4] == pytest.approx([k / 4.0 * k / 20.0 for k in range(1, 5)])
    assert rates[4:] == pytest.approx([k / 20.0 for k in range(5, 20)] + [1.0])
    model.partial_fit(X, y)
    own = SVGPRegressor(n_inducing=5, batch_size=25, random_state=0)
    own.partial_fit(X, y).partial_fit(X, y)
    assert rates[20:] == 12 * [1.0]


def shifted(model: Any, weight: float, n_chunks: int = 10) -> Any:
    """A settled stream after chunks of targets three units above those before."""
    X, y = sine(1000, 0)
    for _ in range(2):
        model.partial_fit(X, y, n_total=1000)
    for i in range(n_chunks):
        X, y = sine(200, 1 + i)
        model.partial_fit(X, y + 3.0, np.full(200, weight), n_total=1000)
    return model


@pytest.mark.parametrize("name", ["svgp", "svgp-natgrad", "ppgpr"])
def test_chunks_of_light_rows_move_a_settled_stream_less(name: str) -> None:
    X, _ = sine(500, 999)
    clone = MODELS[name].__sklearn_clone__
    before, light, usual = (
        shifted(clone(), weight, n_chunks).predict(X).mean()
        for weight, n_chunks in ((1.0, 0), (1e-6, 10), (1.0, 10))
    )
    # Adam goes on for some steps in the direction of the chunks before.
    assert abs(light - before) < 0.4 * abs(usual - before)


@pytest.fixture
def shares(monkeypatch: Any) -> list[float]:
    """By which the gradients of each chunk are multiplied."""
    seen: list[float] = []

    def recorded(parameters: Any, optimizer: Any, share: float) -> Clipped:
        seen.append(share)
        return Clipped(parameters, optimizer, share)

    monkeypatch.setattr("skgp.fitting.chunk.Clipped", recorded)
    return seen


def test_rows_of_equal_weights_count_the_same(shares: list[float]) -> None:
    """Sums of them are rounded, and a classifier merges equal rows."""
    X, y = sine(100, 0)
    model = SVGPRegressor(n_inducing=5, random_state=0)
    classifier = SVGPClassifier(n_inducing=5, random_state=0)
    for n in (100, 33, 7):
        model.partial_fit(X[:n], y[:n], np.full(n, 0.1))
        classifier.partial_fit(np.round(X[:n]), y[:n] > 0.0, [False, True])
    assert shares == 6 * [1.0]


def test_a_stream_knows_its_mean_weight_after_it_was_saved(
    shares: list[float], tmp_path: Path
) -> None:
    X, y = sine(60, 0)
    model = SVGPRegressor(n_inducing=5, max_iter=1, random_state=0).fit(X, y, np.full(60, 0.5))
    model.partial_fit(X, y, np.full(60, 2.0))
    save(model, tmp_path / "stream.skgp")
    for again in (model, pickle.loads(pickle.dumps(model)), load(tmp_path / "stream.skgp")):
        again.partial_fit(X[:30], y[:30])
    # Mean weights of 0.5 and 2 for 60 rows each, then of 1 for 30.
    assert shares == pytest.approx([2.0 / 1.25, *3 * [1.0 / 1.2]], rel=1e-12)


def test_a_stream_of_an_earlier_version_goes_on() -> None:
    X, y = sine(60, 0)
    model, old = (MODELS["svgp"].__sklearn_clone__().partial_fit(X, y) for _ in range(2))
    del old._n_rows_seen
    assert model.partial_fit(X, y).loss_curve_ == old.partial_fit(X, y).loss_curve_


def test_heavy_chunks_take_steps_of_at_most_twice_the_length(shares: list[float]) -> None:
    """A longer natural step could leave q(u) without a covariance."""
    X, y = sine(60, 0)
    model = MODELS["svgp-natgrad"].__sklearn_clone__()
    for i in range(4):
        model.partial_fit(X, y, np.full(60, 100.0**i))
    assert shares[0] == 1.0
    assert 1.9 < shares[1] <= max(shares) == 2.0


def test_a_stream_keeps_no_array_of_the_user() -> None:
    """A buffer that is filled anew, while an output does not vary yet."""

    def chunk(seed: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = sine(1000, seed)
        return X, np.column_stack([y, np.full(1000, 3.0) if seed == 0 else X[:, 1]])

    model = SVGPRegressor(n_inducing=20, random_state=0)
    expected = model.partial_fit(*chunk(0)).partial_fit(*chunk(1)).predict(chunk(2)[0])
    X, Y = chunk(0)
    reused = model.__sklearn_clone__().partial_fit(X, Y)
    X[:], Y[:] = chunk(1)
    np.testing.assert_array_equal(reused.partial_fit(X, Y).predict(chunk(2)[0]), expected)


def test_an_output_that_never_varies_does_not_keep_a_stream_from_settling() -> None:
    """Each chunk of a thousand rows started the model anew, and outliers were rows as any."""
    model = SVGPRegressor(n_inducing=10, batch_size=500, random_state=0)
    for number in range(4):
        X, y = sine(1000, number)
        Y = np.column_stack([y, np.full(1000, 7.0)])
        if number == 3:
            Y[5, 0] = 1e7
            with pytest.warns(OutlierWarning, match=r"y in row\(s\) 5 is"):
                model.partial_fit(X, Y)
        else:
            model.partial_fit(X, Y)
    assert model.model_.n_steps == 8
    X, y = sine(1000, 9)
    assert np.abs(model.predict(X)[:, 0]).max() < 3.0
    Y = np.column_stack([y, np.where(np.arange(1000) < 500, 7.0, 900.0)])
    model.partial_fit(X, Y)  # now it varies, by more than its unit: no outliers, a new start
    assert model.model_.n_steps == 2
    assert model.predict(X)[:, 1].mean() > 150.0
