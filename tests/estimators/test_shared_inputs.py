"""Numbers of inducing inputs for each layer, and GPs that share kernel and inducing inputs."""

from typing import Any

import numpy as np
import pytest
import torch
from deep_problem import DGP, DSPP, make_table
from oracles.models import to_array

from skgp import (
    DGPClassifier,
    DGPRegressor,
    DSPPClassifier,
    DSPPRegressor,
    GPRNRegressor,
    IWDGPRegressor,
    MOGPEmbedding,
    MOGPRegressor,
    NeuralDGPRegressor,
    NeuralMOGPRegressor,
    PPGPRRegressor,
    SVGPRegressor,
    VFITCRegressor,
)
from skgp.estimators.baselines import SGHMCDGPRegressor

pytestmark = pytest.mark.usefixtures("short_start")

SMALL = {"n_inducing": 8, "max_iter": 3, "random_state": 0}
# With two layers of GPs.
DEEP = (
    DGPRegressor,
    DSPPRegressor,
    NeuralDGPRegressor,
    IWDGPRegressor,
    SGHMCDGPRegressor,
    DGPClassifier,
    DSPPClassifier,
)
# One layer, with two functions for the two outputs of the table.
ONE_LAYER = {
    "svgp": (SVGPRegressor, {}),
    "svgp-natgrad": (SVGPRegressor, {"optimizer": "natgrad"}),
    "svgp-delta": (SVGPRegressor, {"covariance": "delta"}),
    "vfitc": (VFITCRegressor, {"covariance": "diagonal"}),
    "ppgpr": (PPGPRRegressor, {"early_stopping": False}),
    "mogp": (MOGPRegressor, {"n_latents": 2}),
    "gprn": (GPRNRegressor, {"n_latents": 2}),
    "neural-mogp": (NeuralMOGPRegressor, {"n_latents": 2}),
    "iwdgp": (IWDGPRegressor, {"architecture": "LV-GP"}),
}


@pytest.fixture
def table(rng: np.random.Generator) -> Any:
    return make_table(rng)


# ---------------------------------------------------------- a number for each layer


@pytest.mark.parametrize("cls", DEEP)
@pytest.mark.parametrize("numbers", [[9, 4], (4, 9)])
def test_numbers_go_from_the_inputs_upwards(cls: Any, numbers: Any, table: Any) -> None:
    X, Y, *_ = table
    y = Y[:, 0] > np.median(Y[:, 0]) if cls in (DGPClassifier, DSPPClassifier) else Y[:, 0]
    layers = cls(n_inducing=numbers, max_iter=1, random_state=0).fit(X, y).stack_.layers
    assert [layer.Z.shape[-2] for layer in layers] == list(numbers)


def test_equal_numbers_are_one_number(table: Any) -> None:
    X, Y, X_new, _ = table
    one, each = (DGPRegressor(**{**DGP, "n_inducing": m}).fit(X, Y) for m in (8, [8, 8]))
    np.testing.assert_array_equal(each.predict(X_new), one.predict(X_new))


def test_layers_between_covariates_have_numbers_of_their_own(table: Any) -> None:
    X, Y, *_ = table
    model = IWDGPRegressor(
        architecture="GP-LV-GP-LV-GP", n_inducing=(3, 5, 7), max_iter=1, random_state=0
    )
    layers = model.fit(X, Y[:, 0]).stack_.layers
    assert [layer.Z.shape[-2] for layer in layers] == [3, 5, 7]


@pytest.mark.parametrize("numbers", [[8], [8, 8, 8]])
def test_a_number_is_needed_for_each_layer(numbers: list[int], table: Any) -> None:
    X, Y, *_ = table
    with pytest.raises(ValueError, match=f"n_inducing has a length of {len(numbers)} for 2 layers"):
        DGPRegressor(n_inducing=numbers).fit(X, Y)


def test_a_stream_goes_on_with_numbers_of_layers(table: Any) -> None:
    X, Y, X_new, _ = table
    model = DGPRegressor(**{**DGP, "n_inducing": [6, 4]}).partial_fit(X[:20], Y[:20])
    model.partial_fit(X[20:], Y[20:])
    assert [layer.Z.shape[-2] for layer in model.stack_.layers] == [6, 4]
    assert np.isfinite(model.predict(X_new)).all()


# ---------------------------------------------------------- shared kernels


def expanded(shared: Any, apart: Any) -> None:
    """Give a model of a kernel for each GP the parameters of one whose GPs share it."""
    with torch.no_grad():
        for (name, own), (_, common) in zip(
            apart.model_.named_parameters(), shared.model_.named_parameters(), strict=True
        ):
            assert own.shape[1:] == common.shape[1:], name
            own.copy_(common.expand_as(own))


@pytest.mark.parametrize("name", ONE_LAYER)
def test_a_shared_kernel_is_equal_kernels(name: str, table: Any) -> None:
    X, Y, X_new, Y_new = table
    cls, params = ONE_LAYER[name]
    shared, apart = (
        cls(**SMALL, **params, share_kernel=shares).fit(X, Y) for shares in (True, False)
    )
    assert len(shared.stack_.bottom.Z) == 1
    assert len(apart.stack_.bottom.Z) == 2
    expanded(shared, apart)
    assert_equal_predictions(shared, apart, X_new, Y_new)


