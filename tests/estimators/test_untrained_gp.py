"""On several batches a GP is kept as it begins that training is not clearly ahead of."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solve

from skgp import DSPPRegressor, ExactGPRegressor, PPGPRRegressor
from skgp.core.training.history import History
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting import search, untrained_gp
from skgp.fitting.folds import FoldedRows
from skgp.fitting.setup import Setup
from skgp.fitting.untrained_gp import UntrainedGP
from skgp.recipes import sizes, stack
from skgp.scoring import nll

pytestmark = pytest.mark.usefixtures("short_start")

BOTH = [PPGPRRegressor, DSPPRegressor]
FEW = {"batch_size": 50, "max_iter": 2, "random_state": 0}


def _smooth(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 0] * X[:, 1] + noise * rng.standard_normal(n)
    return X, y


def _n_top(model) -> int:
    return model.model_.stack.top.Z.shape[-2]


@pytest.mark.usefixtures("full_start")
@pytest.mark.parametrize("make", BOTH)
def test_little_training_is_not_ahead(make) -> None:
    X, y = _smooth(160, 0.01)
    new = _smooth(300, 0.01, seed=1)
    model = make(**FEW).fit(X, y)
    assert _n_top(model) == len(X)  # held-out rows too
    assert model.n_iter_ == len(model.loss_curve_) == len(model.validation_scores_) == 1
    assert model.n_samples_seen_ == len(X)
    # Of flat functions nodes are the same; but there are draws of hyper-parameters.
    assert "n_components=16)" in repr(model.predict_dist(X))
    trained = make(**FEW, n_inducing=20).fit(X, y)
    assert nll(new[1], model.predict_dist(new[0])) < nll(new[1], trained.predict_dist(new[0])) - 1.0
    exact = ExactGPRegressor(random_state=0).fit(X, y)
    assert nll(new[1], model.predict_dist(new[0])) < nll(new[1], exact.predict_dist(new[0])) + 0.3


@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize("make", BOTH)
def test_it_predicts_as_a_gp_with_its_kernel_does(make) -> None:
    X, y = _smooth(120, 0.1)
    model = make(**FEW, normalize_X=False, normalize_y=False, jitter=1e-8).fit(X, y)
    module = model.model_
    top, new = module.stack.top, _smooth(7, 0.1, seed=1)[0]
    with torch.no_grad():

        def inputs(values: np.ndarray) -> torch.Tensor:
            """What the kernel of the top layer sees."""
            x = torch.from_numpy(values)
            if make is PPGPRRegressor:
                return x[None]
            below = module.stack.layers[0]
            h = below.moments(x[None], below.factors()).f_mean[0]
            return torch.cat([h, x], -1)[None]

        variance, mean = top.kernel.variance.item(), top.mean.item()
        known = inputs(X)
        K = variance * top.kernel.Kuf(known, known[0])[0].numpy()
        cross = variance * top.kernel.Kuf(known, inputs(new)[0])[0].numpy()
    noise = float(model.noise_variance_)
    weights = solve(K + noise * np.eye(len(X)), np.column_stack([y - mean, cross]))
    expected = mean + cross.T @ weights[:, 0]
    variances = variance + noise - (cross * weights[:, 1:]).sum(0)
    dist = model.predict_dist(new)
    assert_allclose(dist.mean(), expected, atol=1e-5)
    assert_allclose(dist.var(), variances, rtol=1e-4)


@pytest.mark.usefixtures("certain")
def test_of_many_rows_it_is_the_best_sparse_gp(monkeypatch) -> None:
    """Titsias (2009), Eqn 10, in the basis of u and not whitened."""
    monkeypatch.setattr(sizes, "MOST_UNTRAINED_INDUCING", 100)
    monkeypatch.setattr(sizes, "_MANY_UNTRAINED", 40)
    X, y = _smooth(120, 0.1)
    model = PPGPRRegressor(**FEW, normalize_X=False, normalize_y=False, jitter=1e-8).fit(X, y)
    top, new = model.model_.stack.top, _smooth(7, 0.1, seed=1)[0]
    with torch.no_grad():

        def covariances(values: np.ndarray) -> np.ndarray:
            return variance * top.kernel.Kuf(top.Z, torch.from_numpy(values))[0].numpy()

        variance, mean, Z = top.kernel.variance.item(), top.mean.item(), top.Z[0].numpy()
        Kuu, Kuf, Kus = covariances(Z), covariances(X), covariances(new)
    assert len(Z) == 40
    assert model.n_samples_seen_ == len(X)
    assert_array_equal(model.stacking_weights_, [0.0, 1.0])
    noise = float(model.noise_variance_)
    S = Kuu + Kuf @ Kuf.T / noise
    expected = mean + Kus.T @ solve(S, Kuf @ (y - mean)) / noise
    variances = variance + noise + (Kus * (solve(S, Kus) - solve(Kuu, Kus))).sum(0)
    dist = model.predict_dist(new)
    assert_allclose(dist.mean(), expected, atol=1e-4)
    assert_allclose(dist.var(), variances, rtol=1e-3)


@pytest.mark.parametrize("make", BOTH)
def test_what_is_clearly_ahead_is_kept_as_it_was_trained(make, monkeypatch) -> None:
    X, y = _smooth(160, 0.1)
    monkeypatch.setattr(untrained_gp, "share_of_first", lambda *given: 1.0)
    model = make(**FEW).fit(X, y)
    monkeypatch.setattr(sizes, "_MOST_UNTRAINED_ROWS", 159)
    alone = make(**FEW).fit(X, y)
    assert _n_top(model) < len(X)
    assert model.loss_curve_ == alone.loss_curve_
    assert_array_equal(model.predict(X), alone.predict(X))


@pytest.mark.slow
def test_held_out_rows_may_prefer_what_is_trained() -> None:
    """Noise that one row in two has, which a GP takes for the same everywhere."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 1))
    y = rng.standard_normal(600) * np.where(X[:, 0] > 0, 1.0, 0.01)
    model = PPGPRRegressor(batch_size=100, max_iter=60, n_inducing="auto", random_state=0)
    model.fit(X, y)
    assert _n_top(model) < len(X)
    assert model.n_iter_ > 1


