"""Monotone transformations of normal mixtures against closed forms and the mixture itself."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import boxcox, expit, inv_boxcox, logit
from sklearn.preprocessing import QuantileTransformer

from skgp.distributions import MonotoneTransformed, NormalMixture, concat


def identity(z):
    return z


@pytest.fixture
def lognormal():
    mean, std = np.array([0.0, 1.0, -2.0]), np.array([0.5, 0.2, 1.0])
    dist = MonotoneTransformed(NormalMixture.normal(mean, std), np.exp, np.log)
    return dist, stats.lognorm(s=std, scale=np.exp(mean))


def test_lognormal_in_closed_form(lognormal):
    dist, exact = lognormal
    y = np.array([0.7, 3.0, 0.01])
    np.testing.assert_allclose(dist.mean(), exact.mean(), rtol=1e-12)
    np.testing.assert_allclose(dist.var(), exact.var(), rtol=1e-10)
    np.testing.assert_allclose(dist.std(), exact.std(), rtol=1e-10)
    np.testing.assert_allclose(dist.median(), exact.median(), rtol=1e-13)
    np.testing.assert_allclose(dist.logpdf(y), exact.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(dist.joint_logpdf(y), exact.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(dist.cdf(y), exact.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(dist.sf(y), exact.sf(y), rtol=1e-12)
    for q in (0.0, 1e-9, 0.3, 0.999):
        np.testing.assert_allclose(dist.ppf(q), exact.ppf(q), rtol=1e-10)
    assert dist.ppf([0.1, 0.2]).shape == (3, 2)


def test_lognormal_crps_in_closed_form(lognormal):
    # Baran and Lerch (2015), "Log-normal distribution based ensemble model output statistics
    # models for probabilistic wind-speed forecasting", Eqn 3.
    dist, exact = lognormal
    s = exact.kwds["s"]
    y = np.array([0.7, 40.0, 1e-6])
    w = np.log(y / exact.kwds["scale"]) / s
    expected = y * (2 * stats.norm.cdf(w) - 1) - 2 * exact.mean() * (
        stats.norm.cdf(w - s) + stats.norm.cdf(s / np.sqrt(2)) - 1
    )
    np.testing.assert_allclose(dist.crps(y), expected, rtol=1e-8)


def test_edges_of_the_support(lognormal):
    dist, exact = lognormal
    np.testing.assert_array_equal(dist.logpdf(0.0), [-np.inf] * 3)
    np.testing.assert_array_equal(dist.cdf(0.0), [0.0] * 3)
    assert np.isnan(dist.crps(np.nan)).all()
    # Outside, func itself gives NaN. There the score is that of zero plus the distance from it.
    np.testing.assert_array_equal(dist.cdf(-1.0), [0.0] * 3)
    np.testing.assert_array_equal(dist.sf(-1.0), [1.0] * 3)
    np.testing.assert_array_equal(dist.logpdf(-1.0), [-np.inf] * 3)
    np.testing.assert_array_equal(dist.pdf(-1.0), [0.0] * 3)
    np.testing.assert_array_equal(dist.joint_logpdf(-1.0), [-np.inf] * 3)
    np.testing.assert_allclose(dist.crps(-1.0), dist.crps(0.0) + 1.0, rtol=1e-12)
    mixed = np.array([-1.0, 2.0, np.nan])
    expected = [0.0, exact.cdf(2.0)[1], np.nan]
    np.testing.assert_allclose(dist.cdf(mixed), expected, rtol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_values_beyond_two_edges_with_several_outputs(sign):
    """Expit on (0, 1), rising or falling; a row with one value outside has no density."""
    base = NormalMixture.normal([[0.3, -1.0]], [[1.0, 0.5]])
    dist = MonotoneTransformed(base, lambda z: expit(sign * z), lambda y: sign * logit(y))
    np.testing.assert_array_equal(dist.cdf([[-2.0, 3.0]]), [[0.0, 1.0]])
    np.testing.assert_array_equal(dist.sf([[-2.0, 3.0]]), [[1.0, 0.0]])
    np.testing.assert_array_equal(dist.joint_logpdf([[0.5, 3.0]]), [-np.inf])
    assert np.isfinite(dist.logpdf([[0.5, 3.0]])[0, 0])


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("power", [2.0, 0.5, -0.5])
def test_quantiles_beyond_the_numbers_that_the_inverse_is_for(sign, power):
    """Box-Cox: its values end at -1 / power; rows reach them far out, or less far."""
    base = NormalMixture.normal(sign * np.array([0.0, 0.0, 0.3]), [0.05, 0.3, 0.4])
    dist = MonotoneTransformed(
        base, lambda z: inv_boxcox(sign * z, power), lambda y: sign * boxcox(y, power)
    )
    q = np.array([0.0, 1e-300, 1e-20, 0.1, 0.5, 0.9, 1.0 - 1e-16, 1.0])
    z = stats.norm.ppf(q) * np.array([[0.05], [0.3], [0.4]]) + np.array([[0.0], [0.0], [0.3]])
    inside = 1.0 + power * z
    limit = 0.0 if power > 0.0 else np.inf
    expected = np.where(inside > 0.0, np.abs(inside) ** (1.0 / power), limit)
    np.testing.assert_allclose(dist.ppf(q), expected, rtol=1e-9)
    draws = dist.rvs(1000, random_state=0)
    outside = 1.0 + power * sign * base.rvs(1000, random_state=0) <= 0.0
    np.testing.assert_array_equal(draws[outside], limit)


@pytest.mark.parametrize("scale", [1e-300, 1e-163, 1e160, 1e300])
def test_deviation_of_a_transformed_target_of_any_size(scale):
    dist = MonotoneTransformed(
        NormalMixture.normal([0.0, 1.0], 0.5),
        lambda z: scale * np.exp(z),
        lambda y: np.log(y / scale),
    )
    expected = stats.lognorm(s=0.5, scale=np.exp([0.0, 1.0])).std()
    np.testing.assert_allclose(dist.std() / scale, expected, rtol=1e-10)


def test_an_infinite_mean_has_an_infinite_deviation():
    dist = MonotoneTransformed(NormalMixture.normal([0.0], 200.0), np.exp, np.log)
    assert dist.mean() == dist.std() == dist.var() == np.inf


def test_given_derivative_agrees_with_the_numerical_one(lognormal, make):
    base = make("outputs")
    numeric = MonotoneTransformed(base, np.sinh, np.arcsinh)
    given = MonotoneTransformed(base, np.sinh, np.arcsinh, lambda y: 1 / np.sqrt(1 + y**2))
    y = np.linspace(-30, 30, 15).reshape(5, 3)
    np.testing.assert_allclose(numeric.logpdf(y), given.logpdf(y), rtol=1e-9)


@pytest.mark.parametrize("kind", ["single", "outputs", "outputs-joint"])
@pytest.mark.parametrize("scale", [2.0, -2.0])
def test_affine_transformation_is_affine(make, kind, scale):
    base = make(kind)
    exact = base.affine(3.0, scale)
    dist = MonotoneTransformed(base, lambda z: 3.0 + scale * z, lambda y: (y - 3.0) / scale)
    y = exact.mean() + 0.6
    for name in ("mean", "var", "median"):
        np.testing.assert_allclose(getattr(dist, name)(), getattr(exact, name)(), rtol=1e-9)
    for name in ("logpdf", "joint_logpdf", "cdf", "sf", "crps"):
        np.testing.assert_allclose(getattr(dist, name)(y), getattr(exact, name)(y), rtol=1e-8)
    q = [0.0, 1e-20, 0.2, 0.9, 1.0]
    np.testing.assert_allclose(dist.ppf(q), exact.ppf(q), rtol=1e-10)
    draws = 3.0 + scale * base.rvs(4, random_state=0)
    np.testing.assert_array_equal(dist.rvs(4, random_state=0), draws)


def test_each_output_may_have_its_own_transformation(make):
    base = make("outputs")

    def inverse(z):
        return np.column_stack([np.exp(z[:, 0]), -z[:, 1], np.sinh(z[:, 2])])

    def forward(y):
        return np.column_stack([np.log(y[:, 0]), -y[:, 1], np.arcsinh(y[:, 2])])

    dist = MonotoneTransformed(base, inverse, forward)
    y = np.abs(np.random.default_rng(0).normal(size=(5, 3))) + 0.1
    pairs = [(np.exp, np.log), (np.negative, np.negative), (np.sinh, np.arcsinh)]
    for j, pair in enumerate(pairs):
        alone = MonotoneTransformed(base[:, j], *pair)
        for name in ("logpdf", "cdf", "crps"):
            np.testing.assert_allclose(
                getattr(dist, name)(y)[:, j], getattr(alone, name)(y[:, j]), rtol=1e-8
            )
        np.testing.assert_allclose(dist.mean()[:, j], alone.mean(), rtol=1e-9)
        np.testing.assert_allclose(dist.ppf([0.1, 0.7])[:, j], alone.ppf([0.1, 0.7]), rtol=1e-12)


def test_missing_outputs_are_marginalised(make):
    base = make("outputs-joint")
    dist = MonotoneTransformed(base, np.sinh, np.arcsinh)
    Y = np.full((5, 3), 0.4)
    Y[:, 1:] = np.nan
    np.testing.assert_allclose(dist.joint_logpdf(Y), dist.logpdf(0.4)[:, 0], rtol=1e-9)
    assert dist.joint_logpdf(np.full((5, 3), np.nan)).tolist() == [0.0] * 5


def test_crps_by_its_definition(make):
    base = make("single", n=2)
    dist = MonotoneTransformed(base, np.sinh, np.arcsinh)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    for row, y in enumerate([1.5, -20.0]):
        # Fine panels in z = arcsinh(x), one edge of which is the kink.
        edges = np.sort(np.append(np.linspace(-16, 16, 200), np.arcsinh(y)))
        half = np.diff(edges)[:, None] / 2
        z = edges[:-1, None] + half * (1 + nodes)
        x = np.sinh(z).ravel()
        step = dist[np.full(x.size, row)].cdf(x) - (x >= y)
        total = np.sum((half * weights * np.cosh(z)).ravel() * step**2)
        np.testing.assert_allclose(dist[row].crps(y), total, rtol=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda base: MonotoneTransformed(base, np.square, np.sqrt), "monotone, and not"),
        (lambda base: MonotoneTransformed(base, np.zeros_like, identity), "monotone, and not"),
        (lambda base: MonotoneTransformed(base, np.sum, identity), "inverse_func must act elem"),
        (lambda base: MonotoneTransformed(base, identity, np.sum).cdf(0.0), "func must act elem"),
        (lambda base: MonotoneTransformed([1.0], identity, identity), "base must be a Normal"),
        (lambda base: MonotoneTransformed(base, identity, identity).cdf([0.0]), "y must be"),
    ],
)
def test_hostile_arguments(make, build, message):
    with pytest.raises(ValueError, match=message):
        build(make(n=40))


def limited(values):
    return np.clip(values, -2.0, 2.0)


def limited_and_mirrored(values):
    return -np.clip(values, -2.0, 2.0)


@pytest.mark.parametrize(("func", "y"), [(limited, 5.0), (limited_and_mirrored, -5.0)])
def test_crps_of_an_observation_beyond_an_atom(func, y):
    """What lies at the atom is on one side of the observation, with all its probability."""
    dist = MonotoneTransformed(NormalMixture.normal([1.9], 1.0), func, func)
    F = stats.norm(1.9, 1.0).cdf
    inside = integrate.quad(lambda x: F(x) ** 2, -2.0, 2.0)[0]
    np.testing.assert_allclose(dist.crps(y), inside + 3.0, rtol=1e-6)


def test_rows_of_a_decreasing_transformation_follow_none():
    empty = MonotoneTransformed(NormalMixture.normal(np.empty(0), 1.0), np.negative, np.negative)
    dist = MonotoneTransformed(NormalMixture.normal([1.0], 1.0), np.negative, np.negative)
    np.testing.assert_allclose(concat([empty, dist]).cdf(-3.0), dist.cdf(-3.0))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_values_beyond_an_atom_are_outside_the_support(sign):
    """The one of a QuantileTransformer at the largest target that it was fitted to."""
    sample = sign * np.random.default_rng(0).normal(3.0, 2.0, (500, 1))
    map_ = QuantileTransformer(n_quantiles=500, output_distribution="normal").fit(sample)

    def inverse(z):
        return sign * map_.inverse_transform(z.reshape(-1, 1)).reshape(z.shape)

    def forward(y):
        return map_.transform(sign * y.reshape(-1, 1)).reshape(y.shape)

    base = NormalMixture.normal([sign * 5.2, 0.0], 1.0)
    dist = MonotoneTransformed(base, inverse, forward)
    low, high = sorted([sign * sample.min(), sign * sample.max()])
    for y, below in [(high + 1e-3, 1.0), (high + 100.0, 1.0), (low - 1e-3, 0.0), (-1e6, 0.0)]:
        np.testing.assert_array_equal(dist.cdf(y), below)
        np.testing.assert_array_equal(dist.sf([[y, y]]), 1.0 - below)
        np.testing.assert_array_equal(dist.logpdf(y), -np.inf)
        np.testing.assert_array_equal(dist.joint_logpdf(y), -np.inf)
    # Inside nothing changes; the ends are in the image.
    y = np.sort(np.append(sample, sample + 0.01))[None]
    y = np.clip(sign * y, low, high)
    inside = base.cdf if sign > 0.0 else base.sf
    expected = np.where(y == high, 1.0, inside(forward(y)))  # with all of the atom
    np.testing.assert_array_equal(dist.cdf(y), expected)
    far = dist.cdf([[-np.inf, np.inf, np.nan]])
    np.testing.assert_array_equal(far, [[0.0, 1.0, np.nan]] * 2)


def test_inexact_inverses_are_not_taken_for_the_end_of_the_image():
    """In float32, of values far from zero, and where rounding errors are magnified."""
    base = NormalMixture.normal([0.0], 1.0)
    z = np.linspace(-6.0, 6.0, 101)[None]
    for inverse, forward in [
        (lambda z: np.float32(1000.0 + 0.01 * z), lambda y: (np.float32(y) - 1000.0) / 0.01),
        (lambda z: 1e9 + z, lambda y: y - 1e9),
        (lambda z: 1e-8 * z + 1.0 - 1.0, lambda y: 1e8 * y),
        (lambda z: np.exp(100.0 * z), lambda y: np.log(y) / 100.0),
        (lambda z: expit(9.0 * z), lambda y: logit(np.clip(y, 1e-12, 1.0 - 1e-12)) / 9.0),
    ]:
        y = inverse(z)
        expected = base.cdf(np.asarray(forward(y), dtype=float))
        np.testing.assert_array_equal(MonotoneTransformed(base, inverse, forward).cdf(y), expected)


@pytest.mark.parametrize("std", [0.8, 1.2, 2.0, 2.5, 3.0, 4.0, 6.0, 12.0])
def test_moments_that_lie_far_out(std):
    """exp(2 z) N(z; 0, std^2) has its peak at twice std standard deviations."""
    dist = MonotoneTransformed(NormalMixture.normal([0.0, -1.0], std), np.exp, np.log)
    scale = np.exp([0.0, -1.0])
    np.testing.assert_allclose(dist.mean(), scale * np.exp(0.5 * std**2), rtol=2e-11)
    expected = scale * np.exp(0.5 * std**2) * np.sqrt(np.expm1(std**2))
    np.testing.assert_allclose(dist.std(), expected, rtol=2e-11)


def test_moments_that_lie_far_out_of_some_cells_only():
    """Rows and outputs of a mixture; the others stay as they are by themselves."""
    mean = np.array([[[0.0, 1.0], [0.5, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])
    std = np.array([[[0.3, 0.2], [0.4, 0.3]], [[0.3, 3.0], [0.2, 2.5]]])
    weights = np.array([0.7, 0.3])

    def inverse(z):
        return np.column_stack([-z[:, 0], np.exp(z[:, 1])])

    def forward(y):
        return np.column_stack([-y[:, 0], np.log(y[:, 1])])

    dist = MonotoneTransformed(NormalMixture(np.log(weights), mean, std), inverse, forward)
    first, second = (np.exp(k * mean + 0.5 * (k * std) ** 2)[..., 1] @ weights for k in (1, 2))
    np.testing.assert_allclose(dist.mean()[:, 1], first, rtol=1e-11)
    np.testing.assert_allclose(dist.std()[:, 1], np.sqrt(second - first**2), rtol=1e-11)
    np.testing.assert_array_equal(dist.std()[0], dist[:1].std()[0])
    np.testing.assert_allclose(dist.mean()[:, 0], -mean[..., 0] @ weights, atol=1e-12)
    assert dist[:0].std().shape == (0, 2)


def test_undefined_far_ends_leave_moments_as_they_are():
    def inverse(z):
        return np.where(z > 10.0, np.nan, np.exp(2.0 * z))

    dist = MonotoneTransformed(NormalMixture.normal([0.0], 1.0), inverse, np.log)
    np.testing.assert_allclose(dist.std(), np.sqrt(np.expm1(4.0)) * np.exp(2.0), rtol=1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_probabilities_at_atoms(sign):
    """A normal variable clipped to [0, 1], and its mirror image, of several points too."""
    base = NormalMixture.normal([0.2, 0.7], [1.0, 0.5])
    clipped = MonotoneTransformed(base, lambda z: sign * np.clip(z, 0.0, 1.0), lambda y: sign * y)
    at, zero, one = np.array([[-0.5, 0.0, 0.5, 1.0, 1.5]]), np.zeros(2), np.ones(2)
    below = np.column_stack([zero, zero, base.cdf(0.5), base.cdf(1.0), one])
    up_to = np.column_stack([zero, base.cdf(0.0), base.cdf(0.5), one, one])
    if sign < 0.0:
        below, up_to = 1.0 - up_to, 1.0 - below
    got = clipped.cdf_ends(sign * at)
    np.testing.assert_allclose(got, [below, up_to], atol=1e-12)
    np.testing.assert_allclose(clipped.cdf(sign * at), up_to, atol=1e-12)
    np.testing.assert_allclose(clipped.sf(sign * at), 1.0 - up_to, atol=1e-12)


def test_a_stretch_in_the_middle_is_an_atom():
    """A dead zone: values of z between -1 and 0.5 are zero."""

    def inverse(z):
        return np.where(z > 0.5, z - 0.5, np.minimum(z + 1.0, 0.0))

    base = NormalMixture.normal([0.0], 1.0)
    dist = MonotoneTransformed(
        base, inverse, lambda y: np.where(y > 0.0, y + 0.5, np.where(y < 0.0, y - 1.0, 0.0))
    )
    np.testing.assert_allclose(dist.cdf_ends(0.0), [base.cdf(-1.0), base.cdf(0.5)], rtol=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rows_on_a_plateau_follow_the_others(sign):
    """All of the first row but a far tail is clipped, of the second none, and of the third half."""
    base = NormalMixture.normal([-4.0, 0.5, 0.0], [1.0, 0.1, 1.0])

    def clip(z):
        return sign * np.clip(z, 0.0, 1.0)

    dist = MonotoneTransformed(base, clip, lambda y: sign * y)
    x = np.clip(base.rvs(200_000, random_state=0), 0.0, 1.0)
    error = 1e-12 + 4 * x.std(axis=1) / np.sqrt(x.shape[1])
    assert (np.abs(sign * dist.mean() - x.mean(axis=1)) < error).all()
    for row in range(3):
        alone = dist[row].base
        np.testing.assert_array_equal(
            MonotoneTransformed(alone, clip, lambda y: sign * y).cdf(sign * 0.5),
            dist[row].cdf(sign * 0.5),
        )
    expected = base.cdf(0.0) if sign > 0.0 else np.ones(3)
    np.testing.assert_allclose(dist.cdf(0.0), expected)


def test_a_direction_is_that_of_each_output():
    base = NormalMixture.normal([[-30.0, 5.0], [0.3, 0.0], [0.0, 40.0]], 1.0)
    dist = MonotoneTransformed(base, lambda z: np.clip(z, -1.0, 2.0) * [1.0, -1.0], identity)
    np.testing.assert_allclose(dist.median(), [[-1.0, -2.0], [0.3, 0.0], [0.0, -2.0]])


def rounded(z):
    return np.round(z, 1)


def test_atoms_of_rounding_between_distant_components():
    """Each value is an atom, of components within it, about as wide, and a hundred times as far."""
    mean = np.array([[-1.0, 1.0], [-1.0, 1.0], [0.0, 90.0], [0.2, 0.3]])
    std = np.array([[0.01, 0.01], [1e-4, 0.1], [1e-3, 2e-2], [1.0, 1.5]])
    base = NormalMixture(np.log([0.4, 0.6]), mean, std)
    dist = MonotoneTransformed(base, rounded, rounded)
    y = np.array([[-1.0, 0.0, 0.9, 1.0, 1.1, 90.0, 3.0]])
    expected = base.cdf(y - 0.05), base.cdf(y + 0.05)
    np.testing.assert_allclose(dist.cdf_ends(y), expected, atol=1e-9)
    np.testing.assert_allclose(dist.sf(y), 1.0 - expected[1], atol=1e-9)
    x = dist.rvs(20_000, random_state=0)
    error = 4.0 * np.sqrt(0.25 / x.shape[1])
    for k, at in enumerate(y[0]):
        assert (np.abs((x < at - 1e-9).mean(1) - dist.cdf_ends(y)[0][:, k]) < error).all()
        assert (np.abs((x <= at + 1e-9).mean(1) - dist.cdf(y)[:, k]) < error).all()


def test_a_stretch_that_ends_before_a_light_component():
    """From 3 to 50, where that is fifteen standard deviations of the mixture."""

    def inverse(z):
        return np.minimum(z, 3.0) + np.maximum(z - 50.0, 0.0)

    base = NormalMixture(np.log([0.999, 0.001]), [[0.0, 100.0]], 1.0)
    dist = MonotoneTransformed(base, inverse, lambda y: np.where(y > 3.0, y + 47.0, y))
    np.testing.assert_allclose(dist.sf(3.0), base.sf(50.0), rtol=1e-9)


def columns_forward(y):
    return np.column_stack([np.log(y[:, 0]), -y[:, 1], np.arcsinh(y[:, 2])])


def columns_inverse(z):
    return np.column_stack([np.exp(z[:, 0]), -z[:, 1], np.sinh(z[:, 2])])


def columns_slope(y):
    return np.column_stack([1 / y[:, 0], -np.ones(len(y)), 1 / np.hypot(1.0, y[:, 2])])


@pytest.mark.parametrize("slope", [None, columns_slope])
def test_some_outputs_are_as_among_all(make, slope):
    base = make("outputs-joint").with_output_names(["a", "b", "c"])
    dist = MonotoneTransformed(base, columns_inverse, columns_forward, slope)
    y = dist.median() * 1.1
    for key, chosen in ((1, [1]), ("c", [2]), ([2, 0], [2, 0]), (slice(1, None), [1, 2])):
        part = dist[:, key]
        select = chosen if part.ndim == 2 else chosen[0]
        for name in ("mean", "std", "median"):
            whole = getattr(dist, name)()[:, select]
            np.testing.assert_allclose(getattr(part, name)(), whole, rtol=1e-9)
        for name in ("cdf", "logpdf", "crps"):
            whole = getattr(dist, name)(y)[:, select]
            np.testing.assert_allclose(getattr(part, name)(y[:, select]), whole, rtol=1e-9)
        np.testing.assert_allclose(part.ppf([0.1, 0.9]), dist.ppf([0.1, 0.9])[:, select])
        assert part.output_names == tuple("abc"[k] for k in chosen)
    missing = np.full(y.shape, np.nan)
    missing[:, [0, 2]] = y[:, [0, 2]]
    np.testing.assert_allclose(
        dist[:, ["a", "c"]].joint_logpdf(y[:, [0, 2]]), dist.joint_logpdf(missing), rtol=1e-9
    )
    joined = concat([dist[:2, "c"], dist[2:, "c"]])
    np.testing.assert_allclose(joined.mean(), dist[:, "c"].mean(), rtol=1e-12)
    assert dist[:0, 1].mean().shape == (0,)
    with pytest.raises(IndexError, match="no output"):
        dist[:, "d"]


@pytest.mark.parametrize("y", [1e-6, 1e-8, 1e-12])
def test_density_close_to_the_end_of_the_support(y):
    """There the five points of the derivative lie beyond the domain of the inverse."""
    dist = MonotoneTransformed(
        NormalMixture.normal([1.0], 1.0), lambda z: inv_boxcox(z, 0.5), lambda t: boxcox(t, 0.5)
    )
    exact = stats.norm.logpdf(boxcox(y, 0.5), 1.0) - 0.5 * np.log(y)
    np.testing.assert_allclose(dist.logpdf(y), exact, rtol=1e-6)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_density_at_the_edge_of_a_clip_is_infinite(power):
    """The zeros have a probability; beside them the density is what it was."""
    dist = MonotoneTransformed(
        NormalMixture.normal([0.5], 1.0),
        lambda z: np.maximum(z, 0.0) ** power,
        lambda y: np.maximum(y, 0.0) ** (1.0 / power),
    )
    assert np.isposinf(dist.logpdf(0.0)).all()
    exact = stats.norm.logpdf(0.3, 0.5) - np.log(power * 0.3 ** (power - 1.0))
    np.testing.assert_allclose(dist.logpdf(0.3**power), exact, rtol=1e-9)
