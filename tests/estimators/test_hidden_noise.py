"""Deep estimators whose hidden functions are noisy."""

import numpy as np
import pytest
from deep_problem import DGP, DSPP, make_table

from skgp import DGPRegressor, DSPPRegressor, NeuralDGPRegressor
from skgp.core.kernels.noisy import NoisyKernel


@pytest.mark.parametrize(("cls", "params"), [(DGPRegressor, DGP), (DSPPRegressor, DSPP)])
def test_noise_of_each_hidden_layer_is_learned(cls, params, rng):
    X, Y, X_new, _ = make_table(rng)
    noisy = cls(**{**params, "n_layers": 3, "hidden_noise": True}).fit(X, Y[:, 0])
    *hidden, top = [layer.kernel for layer in noisy.stack_.layers]
    assert all(isinstance(kernel, NoisyKernel) for kernel in hidden)
    assert not isinstance(top, NoisyKernel)
    noise = [kernel.noise_var.item() for kernel in hidden]
    assert all(0.5e-5 < value < 2e-5 and abs(value / 1e-5 - 1.0) > 1e-3 for value in noise)
    plain = cls(**{**params, "n_layers": 3}).fit(X, Y[:, 0])
    assert not any(isinstance(layer.kernel, NoisyKernel) for layer in plain.stack_.layers)
    assert noisy.lengthscales_.shape == plain.lengthscales_.shape
    # So little noise, after so few steps, hardly changes the model.
    np.testing.assert_allclose(noisy.predict(X_new), plain.predict(X_new), rtol=0.02)


def test_large_noise_widens_the_predictions_of_hidden_functions(rng):
    X, Y, X_new, _ = make_table(rng)
    model = DGPRegressor(**{**DGP, "n_prediction_samples": 64, "hidden_noise": True})
    model.fit(X, Y[:, 0])
    before = model.predict_dist(X_new).components().mean.std(1)
    model.stack_.layers[0].kernel.log_noise.data.fill_(np.log(0.5))
    after = model.predict_dist(X_new).components().mean.std(1)
    assert (after > 1.5 * before).all()


def test_noisy_functions_are_not_drawn(rng):
    X, Y, X_new, _ = make_table(rng)
    model = DGPRegressor(**DGP, hidden_noise=True).fit(X, Y[:, 0])
    with pytest.raises(NotImplementedError, match="hidden_noise=False"):
        model.predict(X_new, return_cov=True)
    with pytest.raises(NotImplementedError, match="hidden_noise=False"):
        model.sample_functions(2)


def test_readouts_have_it_too(rng):
    X, Y, X_new, Y_new = make_table(rng)
    params = {**DGP, "hidden_noise": True}
    model = NeuralDGPRegressor(**params).fit(X, Y)
    assert isinstance(model.stack_.bottom.kernel, NoisyKernel)
    assert np.isfinite(model.predict_dist(X_new).joint_logpdf(Y_new)).all()
