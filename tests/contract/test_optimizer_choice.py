"""`optimizer="natgrad"`: where it is refused, and what it is worth where it is not."""

from typing import Any

import numpy as np
import pytest
from contract_cases import Data
from sklearn.base import clone

from skgp import PPGPRRegressor, SVGPRegressor, VFITCRegressor
from skgp.core.layers.posteriors import NaturalPosterior
from skgp.core.training.run import Run

SMALL = {"n_inducing": 10, "max_iter": 3, "random_state": 0}
NOT_QUADRATIC = r"natgrad.* quadratic in u.*use optimizer='adam'"
NOT_FULL = r"natgrad.*covariance='full' or optimizer='adam', got covariance='{}'"
REFUSED = [
    pytest.param(PPGPRRegressor(**SMALL), NOT_QUADRATIC, id="ppgpr"),
    pytest.param(PPGPRRegressor(covariance="full", **SMALL), NOT_QUADRATIC, id="ppgpr-full"),
    pytest.param(SVGPRegressor(gamma=1.05, **SMALL), NOT_QUADRATIC, id="gamma"),
    *(
        pytest.param(cls(covariance=kind, **SMALL), NOT_FULL.format(kind), id=f"{name}-{kind}")
        for name, cls, kind in [
            ("svgp", SVGPRegressor, "diagonal"),
            ("svgp", SVGPRegressor, "delta"),
            ("vfitc", VFITCRegressor, "diagonal"),
        ]
    ),
]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(("model", "message"), REFUSED)
def test_natural_gradients_are_refused(model: Any, message: str, method: str, data: Data) -> None:
    model = clone(model).set_params(optimizer="natgrad")
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(data.X, data.y)
    assert not hasattr(model, "model_")


def test_they_are_refused_for_a_fitted_model_too(data: Data) -> None:
    model = PPGPRRegressor(warm_start=True, **SMALL).fit(data.X, data.y)
    model.set_params(optimizer="natgrad")
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=NOT_QUADRATIC):
            method(data.X, data.y)


@pytest.mark.parametrize("cls", [SVGPRegressor, VFITCRegressor])
@pytest.mark.parametrize("n_orthogonal", [0, 5])
def test_natural_gradients_move_a_natural_posterior(
    cls: Any, n_orthogonal: int, data: Data
) -> None:
    params = dict(SMALL)
    if cls is SVGPRegressor:
        params["n_orthogonal"] = n_orthogonal
    model = cls(optimizer="natgrad", **params).fit(data.X, data.y)
    assert isinstance(model.stack_.top.posterior, NaturalPosterior)
    adam = cls(optimizer="adam", **params).fit(data.X, data.y)
    assert not isinstance(adam.stack_.top.posterior, NaturalPosterior)


def wave(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (600, 1))
    return X, np.sin(3.0 * X[:, 0]) + 0.2 * rng.standard_normal(600)


def losses(model: Any, curve: int = -1) -> Any:
    """Last training losses on four tables."""
    return np.array([model.fit(*wave(seed)).loss_curve_[curve] for seed in range(4)])


def test_ten_epochs_are_worth_at_least_as_much_as_with_adam() -> None:
    """The same setting, four tables: never worse by more than three standard errors."""
    setting = {"n_inducing": 25, "max_iter": 10, "batch_size": 100, "random_state": 0}
    gain = losses(SVGPRegressor(optimizer="adam", **setting)) - losses(
        SVGPRegressor(optimizer="natgrad", **setting)
    )
    assert gain.mean() > -3.0 * gain.std(ddof=1) / np.sqrt(len(gain))


def test_the_noise_ends_where_the_bound_is_highest() -> None:
    """sigma^2 = E (y - f)^2 over q, whatever outlying gradients there were on the way.

    With this seed there are some: Adam that remembers a thousand steps ends 80 % above. A smaller
    jitter leaves less variance in f, and the noise would fall for hundreds of epochs.
    """
    rng = np.random.default_rng(2)
    X = rng.uniform(-2.0, 2.0, (1000, 2))
    y = np.sin(X[:, 0]) * X[:, 1]
    setting = {"kernel": "rbf", "n_inducing": 40, "batch_size": 50, "max_iter": 30, "jitter": 1e-4}
    model = SVGPRegressor(
        optimizer="natgrad", beta_reg=1.0, noise_floor=1e-8, random_state=2, **setting
    ).fit(X, y)
    latent = model.predict_latent(X)
    assert np.mean((y - latent.mean()) ** 2 + latent.std() ** 2) == pytest.approx(
        model.noise_variance_, rel=0.05
    )


@pytest.mark.parametrize("cls", [SVGPRegressor, VFITCRegressor])
@pytest.mark.parametrize("beta_reg", [4.0, 20.0])
def test_a_large_beta_reg_stays_stable(
    cls: Any, beta_reg: float, data: Data, monkeypatch: Any
) -> None:
    """A step multiplies the old precision by 1 - rho beta_reg, so rho has to be divided by it."""
    rollbacks = []
    monkeypatch.setattr(Run, "_restore", lambda self, state: rollbacks.append(self))
    setting = {**SMALL, "max_iter": 40, "beta_reg": beta_reg, "dtype": "float64"}
    natural = cls(optimizer="natgrad", **setting).fit(data.X, data.y)
    adam = cls(**setting).fit(data.X, data.y)
    assert not rollbacks
    assert natural.loss_curve_[-1] < adam.loss_curve_[-1] + 0.01
