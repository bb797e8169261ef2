"""A kernel for each layer of a deep GP: which layer gets which, one for all, messages."""

import gpytorch
import numpy as np
import pytest
from oracles.models import to_array
from sklearn.model_selection import GridSearchCV

from skgp import DGPRegressor, DSPPRegressor, IWDGPRegressor, SVGPRegressor
from skgp.core.kernels.choice import make_kernel
from skgp.estimators.baselines import SGHMCDGPRegressor

pytestmark = pytest.mark.usefixtures("short_start")

INF, NAN = np.inf, np.nan

SMALL = {"n_inducing": 6, "max_iter": 2, "random_state": 0}
DEEP = {
    "dgp": lambda **params: DGPRegressor(**SMALL, **params),
    "dspp": lambda **params: DSPPRegressor(**SMALL, **params),
    "sghmc": lambda **params: SGHMCDGPRegressor(**SMALL, **params),
    "iwdgp": lambda **params: IWDGPRegressor(**SMALL, **params),
}


@pytest.fixture
def table(rng):
    X = rng.uniform(-1.0, 1.0, (40, 2))
    return X, np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(40)


@pytest.fixture(params=DEEP.values(), ids=DEEP.keys())
def make(request):
    return request.param


@pytest.mark.parametrize("names", [["rbf", "matern32"], ("matern32", "rbf")])
def test_kernels_go_from_the_inputs_upwards(table, make, names):
    layers = make(kernel=names).fit(*table).stack_.layers
    assert [layer.kernel.name for layer in layers] == list(names)


@pytest.mark.parametrize("architecture", ["GP-LV-GP-GP", "LV-GP-GP-GP", "GP-GP-LV-GP"])
def test_covariates_have_no_kernel(table, architecture):
    names = ["rbf", "matern12", "matern32"]
    model = IWDGPRegressor(architecture=architecture, kernel=names, **SMALL).fit(*table)
    assert [layer.kernel.name for layer in model.stack_.layers] == names


def test_one_kernel_is_that_of_all_layers(table, make):
    one, each = (make(kernel=kernel).fit(*table) for kernel in ("rbf", ["rbf", "rbf"]))
    for actual, expected in zip(each.stack_.parameters(), one.stack_.parameters(), strict=True):
        np.testing.assert_array_equal(to_array(actual), to_array(expected))


def test_kernel_of_gpytorch_in_one_layer(table, make):
    """It may fit this layer alone: the hidden one sees two columns and the top one `width`."""
    params = {"architecture": "GP-GP"} if make is DEEP["iwdgp"] else {"width": 3}
    ard = gpytorch.kernels.MaternKernel(ard_num_dims=2)
    first, top = make(kernel=[ard, "rbf"], **params).fit(*table).stack_.layers
    assert all(kernel.ard_num_dims == 2 for kernel in first.kernel.kernels)
    assert top.kernel.name == "rbf"
    assert ard.raw_lengthscale.grad is None


def test_search_over_kernels_of_layers(table):
    grid = {"kernel": ["rbf", ["matern52", "rbf"]]}
    search = GridSearchCV(DEEP["dgp"](), grid, cv=2).fit(*table)
    assert search.best_params_["kernel"] in grid["kernel"]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (["rbf"], r"kernel has a length of 1 for 2 layers of GPs.*from the inputs upwards"),
        (["rbf"] * 3, r"kernel has a length of 3 for 2 layers"),
        ([], r"kernel has a length of 0"),
        (["rbf", "matern"], r"kernel has the entry 'matern', which is neither .*'matern52'"),
        (["rbf", None], r"kernel has the entry None"),
        (["rbf", ["rbf"]], r"kernel has the entry \['rbf'\]"),
        ({"rbf", "matern52"}, r"The 'kernel' parameter .* must be"),
    ],
)
def test_kernels_that_are_none(table, make, kernel, message):
    with pytest.raises(ValueError, match=message):
        make(kernel=kernel).fit(*table)


def test_one_layer_has_one_kernel(table):
    with pytest.raises(ValueError, match="The 'kernel' parameter of SVGPRegressor"):
        SVGPRegressor(kernel=["rbf"], **SMALL).fit(*table)


def test_lengthscales_are_those_of_the_columns_that_the_kernel_sees(table):
    """Whatever their order, and in parts of kernels too."""
    X, y = table
    X = np.column_stack([X[:, 0], 100.0 * X[:, 1], 1e4 * X[:, 0] ** 2])
    rbf, scaled = gpytorch.kernels.RBFKernel, gpytorch.kernels.ScaleKernel
    for kernel, columns in (
        (rbf(ard_num_dims=2, active_dims=[1, 0]), [1, 0]),
        (rbf(ard_num_dims=2, active_dims=[0, 2]), [0, 2]),
        (scaled(rbf(active_dims=[1])), [1]),
    ):
        model = SVGPRegressor(kernel=kernel, **SMALL).fit(X, y)
        expected = np.full(3, np.inf)
        expected[columns] = to_array(model.stack_.bottom.kernel.lengthscale)[0]
        np.testing.assert_allclose(model.lengthscales_, expected * X.std(axis=0))


def of_length(lengthscale, **columns):
    kernel = gpytorch.kernels.RBFKernel(**columns)
    kernel.lengthscale = lengthscale
    return kernel


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: of_length(0.5, active_dims=[0]) * of_length(0.7, active_dims=[2]),
            [0.5, INF, 0.7],
        ),
        (lambda: of_length(0.5) + of_length(0.3, active_dims=[1]), [0.5, 0.3, 0.5]),
        (
            lambda: (
                gpytorch.kernels.ScaleKernel(of_length(0.5, active_dims=[0]))
                + gpytorch.kernels.ScaleKernel(
                    of_length([[0.6, 0.7]], active_dims=[2, 0], ard_num_dims=2)
                )
            ),
            [0.5, INF, 0.6],
        ),
        (
            lambda: gpytorch.kernels.LinearKernel() * of_length(0.7, active_dims=[2]),
            [NAN, NAN, 0.7],
        ),
        (lambda: gpytorch.kernels.LinearKernel(active_dims=[1]), [INF, NAN, INF]),
    ],
)
def test_all_parts_of_a_kernel_have_a_say_in_its_lengthscales(make, expected):
    kernel = make_kernel(make(), 2, 3, 1.0)
    np.testing.assert_allclose(to_array(kernel.lengthscales(3)), [expected] * 2, rtol=1e-6)