@pytest.mark.parametrize(
    ("cls", "params"),
    [
        (DGPRegressor, DGP),
        (DGPRegressor, {**DGP, "n_layers": 3, "topology": "skip-all", "covariance": "diagonal"}),
        (DSPPRegressor, DSPP),
        (NeuralDGPRegressor, {**SMALL, "width": 2}),
        (SGHMCDGPRegressor, {**SMALL, "width": 2}),
    ],
)
def test_layers_share_kernels_of_their_own(cls: Any, params: Any, table: Any) -> None:
    X, Y, X_new, Y_new = table
    shared, apart = (cls(**params, share_kernel=shares).fit(X, Y) for shares in (True, False))
    assert [len(layer.Z) for layer in shared.stack_.layers] == [1] * len(shared.stack_.layers)
    assert all(len(layer.Z) == 2 for layer in apart.stack_.layers)
    expanded(shared, apart)
    if cls is SGHMCDGPRegressor:  # predictions are those of the positions that were kept
        apart.model_.source.chain.load_state_dict(shared.model_.source.chain.state_dict())
    assert_equal_predictions(shared, apart, X_new, Y_new)


def assert_equal_predictions(shared: Any, apart: Any, X: Any, Y: Any) -> None:
    divergences = [model.stack_.kl(model.stack_.factors()).item() for model in (shared, apart)]
    np.testing.assert_allclose(*divergences, rtol=1e-8)
    dists = [model.predict_dist(X) for model in (shared, apart)]
    np.testing.assert_allclose(dists[0].mean(), dists[1].mean(), rtol=1e-8)
    np.testing.assert_allclose(dists[0].std(), dists[1].std(), rtol=1e-6)
    np.testing.assert_allclose(dists[0].joint_logpdf(Y), dists[1].joint_logpdf(Y), rtol=1e-5)


@pytest.mark.parametrize(
    ("cls", "params"), [(SVGPRegressor, {}), (VFITCRegressor, {"max_iter": 20})]
)
def test_one_gp_shares_with_itself(cls: Any, params: Any, table: Any) -> None:
    """The optimum of the bound is that without sharing, and so is a fit by minibatches."""
    X, Y, X_new, _ = table
    fits = [
        cls(n_inducing=8, random_state=0, **params, share_kernel=shares).fit(X, Y[:, 0])
        for shares in (True, False)
    ]
    np.testing.assert_allclose(fits[0].predict(X_new), fits[1].predict(X_new), rtol=1e-6)
    assert fits[0].lengthscales_.shape == fits[1].lengthscales_.shape == (3,)


def test_five_outputs_share_if_they_may_choose(table: Any) -> None:
    X, Y, *_ = table
    Y = np.hstack([Y, Y, Y[:, :1]])
    for n_outputs, n_kernels in ((4, 4), (5, 1)):
        model = SVGPRegressor(**SMALL, share_kernel="auto").fit(X, Y[:, :n_outputs])
        assert len(model.stack_.top.Z) == n_kernels
        assert model.stack_.top.mean.shape == (n_outputs,)


def test_latent_functions_of_an_embedding_share(table: Any) -> None:
    X, *_ = table
    model = MOGPEmbedding(n_components=2, share_kernel=True, **SMALL).fit(X)
    assert len(model.stack_.top.Z) == 1
    assert model.inducing_points_.shape == (8, 2)


def test_functions_drawn_from_a_shared_layer(table: Any) -> None:
    """Draws of two outputs with one kernel are as alike as their joint distribution says."""
    X, Y, X_new, _ = table
    model = SVGPRegressor(**SMALL, share_kernel=True).fit(X, Y)
    draws = model.sample_functions(1000)(X_new[:3])  # (3, 2, 1000)
    cov = np.stack([np.cov(draws[:, p]) for p in range(2)], -1)
    latent = model.predict_latent(X_new[:3])
    error = np.abs(np.diagonal(cov).T / latent.std() ** 2 - 1.0)
    assert error.max() < 4.0 * np.sqrt(2.0 / 1000)


def test_two_sets_of_inducing_inputs_are_not_shared(table: Any) -> None:
    X, Y, *_ = table
    with pytest.raises(ValueError, match=r"share_kernel=True.*n_orthogonal=3"):
        SVGPRegressor(share_kernel=True, n_orthogonal=3).fit(X, Y)
    with pytest.raises(ValueError, match=r"share_kernel='auto'.*decoupled"):
        PPGPRRegressor(share_kernel="auto", covariance="decoupled").fit(X, Y)


def test_parameters_of_a_shared_kernel_are_fewer(table: Any) -> None:
    X, Y, *_ = table
    sizes = [
        sum(p.numel() for p in DGPRegressor(**DGP, share_kernel=s).fit(X, Y).stack_.parameters())
        for s in (True, False)
    ]
    # Two layers: a variance, a lengthscale for each input, and inducing inputs, once less each.
    assert sizes[1] - sizes[0] == (1 + 3 + 8 * 3) + (1 + 2 + 8 * 2)


def test_kernels_of_a_fit_are_those_of_the_stack(table: Any) -> None:
    X, Y, *_ = table
    model = DGPRegressor(**DGP, share_kernel=True).fit(X, Y)
    scale = X.std(0)
    own = to_array(model.stack_.bottom.kernel.lengthscale)[0]
    np.testing.assert_allclose(model.lengthscales_, own * scale, rtol=1e-10)