@pytest.mark.parametrize(
    "params",
    [
        {"n_inducing": 20},
        {"early_stopping": False},
        {"early_stopping": True},
        {"initial_noise": 0.1},
        {"covariance": "delta"},
        {"covariance": "decoupled"},
    ],
)
def test_what_users_choose_stays(params, monkeypatch) -> None:
    monkeypatch.setattr(UntrainedGP, "__init__", None)
    model = PPGPRRegressor(**FEW, **params).fit(*_smooth(120, 0.01))
    assert model.n_iter_ == 2


def test_several_outputs_are_trained(monkeypatch) -> None:
    monkeypatch.setattr(UntrainedGP, "__init__", None)
    X, y = _smooth(120, 0.01)
    assert DSPPRegressor(**FEW).fit(X, np.column_stack([y, -y])).n_iter_ == 2


def test_many_rows_of_few_inputs_are_trained(monkeypatch) -> None:
    monkeypatch.setattr(UntrainedGP, "__init__", None)
    X, y = _smooth(55, 0.01)
    y = np.tile(y, 20) + 0.1 * np.random.default_rng(1).standard_normal(1100)
    assert PPGPRRegressor(**FEW).fit(np.tile(X, (20, 1)), y).n_iter_ == 2


def test_its_loss_is_that_of_all_rows_at_once(monkeypatch) -> None:
    X, y = _smooth(160, 0.1)
    at_once = PPGPRRegressor(**FEW).fit(X, y).loss_curve_
    assert len(at_once) == 1  # that of the GP, not of what has been trained
    monkeypatch.setattr(untrained_gp, "_CHUNK", 37)  # the last chunk has 12 rows
    assert_allclose(PPGPRRegressor(**FEW).fit(X, y).loss_curve_, at_once, rtol=1e-9)


