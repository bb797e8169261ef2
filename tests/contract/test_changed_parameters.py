"""What a fit has learned stays as it is when parameters change after it."""

from typing import Any

import numpy as np
import pytest
from contract_cases import (
    CLASSIFIERS,
    EMBEDDINGS,
    GP_REGRESSORS,
    REPRESENTATIVES,
    Case,
    Data,
    make_labels,
)
from sklearn.base import is_classifier
from torch import nn

from skgp import DGPClassifier, IWDGPRegressor, SVGPRegressor

pytestmark = pytest.mark.usefixtures("short_start")
CASES = [
    *GP_REGRESSORS,
    *CLASSIFIERS,
    *EMBEDDINGS,
    Case("svgp-network", SVGPRegressor, {"feature_extractor": [5, 2]}),
    Case("svgp-identity", SVGPRegressor, {"feature_extractor": lambda n_features: nn.Identity()}),
    Case("iwdgp-one", IWDGPRegressor, {"architecture": "LV-GP", "n_prediction_samples": 8}),
    Case("dgp-several", DGPClassifier, {"n_samples": 2, "n_prediction_samples": 4}),
]
QUICK = [*REPRESENTATIVES, *CLASSIFIERS, *EMBEDDINGS[:1], *CASES[-4:]]
CHANGES: dict[str, list[Any]] = {
    "feature_extractor": [[3], None],
    "n_layers": [1, 3],
    "architecture": ["GP", "GP-GP"],
    "share_kernel": [True, False],
    "input_warping": [True, False],
    "hidden_noise": [True],
    "dropout": [0.5],
    "prior_mean": ["zero"],
    "initial_noise": [0.5],
    "likelihood": ["robust-max"],
    "normalize_X": [False],
    "normalize_y": [False],
    "noise_floor": [1.0],
    "n_latents": [1],
    "n_samples": [1],
    "n_prediction_samples": [1],
    "n_inducing": [1],
    "n_sites": [1],
    "quadrature": ["gauss-hermite"],
    "width": [1],
    "latent_dim": [3],
    "class_weight": ["balanced"],
    "gamma": [1.05],
    "renyi_order": [0.5],
    "gradient": ["doubly_reparameterized"],
    "batch_size": [1],
    "device": ["abacus"],
    "dtype": ["float32"],
}


def learned(model: Any, X: Any) -> dict[str, Any]:
    """All public attributes that hold numbers, and predictions."""
    names = [n for n in {*dir(type(model)), *vars(model)} if n[-1] == "_" and n[0] != "_"]
    names = [n for n in names if n not in ("model_", "stack_") and hasattr(model, n)]
    found = {n: getattr(model, n) for n in names}
    if hasattr(model, "transform"):
        return found | {
            "transform": model.transform(X),
            "predict": model.predict_dist(X[:, :2]).std(),
        }
    if is_classifier(model):
        latent = model.latent_mean_and_variance(X)
        return found | {"predict": model.predict_proba(X), "latent": np.stack(latent)}
    return found | {
        "predict": model.predict(X, return_std=True),
        "f": model.predict_latent(X).std(),
    }


def test_attributes_are_those_of_the_fit(case: Case) -> None:
    data = make_labels(30)
    model = case.make(**case.known({"max_iter": 1, "n_inducing": 6}))
    if hasattr(model, "transform"):
        model.fit(data.X)
    else:
        model.fit(data.X, data.y if is_classifier(model) else data.X[:, 0])
    desired = learned(model, data.X_new)
    assert {"lengthscales_", "loss_curve_"} <= set(desired)
    for name, values in case.known(CHANGES).items():
        for value in values:
            model.set_params(**{name: value})
            found = learned(model, data.X_new)
            assert found.keys() == desired.keys()
            for attribute, expected in desired.items():
                np.testing.assert_equal(found[attribute], expected, f"{attribute}, {name}={value}")


@pytest.mark.only(CASES[:1])
def test_a_network_that_is_the_identity_has_units_of_its_own(case: Case) -> None:
    """Features have those of scaled inputs, whatever the network is; inputs have those of X."""
    data: Data = make_labels(30)
    plain, network = (
        case.make(max_iter=1, feature_extractor=f).fit(data.X, data.X[:, 0])
        for f in (None, lambda n_features: nn.Identity())
    )
    unit = data.X.std(0)
    np.testing.assert_allclose(plain.lengthscales_, network.lengthscales_ * unit, rtol=1e-12)
    Z = network.inducing_points_ * unit + data.X.mean(0)
    np.testing.assert_allclose(plain.inducing_points_, Z, rtol=1e-12)
