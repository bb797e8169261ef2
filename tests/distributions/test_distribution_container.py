"""What all distributions share: indexing, conversion, immutability, pickling, concatenation."""

import copy
import pickle

import numpy as np
import pytest

from skgp.distributions import (
    Bernoulli,
    Categorical,
    CountMixture,
    Distribution,
    MonotoneTransformed,
    NormalMixture,
    concat,
)


@pytest.fixture(params=["mixture", "outputs", "transformed", "bernoulli", "categorical"])
def dist(request, make):
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 5)
    return {
        "mixture": lambda: make("single"),
        "outputs": lambda: make("outputs-joint"),
        "transformed": lambda: MonotoneTransformed(make("single"), np.sinh, np.arcsinh),
        "bernoulli": lambda: Bernoulli(probs[:, 0]),
        "categorical": lambda: Categorical(probs, classes=["a", "b", "c"]),
    }[request.param]()


def parts(dist):
    """Arrays that a distribution consists of."""
    state = dist.__getstate__()
    base = parts(state["_base"]) if "_base" in state else []
    return [value for value in state.values() if isinstance(value, np.ndarray)] + base


def assert_same_array(actual, expected):
    """Equal up to rounding; a quadrature rounds differently in other company."""
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-12)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(parts(a), parts(b), strict=True))


@pytest.mark.parametrize(
    "key",
    [
        2, -1, np.int64(3), slice(1, 4), slice(None, None, -2), [0, 0, 4], [-1, 1],
        np.array([True, False, True, False, True]), [], slice(0, 0), (slice(1, 3), ...), ...,
    ],
    ids=str,
)  # fmt: skip
def test_rows_are_indexed_like_those_of_an_array(dist, key):
    taken = dist[key]
    assert type(taken) is type(dist)
    expected = np.asarray(dist)[[key] if isinstance(key, int | np.integer) else key]
    assert_same_array(taken, expected)
    assert taken.shape == expected.shape
    assert taken.ndim == expected.ndim
    assert len(taken) == len(expected)


@pytest.mark.parametrize("key", [5, -6, [7], 1.5, [0.5], "a", [[0, 1]], [True], (0, 0, 0)])
def test_wrong_indices_are_refused(dist, key):
    with pytest.raises(IndexError):
        dist[key]


def test_outputs_are_indexed_like_columns(make):
    dist = make("outputs-joint")
    for key in (0, -1, [2, 0], slice(1, None), [True, False, True]):
        taken = dist[1:4, key]
        expected = np.asarray(dist)[1:4, key]
        np.testing.assert_allclose(np.asarray(taken), expected, rtol=1e-14)
        assert taken.shape == expected.shape
    with pytest.raises(IndexError, match="at least one output"):
        dist[:, []]
    with pytest.raises(IndexError, match="has 1 axes"):
        make("single")[:, 0]


def test_some_outputs_have_the_marginal_joint_density(make):
    dist = make("outputs-joint")
    Y = dist.mean() + 0.3
    Y[:, 1] = np.nan
    swapped = dist[:, [2, 0]]
    np.testing.assert_allclose(swapped.joint_logpdf(Y[:, [2, 0]]), dist.joint_logpdf(Y), rtol=1e-10)
    np.testing.assert_allclose(swapped.cov(), dist.cov()[:, [2, 0]][..., [2, 0]], rtol=1e-10)
    assert (np.diagonal(swapped.components().scale_tril, axis1=2, axis2=3) > 0).all()
    np.testing.assert_allclose(dist[:, 1].logpdf(0.2), dist.logpdf(0.2)[:, 1], rtol=1e-12)


def test_iteration_visits_the_rows(dist):
    rows = list(dist)
    assert len(rows) == 5
    assert_same_array(np.concatenate(rows), np.asarray(dist))


def test_as_an_array(dist):
    array = np.asarray(dist)
    array[:] = 0.0  # a copy, not the inside of the distribution
    assert np.asarray(dist).any()
    assert np.asarray(dist, dtype=np.float32).dtype == np.float32
    np.testing.assert_array_equal(np.ravel(dist), np.asarray(dist).ravel())
    np.testing.assert_allclose(dist, dist[::-1][::-1])
    with pytest.raises(ValueError, match="computing a new one"):
        np.array(dist, copy=False)


def test_scikit_learn_indexes_and_compares(dist):
    from sklearn.utils import _safe_indexing
    from sklearn.utils._testing import assert_allclose

    for key in (np.array([3, 1]), [3, 1], slice(1, 3), np.arange(5) % 2 == 0):
        assert_same_array(_safe_indexing(dist, key), np.asarray(dist)[key])
    assert_allclose(dist, dist)


def test_the_array_of_a_mixture_is_its_mean(mixture):
    np.testing.assert_array_equal(np.asarray(mixture), mixture.mean())


def test_nothing_can_be_changed(dist):
    for name in ("shape", "_mean", "anything"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(dist, name, 1)
    with pytest.raises(AttributeError, match="immutable"):
        del dist._mean
    for array in parts(dist):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_components_are_read_only(make):
    for array in make("outputs-joint").components():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_arguments_are_copied():
    log_w, mean, std = np.zeros((2, 1)), np.zeros((2, 1)), np.ones((2, 1))
    dist = NormalMixture(log_w, mean, std)
    mean[:], std[:] = 5.0, 7.0
    assert dist.mean().tolist() == [0.0, 0.0]
    assert dist.std().tolist() == [1.0, 1.0]
    probs, classes = np.array([[0.5, 0.5]]), np.array([1, 2])
    labelled = Categorical(probs, classes)
    probs[:], classes[:] = 0.0, 0
    assert labelled.pmf(2).tolist() == [0.5]


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))]
)
def test_copies_are_equal_to_the_bit(dist, clone):
    twin = clone(dist)
    assert same(twin, dist)
    assert repr(twin) == repr(dist)
    with pytest.raises(AttributeError, match="immutable"):
        twin.anything = 1
    for array in parts(twin):
        assert not array.flags.writeable


