"""`n_orthogonal`: the further basis of SVGP's mean as an estimator offers it."""

import numpy as np
from contract_cases import Data
from sklearn.cluster import MiniBatchKMeans

from skgp import SVGPRegressor
from skgp.core.layers.sparse import SparseGP
from skgp.core.layers.two_bases import OrthogonalGP


def test_zero_is_the_plain_model_bit_for_bit(data: Data) -> None:
    params = {"n_inducing": 15, "max_iter": 5, "random_state": 0}
    plain = SVGPRegressor(**params).fit(data.X, data.y)
    zero = SVGPRegressor(n_orthogonal=0, **params).fit(data.X, data.y)
    assert type(zero.stack_.top) is SparseGP
    assert zero.loss_curve_ == plain.loss_curve_
    np.testing.assert_array_equal(
        zero.predict(data.X_new, return_std=True), plain.predict(data.X_new, return_std=True)
    )


def ripples(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(4.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)


def test_further_inducing_inputs_do_not_lower_the_bound() -> None:
    """Where those of q(u) cover the inputs already; 0.01 nats for training that ends early."""
    X, y = ripples(0, 200)
    params = {"n_inducing": 25, "max_iter": 40, "learning_rate_init": 0.03, "random_state": 0}
    plain = SVGPRegressor(**params).fit(X, y)
    orthogonal = SVGPRegressor(n_orthogonal=10, **params).fit(X, y)
    assert orthogonal.loss_curve_[-1] < plain.loss_curve_[-1] + 0.01


def test_inputs_that_the_first_basis_explains() -> None:
    """What is left of them is less than the rounding of float32, and may be negative."""
    X, y = ripples(1, 400)
    model = SVGPRegressor(
        n_inducing=60, n_orthogonal=80, dtype="float32", kernel="rbf", max_iter=5, random_state=0
    ).fit(0.2 * X, y)
    assert model.score(0.2 * X, y) > 0.9


def test_both_bases_come_from_one_kmeans(data: Data) -> None:
    """A random split of 10 + 6 centres; a tiny step keeps them where they start."""
    model = SVGPRegressor(
        n_inducing=10, n_orthogonal=6, max_iter=1, learning_rate_init=1e-12, random_state=0
    ).fit(data.X, data.y)
    layer = model.stack_.top
    assert isinstance(layer, OrthogonalGP)
    assert layer.Z.shape == (1, 10, 3)
    assert layer.Z_mean.shape == (1, 6, 3)
    assert model.inducing_points_.shape == (10, 3)
    both = layer.mean_inputs[0].detach().numpy()
    assert len(np.unique(both.round(6), axis=0)) == 16
    # Each centre is the mean of the rows that are nearest to it, up to the minibatches of k-means.
    x = (data.X - model.model_.x_scale.offset) / model.model_.x_scale.unit
    kmeans = MiniBatchKMeans(16, init=both, n_init=1, max_iter=1, random_state=0).fit(x)
    random = np.random.default_rng(0).permutation(x)[:16]
    inertia = [np.square(x[:, None] - Z[None]).sum(-1).min(1).sum() for Z in (both, random)]
    assert inertia[0] < 0.8 * inertia[1]
    assert inertia[0] < 1.2 * kmeans.inertia_


def test_more_inducing_inputs_than_rows() -> None:
    """Every row is one; without a row left for the second basis the model has none."""
    X, y = ripples(0, 12)
    for n_inducing, rest in ((5, 7), (12, 0), (20, 0)):
        model = SVGPRegressor(
            n_inducing=n_inducing, n_orthogonal=30, max_iter=3, random_state=0
        ).fit(X, y)
        layer = model.stack_.top
        assert isinstance(layer, OrthogonalGP if rest else SparseGP)
        assert layer.mean_inputs.shape == (1, min(n_inducing, 12) + rest, 1)
        assert np.isfinite(model.predict(X, return_std=True)).all()
