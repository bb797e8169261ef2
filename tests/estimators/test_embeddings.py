"""Embeddings: starts, missing entries, densities, reconstructions."""

import copy
import inspect
import pickle
from typing import Any

import gpytorch
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp import (
    GPRNEmbedding,
    MOGPEmbedding,
    NeuralMOGPEmbedding,
    NeuralSBGPRNEmbedding,
    SBGPRNEmbedding,
)
from skgp.core.stacks.mixing import GPMixing, NetworkMixing, NormalMixing
from skgp.core.stacks.units import IdentityUnits, NeuralUnits, NoisyUnits
from skgp.estimators._embedding import _find_nearest

EMBEDDINGS = (MOGPEmbedding, NeuralMOGPEmbedding, NeuralSBGPRNEmbedding)
SMALL: dict[str, Any] = {
    "n_inducing": 10,
    "max_iter": 15,
    "n_samples": 4,
    "n_prediction_samples": 8,
    "n_importance": 20,
    "random_state": 0,
}


ONE_NORMAL = {name: value for name, value in SMALL.items() if name != "n_prediction_samples"}
# All models: those of the fixture, and two that differ from them in their parts alone.
MODELS = [(cls, SMALL) for cls in (*EMBEDDINGS, GPRNEmbedding)] + [(SBGPRNEmbedding, ONE_NORMAL)]