def test_equality_is_identity(dist):
    assert dist == dist
    assert dist != dist[:]
    assert len({dist, dist[:]}) == 2


def test_concat_undoes_slicing(dist):
    joined = concat([dist[:2], dist[2:2], dist[2:]])
    assert type(joined) is type(dist)
    np.testing.assert_allclose(np.asarray(joined), np.asarray(dist), rtol=1e-14)
    np.testing.assert_allclose(
        joined.rvs(2, random_state=0) if dist.shape[1:] != (3,) else 0,
        dist.rvs(2, random_state=0) if dist.shape[1:] != (3,) else 0,
    )


def test_concat_pads_components_and_factors(make):
    pieces = [make("outputs-joint"), make("outputs", S=2), make("one-component")]
    joined = concat(pieces[:2])
    Y = np.full((10, 3), 0.3)
    for name in ("logpdf", "joint_logpdf", "crps", "cdf"):
        expected = [getattr(piece, name)(Y[:5]) for piece in pieces[:2]]
        np.testing.assert_allclose(getattr(joined, name)(Y), np.concatenate(expected), rtol=1e-9)
    np.testing.assert_allclose(
        joined.cov(), np.concatenate([piece.cov() for piece in pieces[:2]]), rtol=1e-9
    )
    with pytest.raises(ValueError, match="same outputs"):
        concat(pieces)


def test_concat_refuses_what_does_not_fit(make):
    with pytest.raises(ValueError, match="at least one"):
        concat([])
    with pytest.raises(ValueError, match="one class, got Bernoulli, NormalMixture"):
        concat([make(), Bernoulli([0.1])])
    with pytest.raises(ValueError, match="same classes"):
        concat([Bernoulli([0.1]), Bernoulli([0.1], classes=[1, 2])])
    with pytest.raises(ValueError, match="same transformation"):
        concat(
            [
                MonotoneTransformed(make(), np.exp, np.log),
                MonotoneTransformed(make(), np.exp2, np.log2),
            ]
        )


def test_no_rows(dist):
    empty = dist[:0]
    assert len(empty) == 0
    assert list(empty) == []
    assert empty.rvs(3).shape[0] == 0
    assert empty.to_frame().shape[0] == 0
    assert empty._repr_html_()
    assert len(pickle.loads(pickle.dumps(empty))) == 0


@pytest.mark.parametrize("kind", ["single", "outputs", "outputs-joint", "single-shared"])
def test_every_method_serves_no_rows(make, kind):
    empty = make(kind)[:0]
    y = np.empty(empty.shape)
    for name in ("mean", "var", "std", "median", "mode", "entropy"):
        assert getattr(empty, name)().shape == empty.shape
    for name in ("pdf", "logpdf", "cdf", "sf", "crps"):
        assert getattr(empty, name)(y).shape == empty.shape
    assert empty.joint_logpdf(y).shape == (0,)
    assert empty.cov().shape[0] == 0
    assert empty.ppf([0.1, 0.2]).shape == (*empty.shape, 2)
    assert empty.affine(1.0, 2.0).shape == empty.shape
    assert empty.to_torch().batch_shape == (0,)


def test_frame_of_a_single_output(make):
    pytest.importorskip("pandas")
    dist = make("single")
    frame = dist.to_frame(index=list("abcde"))
    assert frame.index.tolist() == list("abcde")
    assert frame.columns.tolist() == ["mean", "std", "q05", "q50", "q95"]
    np.testing.assert_array_equal(frame["std"], dist.std())
    np.testing.assert_array_equal(frame["q05"], dist.ppf(0.05))


def test_frame_of_several_outputs(make):
    pytest.importorskip("pandas")
    dist = make("outputs")
    frame = dist.to_frame()
    assert frame.columns.nlevels == 2
    np.testing.assert_array_equal(frame[1]["q95"], dist.ppf(0.95)[:, 1])


def test_frame_of_classes():
    pytest.importorskip("pandas")
    frame = Categorical([[0.2, 0.8]], classes=["no", "yes"]).to_frame()
    assert frame.columns.tolist() == ["no", "yes"]
    assert frame["yes"].tolist() == [0.8]


@pytest.mark.parametrize("S", [1, 4])
def test_torch_has_the_same_density(make, S):
    torch = pytest.importorskip("torch")
    for kind in ("single", "outputs", "outputs-joint"):
        dist = make(kind, S=S)
        y = dist.mean() + 0.5
        other = dist.to_torch()
        assert other.batch_shape == (5,)
        log_prob = other.log_prob(torch.tensor(y))
        assert log_prob.dtype == torch.float64
        np.testing.assert_allclose(log_prob.numpy(), dist.joint_logpdf(y), rtol=1e-6)
        np.testing.assert_allclose(other.mean.numpy(), dist.mean(), rtol=1e-12)


def test_every_distribution_is_abstract_or_final():
    def leaves(kind):
        below = kind.__subclasses__()
        return [leaf for child in below for leaf in leaves(child)] if below else [kind]

    found = set(leaves(Distribution))
    assert found == {NormalMixture, CountMixture, MonotoneTransformed, Bernoulli, Categorical}
    assert all(kind.__final__ for kind in found)
    with pytest.raises(TypeError, match="abstract"):
        Distribution()
