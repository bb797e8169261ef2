"""Kernels by the names that users of several libraries type."""

import numpy as np
import pytest
import torch
from oracles.models import normal, to_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from skgp import DSPPRegressor, ExactGPRegressor, SVGPRegressor
from skgp.core.kernels.choice import has_profile, make_kernel
from skgp.core.kernels.names import NAMES, kernel_name
from skgp.core.kernels.stationary import PROFILES

pytestmark = pytest.mark.usefixtures("short_start")

SPELLINGS = {
    "rbf": ["rbf", "RBF", "RBFKernel", "squared_exponential", "Squared Exponential", "se"],
    "matern12": ["matern12", "Matern12", "matern-1/2", "matern_0.5", "exponential"],
    "matern32": ["matern32", "matern-3/2", "Matern 3/2", "matern_1.5"],
    "matern52": ["matern52", "Matern-5/2", "matern 5/2", "matern(2.5)", "MATERN_52"],
    "rational_quadratic": ["rational_quadratic", "RationalQuadratic", "RQ", "RQKernel"],
}


def test_each_name_in_several_spellings() -> None:
    assert tuple(SPELLINGS) == NAMES
    assert {text: kernel_name(text) for texts in SPELLINGS.values() for text in texts} == {
        text: name for name, texts in SPELLINGS.items() for text in texts
    }


@pytest.mark.parametrize("text", ["", "matern", "matern72", "kernel", "periodic", "rbf+matern52"])
def test_what_names_no_kernel(text: str) -> None:
    assert kernel_name(text) is None


@pytest.mark.parametrize("ard", [True, False])
def test_rational_quadratic_against_its_formula(rng: np.random.Generator, ard: bool) -> None:
    """s (1 + r^2 / (2 alpha))^-alpha, Rasmussen and Williams (4.19), at the start and elsewhere."""
    kernel = make_kernel("RQ", 2, 3, 0.7, ard=ard).double()
    Z, x = normal(rng, 2, 4, 3), normal(rng, 5, 3)

    def expected(w: int, scale: float, alpha: float, lengthscale: np.ndarray) -> np.ndarray:
        r = (to_array(Z[w])[:, None] - to_array(x)[None]) / lengthscale
        return scale * (1.0 + (r**2).sum(-1) / (2.0 * alpha)) ** -alpha

    start = expected(0, 1.0, 1.0, np.full(3, 0.7))
    np.testing.assert_allclose(to_array(kernel.Kuf(Z, x))[0], start, rtol=1e-6)
    lengthscale = torch.tensor([0.4, 0.9, 2.0] if ard else [0.4])
    second = kernel.kernels[1]
    second.outputscale, second.base_kernel.alpha = 1.7, torch.tensor(0.3)
    second.base_kernel.lengthscale = lengthscale
    np.testing.assert_allclose(
        to_array(kernel.variance[1] * kernel.Kuf(Z, x)[1]),
        expected(1, 1.7, 0.3, to_array(lengthscale)),
        rtol=1e-6,
    )
    assert kernel.lengthscale.shape == (2, 3 if ard else 1)


def test_which_names_are_on_the_fused_path() -> None:
    assert [name for name in NAMES if has_profile(name)] == [*PROFILES]
    assert has_profile("Matern-5/2")
    assert not has_profile("periodic")


@pytest.mark.parametrize("estimator", [SVGPRegressor, DSPPRegressor, ExactGPRegressor])
def test_a_spelling_makes_no_difference(estimator: type, rng: np.random.Generator) -> None:
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    for name, other in (("rbf", "squared_exponential"), ("rational_quadratic", "RQ")):
        one, two = (
            estimator(kernel=text, max_iter=2, random_state=0).fit(X, y) for text in (name, other)
        )
        assert one.loss_curve_ == two.loss_curve_
        assert two.kernel == other == clone(two).kernel


def test_rational_quadratic_is_learned(rng: np.random.Generator) -> None:
    """A function drawn from the kernel has more evidence under it than under its limit, the RBF."""
    X = np.sort(rng.uniform(-3.0, 3.0, (80, 1)), axis=0)
    K = (1.0 + (X - X.T) ** 2 / (2.0 * 0.2 * 0.2**2)) ** -0.2
    y = np.linalg.cholesky(K + 1e-4 * np.eye(80)) @ rng.standard_normal(80)
    losses = [
        ExactGPRegressor(kernel=name, random_state=0).fit(X, y).loss_curve_[-1]
        for name in ("rbf", "rational_quadratic")
    ]
    assert losses[1] < losses[0] - 0.05


def test_a_search_over_names(rng: np.random.Generator) -> None:
    X = rng.uniform(-3.0, 3.0, (60, 1))
    y = np.sign(X[:, 0]) + 0.05 * rng.standard_normal(60)  # rough: an RBF kernel overshoots
    grid = {"kernel": ["rbf", "matern-1/2", "rational_quadratic"]}
    search = GridSearchCV(ExactGPRegressor(random_state=0), grid, cv=3).fit(X, y)
    assert search.best_params_ == {"kernel": "matern-1/2"}


@pytest.mark.parametrize("estimator", [SVGPRegressor, DSPPRegressor, ExactGPRegressor])
def test_the_error_lists_all_names_in_order(estimator: type) -> None:
    listed = ", ".join(map(repr, NAMES))
    model = estimator(kernel="matern")
    with pytest.raises(ValueError, match=rf"{{{listed}}} \(others: pass gpytorch\.kernels\.Per"):
        model.fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(NotFittedError):
        model.predict([[0.0]])