@pytest.mark.usefixtures("full_start")
def test_given_held_out_rows_judge_and_are_not_trained_on() -> None:
    X, y = _smooth(160, 0.01)
    val = _smooth(40, 0.01, seed=1)
    model = DSPPRegressor(**FEW).fit(X, y, X_val=val[0], y_val=val[1])
    assert _n_top(model) == model.n_samples_seen_ == 160
    assert model.best_validation_score_ == pytest.approx(-nll(val[1], model.predict_dist(val[0])))


def test_training_ends_that_would_stay_behind(monkeypatch) -> None:
    seen: list[History] = []

    def noted(self: UntrainedGP, history: History, plan: object) -> bool:
        seen.append(history)
        return len(history.loss_curve) == 3

    monkeypatch.setattr(UntrainedGP, "is_beyond", noted)
    X, y = _smooth(160, 0.01)
    model = PPGPRRegressor(batch_size=50, max_iter=20, random_state=0).fit(X, y)
    assert len(seen) == 3
    assert _n_top(model) == len(X)


def test_an_interrupted_fit_is_what_it_was(monkeypatch) -> None:
    def interrupted(self: UntrainedGP, history: History, plan: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(UntrainedGP, "is_beyond", interrupted)
    with pytest.warns(UserWarning, match="interrupted after 1 of"):
        model = PPGPRRegressor(batch_size=50, max_iter=20, random_state=0).fit(*_smooth(160, 0.01))
    assert _n_top(model) == 144


def test_without_a_start_of_all_rows_the_trained_model_stays(monkeypatch) -> None:
    begin = FoldedRows.first_model

    def failing(folded: FoldedRows, recipe: object, table: object, rng: object) -> object:
        if table is folded.whole:
            raise NotPositiveDefiniteError("")
        return begin(folded, recipe, table, rng)

    monkeypatch.setattr(FoldedRows, "first_model", failing)
    model = PPGPRRegressor(**FEW).fit(*_smooth(160, 0.01))
    assert model.n_iter_ == 2


@pytest.mark.parametrize(("worse", "is_taken"), [(0.05, True), (0.15, False)])
def test_a_gp_of_all_rows_that_starts_clearly_worse_is_not_taken(
    monkeypatch, worse, is_taken
) -> None:
    """Held-out rows spoke for another kernel, which was found from other rows."""
    losses, loss = [], untrained_gp._loss

    def noted(*args: object) -> float:
        loss(*args)
        losses.append(-3.0 + worse * len(losses))  # of the scored model, and of the one of all rows
        return losses[-1]

    monkeypatch.setattr(untrained_gp, "_loss", noted)
    model = PPGPRRegressor(**FEW).fit(*_smooth(160, 0.01))
    assert len(losses) == 2
    assert (_n_top(model) == 160) == is_taken


def test_the_kernel_of_many_rows_is_found_from_few_and_then_from_more(monkeypatch) -> None:
    asked: list[int] = []
    weights_of: list[np.ndarray] = []
    subsample, start = Setup.subsample, stack.start_hyperparameters

    def noted(layer: object, x: torch.Tensor, y: object, weight: torch.Tensor, *args, **kwargs):
        weights_of.append(weight.numpy())
        return start(layer, x, y, weight, *args, **kwargs)

    monkeypatch.setattr(stack, "start_hyperparameters", noted)
    monkeypatch.setattr(stack, "MOST_FIXED_INDUCING", 100)
    monkeypatch.setattr(stack, "_FEWEST_ROWS", 50)
    monkeypatch.setattr(stack, "_FEW_ROWS", 60)
    monkeypatch.setattr(stack, "_MORE_ROWS", 90)
    monkeypatch.setattr(untrained_gp, "_CLEARLY", np.inf)
    monkeypatch.setattr(Setup, "subsample", lambda self, *n: asked.extend(n) or subsample(self, *n))
    X, y = _smooth(160, 0.01)
    weights = np.full(160, 3.0)
    model = PPGPRRegressor(**FEW).fit(X, y, sample_weight=weights)
    # Of the rows that are trained on, and of all: whether the function is rough, then the kernel.
    assert asked == [50, 60, 90] * 2
    few = [weight for weight in weights_of if len(weight) < 100]
    assert len(few) == 2
    for weight in few:  # each row for itself
        assert_allclose(weight, weights_of[0][0])
    assert _n_top(model) == 160


@pytest.mark.parametrize("make", BOTH)
def test_a_warm_start_begins_anew(make) -> None:
    X, y = _smooth(160, 0.01)
    more = _smooth(200, 0.01, seed=1)
    model = make(**FEW, warm_start=True).fit(X, y)
    model.fit(*more)
    assert_array_equal(model.predict(X), make(**FEW).fit(*more).predict(X))


@pytest.mark.usefixtures("full_start")
@pytest.mark.parametrize("make", BOTH)
def test_a_stream_goes_on_from_it(make) -> None:
    X, y = _smooth(300, 0.01, seed=5)
    model = make(**FEW).fit(*_smooth(160, 0.01))
    before = nll(y, model.predict_dist(X))
    for seed in range(2, 10):  # in single precision it would lose up to 0.8
        model.partial_fit(*_smooth(120, 0.01, seed=seed))
    assert nll(y, model.predict_dist(X)) < before + 0.05


def test_of_many_rows_density_alone_decides(monkeypatch) -> None:
    """Where predictions cannot be mixed, as those of outputs that share a function."""
    X, y = _smooth(160, 0.1)
    Y, params = np.column_stack([y, -y]), {**FEW, "n_latents": 1}
    # Ahead in log density and behind in CRPS.
    monkeypatch.setattr(search, "exceeds_its_error", lambda *args: True)
    assert _n_top(PPGPRRegressor(**params).fit(X, Y)) == 160
    monkeypatch.setattr(search, "_MANY_ROWS", 159)
    assert _n_top(PPGPRRegressor(**params).fit(X, Y)) < 160


@pytest.mark.usefixtures("full_start")
@pytest.mark.parametrize("make", BOTH)
def test_a_stream_goes_on_from_a_sparse_one(make, monkeypatch) -> None:
    monkeypatch.setattr(sizes, "MOST_UNTRAINED_INDUCING", 100)
    monkeypatch.setattr(sizes, "_MANY_UNTRAINED", 80)
    X, y = _smooth(300, 0.01, seed=5)
    model = make(**FEW).fit(*_smooth(160, 0.01))
    assert _n_top(model) == 80
    before = nll(y, model.predict_dist(X))
    for seed in range(2, 6):
        model.partial_fit(*_smooth(120, 0.01, seed=seed))
    assert nll(y, model.predict_dist(X)) < before + 0.1


def test_a_checkpoint_has_the_same_end(tmp_path) -> None:
    X, y = _smooth(160, 0.01)
    alone = DSPPRegressor(**FEW).fit(X, y)
    for _ in range(2):  # the second one finds it
        kept = DSPPRegressor(**FEW, checkpoint=tmp_path / "run.ckpt").fit(X, y)
        assert kept.n_iter_ == 1
        assert_array_equal(kept.predict(X), alone.predict(X))


def test_restarts_do_not_matter_to_it() -> None:
    X, y = _smooth(160, 0.01)
    one, two = (DSPPRegressor(**FEW, n_restarts=n).fit(X, y) for n in (1, 2))
    assert _n_top(two) == _n_top(one) == 160


def test_a_trained_model_is_scored_as_it_predicts(monkeypatch) -> None:
    """Without the draws of hyper-parameters that the untrained GP has, in double precision too."""
    X, y = _smooth(160, 0.1)
    seen = []

    def noted(trained, untrained, held_out, n_rows) -> bool:
        seen.append((trained.of_rows[0], held_out[0]))
        return True

    monkeypatch.setattr(untrained_gp, "is_ahead", noted)
    params = {**FEW, "max_iter": 20, "dtype": "float64", "likelihood": "student_t"}
    model = DSPPRegressor(**params, early_stopping="auto").fit(X, y)
    ((scores, held_out),) = seen
    assert_allclose(scores, model.model_.log_densities(held_out), rtol=1e-6)
