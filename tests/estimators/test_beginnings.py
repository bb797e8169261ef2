"""Where noise and kernel start, and the prior mean, as constructor parameters."""

import gpytorch
import numpy as np
import pytest
from deep_problem import make_table

from skgp import (
    DGPRegressor,
    DSPPRegressor,
    IWDGPRegressor,
    PPGPRRegressor,
    SVGPRegressor,
    VFITCRegressor,
)

FAMILIES = [
    SVGPRegressor,
    VFITCRegressor,
    PPGPRRegressor,
    DGPRegressor,
    DSPPRegressor,
    IWDGPRegressor,
]
# One step too small to move anything.
STILL = {"max_iter": 1, "learning_rate_init": 1e-12, "n_inducing": 8, "random_state": 0}
STILL |= {"early_stopping": False}


@pytest.mark.parametrize("cls", FAMILIES)
@pytest.mark.parametrize("batch_size", [1000, 10])
def test_noise_and_kernel_start_where_they_are_told(cls, batch_size, rng):
    """Doubly stochastic paper: variances and lengthscales of two, a noise of 0.01."""
    X, Y, *_ = make_table(rng)
    rbf = gpytorch.kernels.RBFKernel()
    kernel = gpytorch.kernels.ScaleKernel(rbf)
    kernel.outputscale, rbf.lengthscale = 2.0, 2.0
    optimizer = {"optimizer": "adam"} if hasattr(cls(), "optimizer") else {}
    params = {**STILL, **optimizer, "batch_size": batch_size, "initial_noise": 0.01}
    model = cls(kernel=kernel, **params).fit(X, Y[:, 0])
    assert model.noise_variance_ / Y[:, 0].var() == pytest.approx(0.01, rel=1e-4)
    for layer in model.stack_.layers:
        (copied,) = {k.outputscale.item() for k in layer.kernel.kernels}
        assert copied == pytest.approx(2.0, rel=1e-4)
        assert layer.kernel.lengthscale.detach().numpy() == pytest.approx(2.0, rel=1e-4)
    named = cls(kernel="rbf", **params).fit(X, Y[:, 0]).stack_.bottom.kernel
    assert named.variance.detach().numpy() == pytest.approx(1.0, rel=1e-4)
    assert named.lengthscale.detach().numpy() == pytest.approx(np.sqrt(3.0), rel=0.5)


@pytest.mark.parametrize("cls", FAMILIES)
def test_a_prior_mean_of_zero_is_not_learned(cls, rng):
    X, Y, *_ = make_table(rng)
    params = {**STILL, "max_iter": 3, "learning_rate_init": 0.03}
    zero = cls(prior_mean="zero", **params).fit(X, Y[:, 0])
    learned = cls(**params).fit(X, Y[:, 0])
    for of_zero, of_learned in zip(zero.stack_.layers, learned.stack_.layers, strict=True):
        assert not of_zero.mean.requires_grad
        assert of_zero.mean.abs().max().item() == 0.0
        assert of_learned.mean.abs().max().item() > 0.0


def test_far_from_the_rows_a_prior_mean_of_zero_is_that_of_y(rng):
    """SVGP at the optimum of a short table; zero in units of the model is the mean of y."""
    X, Y, *_ = make_table(rng)
    model = SVGPRegressor(prior_mean="zero", random_state=0).fit(X, Y[:, 0])
    assert model.predict(X + 1e6)[0] == pytest.approx(Y[:, 0].mean(), rel=1e-9)
    assert SVGPRegressor(random_state=0).fit(X, Y[:, 0]).predict(X + 1e6)[0] != pytest.approx(
        Y[:, 0].mean(), rel=1e-9
    )


@pytest.mark.parametrize("params", [{"initial_noise": 0.1}, {"prior_mean": "zero"}])
def test_other_likelihoods_start_by_themselves(params, rng):
    X, Y, *_ = make_table(rng)
    (name,) = params
    with pytest.raises(ValueError, match=f"{name}=.*likelihood='normal'"):
        SVGPRegressor(likelihood="student_t", **params).fit(X, Y[:, 0])