def make_table(n: int = 60, seed: int = 0) -> Any:
    """A curve in four columns of different units, with a little noise."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-2.0, 2.0, n)
    curve = np.column_stack([np.sin(t), 10.0 + 5.0 * np.cos(t), 100.0 * t, t**2])
    return curve + rng.normal(size=(n, 4)) * [0.02, 0.1, 2.0, 0.05]


# The mixing by a network of two neural models is that of the second one.
@pytest.fixture(
    params=[*EMBEDDINGS[:2], pytest.param(EMBEDDINGS[2], marks=pytest.mark.slow)],
    ids=[cls.__name__ for cls in EMBEDDINGS],
)
def cls(request: pytest.FixtureRequest) -> type:
    return request.param


def test_rows_without_entries_start_at_zero(cls: Any) -> None:
    """They change nothing in where the others start."""
    X = make_table()
    small = SMALL | {"max_iter": 1, "learning_rate_init": 1e-12}
    alone = cls(**small).fit(X).embedding_
    beside = cls(**small).fit(np.vstack([X, np.full((200, 4), np.nan)])).embedding_
    np.testing.assert_allclose(beside[:60], alone, atol=1e-8)
    np.testing.assert_allclose(beside[60:], 0.0, atol=1e-8)


def test_parameters_have_constraints_and_defaults(cls: Any) -> None:
    parameters = inspect.signature(cls.__init__).parameters
    names = set(parameters) - {"self"}
    assert names == set(cls._parameter_constraints)
    assert all(parameters[name].default is not inspect.Parameter.empty for name in names)
    assert list(parameters)[1] == "n_components"


def test_models_are_what_their_names_say() -> None:
    X = make_table()
    parts = {c: c(**SMALL).fit(X).stack_.readout for c in EMBEDDINGS}
    assert isinstance(parts[MOGPEmbedding].units, IdentityUnits)
    assert isinstance(parts[MOGPEmbedding].mixing, NormalMixing)
    assert isinstance(parts[NeuralMOGPEmbedding].units, NeuralUnits)
    assert isinstance(parts[NeuralMOGPEmbedding].mixing, NormalMixing)
    assert isinstance(parts[NeuralSBGPRNEmbedding].units, NeuralUnits)
    assert isinstance(parts[NeuralSBGPRNEmbedding].mixing, NetworkMixing)
    networks, gps = SBGPRNEmbedding(**ONE_NORMAL).fit(X), GPRNEmbedding(**SMALL).fit(X)
    assert isinstance(networks.stack_.readout.units, IdentityUnits)
    assert isinstance(networks.stack_.readout.mixing, NetworkMixing)
    assert isinstance(gps.stack_.readout.units, NoisyUnits)
    assert isinstance(gps.stack_.readout.mixing, GPMixing)
    assert len(parts[NeuralMOGPEmbedding].units.weight) == 8
    assert len(parts[NeuralSBGPRNEmbedding].units.weight) == 4
    # Latent functions: twice the components, and no more than columns.
    for n_components, n_latents in ((1, 2), (2, 4), (3, 4)):
        model = MOGPEmbedding(n_components, **{**SMALL, "max_iter": 1}).fit(X)
        assert model.stack_.readout.n_latents == n_latents


# ------------------------------------------------------------------- start


@pytest.mark.usefixtures("no_steps")
def test_means_start_at_whitened_principal_components(cls: Any) -> None:
    X = make_table()
    X[3, 1] = np.nan
    model = cls(2, **{**SMALL, "max_iter": 1}).fit(X)
    scaled = np.nan_to_num(StandardScaler().fit_transform(X))
    pca = PCA(2, whiten=True).fit(scaled)
    expected = pca.transform(scaled) * np.sqrt(len(X) / (len(X) - 1))
    np.testing.assert_allclose(np.abs(model.embedding_), np.abs(expected), atol=1e-6)
    assert (model.embedding_std_ < 0.2).all()


@pytest.mark.usefixtures("no_steps")
def test_components_beyond_the_directions_of_the_table_start_at_zero() -> None:
    X = make_table()[:, :2] @ [[1.0, 1.0, 2.0], [0.0, 0.0, 0.0]]  # of rank one
    embedding = MOGPEmbedding(4, **{**SMALL, "max_iter": 1}).fit(X).embedding_
    assert (embedding[:, 1:] == 0.0).all()
    assert embedding[:, 0].std() == pytest.approx(1.0)


def test_name_of_a_kernel_means_one_lengthscale_for_all_inputs(cls: Any) -> None:
    model = cls(3, **SMALL).fit(make_table())
    assert model.lengthscales_.shape == (4, 3)
    assert (model.lengthscales_ == model.lengthscales_[:, :1]).all()
    assert len(np.unique(model.lengthscales_)) == 4
    assert model.inducing_points_.shape == (4, 10, 3)
    kernel = gpytorch.kernels.RBFKernel(ard_num_dims=3)
    ard = cls(3, kernel=kernel, **SMALL).fit(make_table())
    assert len(np.unique(ard.lengthscales_)) == 12


# --------------------------------------------------------------- transform


def test_training_rows_have_the_posterior_of_the_fit(cls: Any) -> None:
    X = make_table()
    X[5, 2] = X[6] = np.nan
    model = cls(**SMALL)
    embedding = model.fit_transform(X)
    np.testing.assert_array_equal(embedding, model.embedding_)
    np.testing.assert_array_equal(model.transform(X[::-1]), embedding[::-1])
    np.testing.assert_array_equal(model.transform_dist(X).std(), model.embedding_std_)


def test_rows_beside_training_rows_stay_where_these_are(cls: Any) -> None:
    """They start there, and a converged fit has left them nothing to gain."""
    X = make_table()
    model = cls(1, **{**SMALL, "max_iter": 600, "learning_rate_init": 0.05}).fit(X)
    moved = np.abs(model.transform(X * (1.0 + 1e-9)) - model.embedding_)
    assert (moved != 0.0).any()
    assert np.median(moved / model.embedding_std_) < 0.3
    assert np.quantile(moved, 0.9) < 0.1  # single rows have two places


def test_new_rows_do_not_depend_on_those_beside_them(cls: Any) -> None:
    model = cls(**SMALL).fit(make_table())
    new = make_table(seed=1)[:6]
    new[2, 1] = np.nan
    Z = model.transform(new)
    np.testing.assert_array_equal(Z, model.transform(new))
    np.testing.assert_allclose(model.transform(new[[2]]), Z[[2]], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.transform(new[::-1]), Z[::-1], rtol=1e-6, atol=1e-8)


def test_posteriors_do_not_depend_on_the_nodes_of_predictions(cls: Any) -> None:
    """They are found by the draws of training, or in closed form."""
    X, new = make_table(), make_table(n=4, seed=1)
    few, many = (cls(**{**SMALL, "n_prediction_samples": n}).fit(X) for n in (2, 64))
    np.testing.assert_array_equal(few.transform(new), many.transform(new))
    assert not np.array_equal(few.score_samples(new), many.score_samples(new))


def test_nearest_row_over_common_entries(rng: np.random.Generator) -> None:
    X, among = rng.normal(size=(7, 4)), rng.normal(size=(9, 4))
    for missing in (False, True):
        if missing:
            X[rng.random(X.shape) < 0.3] = np.nan
            among[rng.random(among.shape) < 0.3] = np.nan
            among[0] = np.nan
        found = _find_nearest(X, among)
        for x, number in zip(X, found, strict=True):
            distances = []
            for row in among:
                common = ~np.isnan(x) & ~np.isnan(row)
                mean = np.mean((x - row)[common] ** 2) if common.any() else np.inf
                distances.append(mean)
            assert number == int(np.argmin(distances))


def test_row_without_entries_has_the_prior(cls: Any) -> None:
    model = cls(**SMALL).fit(make_table())
    dist = model.transform_dist(np.full((1, 4), np.nan))
    np.testing.assert_allclose(dist.mean(), 0.0, atol=0.05)
    np.testing.assert_allclose(dist.std(), 1.0, atol=0.1)


def test_missing_entry_hardly_moves_a_row_that_the_others_determine() -> None:
    X = make_table()
    model = MOGPEmbedding(1, **{**SMALL, "max_iter": 300}).fit(X)
    new = make_table(n=20, seed=1)
    masked = new.copy()
    masked[:, 3] = np.nan
    Z = model.transform(masked)
    assert np.abs(Z - model.transform(new)).mean() < 0.1
    assert np.corrcoef(model.inverse_transform(Z)[:, 3], new[:, 3])[0, 1] > 0.9


# --------------------------------------------------------------- densities


@pytest.mark.parametrize(("cls", "small"), MODELS, ids=[cls.__name__ for cls, _ in MODELS])
def test_density_of_rows_by_quadrature_over_the_latent_input(cls: Any, small: Any) -> None:
    """Of all columns or some, in the units of the table."""
    X = make_table()
    model = cls(1, **{**small, "max_iter": 200, "n_importance": 30_000}).fit(X)
    new = make_table(n=4, seed=1)
    new[1, 2] = np.nan
    z = np.linspace(-5.0, 5.0, 4001)
    log_prior = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi)
    components = model.predict_dist(z[:, None]).components()
    log_weights = np.log(components.weights)
    ours = model.score_samples(new)
    for row, value in zip(new, ours, strict=True):
        seen = ~np.isnan(row)
        residual = row[seen] - components.mean[..., seen]
        if components.scale_tril is None:
            cov = components.std[..., seen, None] ** 2 * np.eye(seen.sum())
        else:
            factor = components.scale_tril[..., seen, :]
            cov = factor @ factor.swapaxes(-1, -2)
        squares = residual * np.linalg.solve(cov, residual[..., None])[..., 0]
        log_det = np.linalg.slogdet(2.0 * np.pi * cov)[1]
        terms = -0.5 * (squares.sum(-1) + log_det)
        at_z = np.logaddexp.reduce(log_weights + terms, axis=1)
        expected = np.logaddexp.reduce(at_z + log_prior) + np.log(z[1] - z[0])
        assert value == pytest.approx(expected, abs=0.05)
    assert model.score(new) == pytest.approx(ours.mean())


def test_density_has_the_units_of_the_table() -> None:
    X = make_table()
    new = make_table(n=5, seed=1)
    new[0, 0] = np.nan
    unit = np.array([10.0, 0.5, 2.0, 1.0])
    scores = MOGPEmbedding(**SMALL).fit(X).score_samples(new)
    scaled = MOGPEmbedding(**SMALL).fit(X * unit).score_samples(new * unit)
    lost = (~np.isnan(new)) @ np.log(unit)
    np.testing.assert_allclose(scaled, scores - lost, rtol=1e-4, atol=1e-4)


def test_reconstruction_is_the_mean_of_the_joint_distribution(cls: Any) -> None:
    model = cls(**SMALL).fit(make_table())
    Z = np.random.default_rng(0).normal(size=(5, 2))
    dist = model.predict_dist(Z)
    assert dist.mean().shape == (5, 4)
    np.testing.assert_array_equal(model.inverse_transform(Z), dist.mean())
    assert (dist.std() ** 2 > model.noise_variance_ * (1.0 - 1e-9)).all()


# ---------------------------------------------------------- scikit-learn


def test_same_seed_same_embedding_and_copies_agree(cls: Any) -> None:
    X, new = make_table(), make_table(n=3, seed=1)
    model = cls(**SMALL).fit(X)
    expected = model.transform(new)
    for other in (
        clone(model).fit(X),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
    ):
        np.testing.assert_array_equal(other.transform(new), expected)
        np.testing.assert_array_equal(other.embedding_, model.embedding_)
    different = clone(model).set_params(random_state=1).fit(X)
    assert not np.array_equal(different.embedding_, model.embedding_)


def test_fit_keeps_no_reference_to_the_table(cls: Any) -> None:
    X = make_table()
    model = cls(**SMALL).fit(X)
    before, rows = model.transform(X), X.copy()
    X += 1.0
    np.testing.assert_array_equal(model.transform(rows), before)


def test_names_of_columns(cls: Any) -> None:
    table = pd.DataFrame(make_table(), columns=list("abcd"))
    model = cls(**SMALL).set_output(transform="pandas")
    out = model.fit_transform(table)
    prefix = cls.__name__.lower()
    assert list(out.columns) == [f"{prefix}0", f"{prefix}1"]
    assert list(model.get_feature_names_out()) == list(out.columns)
    assert list(model.feature_names_in_) == list("abcd")
    pd.testing.assert_frame_equal(model.transform(table), out)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(table[list("dcba")])


def test_inside_a_pipeline() -> None:
    X = make_table()
    pipeline = make_pipeline(StandardScaler(), MOGPEmbedding(**SMALL)).fit(X)
    Z = pipeline.transform(X)
    assert pipeline.inverse_transform(Z).shape == X.shape
    assert np.isfinite(pipeline.score(X))


def test_tags_allow_missing_entries(cls: Any) -> None:
    tags = cls().__sklearn_tags__()
    assert tags.input_tags.allow_nan
    assert not tags.target_tags.required
    assert tags.transformer_tags is not None


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 1.5}, "n_components"),
        ({"n_importance": 0}, "n_importance"),
        ({"kernel": "linear"}, "kernel"),
        ({"n_latents": 5}, "n_latents=5 exceeds the number of outputs, 4"),
        ({"beta_reg": -1.0}, "beta_reg"),
        ({"device": "nowhere"}, "device='nowhere'"),
        ({"noise_floor": 0.0}, "noise_floor"),
    ],
)
def test_wrong_parameters_are_named(cls: Any, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**{**SMALL, **params}).fit(make_table())


def test_wrong_tables_are_named(cls: Any) -> None:
    X = make_table()
    empty = X.copy()
    empty[:, 2] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN in every row of column\(s\) \[2\]"):
        cls(**SMALL).fit(empty)
    infinite = X.copy()
    infinite[1, 1] = np.inf
    with pytest.raises(ValueError, match="X contains infinity"):
        cls(**SMALL).fit(infinite)
    with pytest.raises(NotFittedError):
        cls(**SMALL).transform(X)
    with pytest.raises(NotFittedError):
        cls(**SMALL).inverse_transform(X[:, :2])
    model = cls(**SMALL).fit(X)
    with pytest.raises(ValueError, match=r"Z has 4 columns.*n_components=2.*transform"):
        model.inverse_transform(X)
    with pytest.raises(ValueError, match="Z contains NaN"):
        model.predict_dist([[np.nan, 0.0]])


def test_equal_rows_have_equal_latent_inputs(cls: Any) -> None:
    X = np.repeat(make_table(n=20), 3, axis=0)[np.random.default_rng(0).permutation(60)]
    model = cls(2, **{**SMALL, "max_iter": 5})
    embedded = model.fit_transform(X)
    np.testing.assert_array_equal(embedded, model.transform(X))
    np.testing.assert_array_equal(model.transform_dist(X).std(), model.embedding_std_)
    assert len(np.unique(embedded, axis=0)) == 20


# --------------------------------------------------------------- accuracy


def test_curve_is_found_in_one_dimension(cls: Any) -> None:
    """A straight line leaves a third of the variance; the noise is a hundredth."""
    X, new = make_table(n=120), make_table(n=40, seed=1)
    params = {**SMALL, "max_iter": 600, "learning_rate_init": 0.05, "n_latents": 4}
    model = cls(1, **params).fit(X)
    pca = PCA(1).fit(X / X.std(0))

    def error(reconstructed: Any) -> float:
        return float(np.sqrt(np.mean(((reconstructed - new) / X.std(0)) ** 2)))

    linear = error(pca.inverse_transform(pca.transform(new / X.std(0))) * X.std(0))
    assert error(model.inverse_transform(model.transform(new))) < 0.35 * linear
    assert (model.noise_variance_ / X.var(0) < 0.1).all()
    assert (model.embedding_std_ < 0.5).all()


@pytest.mark.slow
def test_held_out_digits_are_nearer_than_by_principal_components() -> None:
    images = load_digits().data / 5.0
    rows = np.random.default_rng(0).permutation(len(images))
    X, new = images[rows[:400]], images[rows[400:500]]
    params = {"max_iter": 300, "n_inducing": 50, "normalize_X": False, "noise_floor": 1e-3}
    model = MOGPEmbedding(5, **params, random_state=0).fit(X)
    pca = PCA(5).fit(X)
    ours = model.inverse_transform(model.transform(new)) - new
    linear = pca.inverse_transform(pca.transform(new)) - new
    assert np.mean(ours**2) < 0.95 * np.mean(linear**2)
