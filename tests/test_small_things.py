"""What users of notebooks and type checkers meet."""

import importlib.metadata
import re
from email.message import Message
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgp
import skgp.compose
import skgp.estimators.baselines
from skgp.fitting.fit import check_device

ESTIMATORS = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (skgp, skgp.compose, skgp.estimators.baselines)
    for name in module.__all__
    if issubclass(type(getattr(module, name)), type)
    and issubclass(getattr(module, name), BaseEstimator)
}


def links(estimator: Any, monkeypatch: pytest.MonkeyPatch, **urls: str) -> set[str]:
    """Addresses in the HTML of an estimator of a package with these URLs in its metadata."""
    found = Message()
    for label, url in urls.items():
        found["Project-URL"] = f"{label}, {url}"
    monkeypatch.setattr(skgp._doc_links, "metadata", lambda _: found)
    return set(re.findall(r'href="([^"#]*)', estimator._repr_html_()))


@pytest.mark.parametrize("page", ESTIMATORS)
def test_html_links_to_our_pages_if_they_have_an_address(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page that the API reference generates, and no other one; `check_site` opens them."""
    kind = ESTIMATORS[page]
    estimator = kind(skgp.SVGPRegressor()) if "CrossFitted" in page else kind()
    assert links(estimator, monkeypatch) == set()
    assert links(estimator, monkeypatch, Source="https://x.org/code") == set()
    addresses = {"Source": "https://x.org/code", "Documentation": "https://x.org/skgp/"}
    found = links(estimator, monkeypatch, **addresses)
    inner = {"https://x.org/skgp/generated/skgp.SVGPRegressor.html"}
    assert found - inner == {f"https://x.org/skgp/generated/{page}.html"} - inner
    assert found


def test_no_links_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Message:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(skgp._doc_links, "metadata", missing)
    assert "href" not in skgp.SVGPRegressor()._repr_html_()


def test_device_auto_is_the_card_if_there_is_one(monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert check_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    asked = []
    monkeypatch.setattr(torch, "zeros", lambda *_, device, **__: asked.append(device) or _Like())
    check_device("auto")
    assert asked == ["cuda"]


@pytest.mark.parametrize(
    ("device", "reason"), [("gpu", "Expected one of cpu"), ("fpga", "Could not run")]
)
def test_a_device_that_is_not_there_gets_one_line(device: str, reason: str) -> None:
    message = rf"^device='{device}' is not available here: use 'cpu', .*'auto'.* \({reason}.*\)$"
    with pytest.raises(ValueError, match=message) as caught:
        skgp.SVGPRegressor(device=device).fit([[0.0], [1.0]], [0.0, 1.0])
    assert len(str(caught.value)) < 250


class _Like:
    device = torch.device("cpu")

    def item(self) -> float:
        return 0.0


def test_show_versions(capsys: pytest.CaptureFixture[str]) -> None:
    skgp.show_versions()
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["torch"] == importlib.metadata.version("torch")
    assert "threads of torch" in lines


@pytest.mark.parametrize("has_routing", [False, True])
def test_standard_deviations_through_a_pipeline_and_a_search(has_routing: bool) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = skgp.SVGPRegressor(max_iter=1, n_inducing=5, random_state=0)
    with config_context(enable_metadata_routing=has_routing):
        if has_routing:
            unaware = make_pipeline(StandardScaler(), model).fit(X, X[:, 0])
            with pytest.raises(UnsetMetadataPassedError, match="return_std"):
                unaware.predict(X, return_std=True)
            model.set_predict_request(return_std=True)
        pipe = make_pipeline(StandardScaler(), model).fit(X, X[:, 0])
        mean, std = pipe.predict(X, return_std=True)
        search = GridSearchCV(pipe, {"svgpregressor__n_inducing": [5]}, cv=2).fit(X, X[:, 0])
        with pytest.raises(TypeError, match="return_std"):
            search.predict(X, return_std=True)
    for fitted in (pipe, search):
        dist = skgp.predict_dist(fitted, X)
        np.testing.assert_array_equal(dist.mean(), mean)
        np.testing.assert_array_equal(dist.std(), std)


def test_means_and_intervals_of_mixed_outputs_need_no_joint_covariance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its factors take longer than all else of a prediction of many outputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = skgp.MOGPRegressor(n_inducing=5, max_iter=2, random_state=0).fit(
        X, np.column_stack([X, X])
    )
    dist = model.predict_dist(X)

    def refuse(cov: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a covariance over outputs was factorised")

    monkeypatch.setattr("skgp.fitting.predict.covariance_factor", refuse)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, dist.mean(), rtol=1e-12)
    np.testing.assert_allclose(std, dist.std(), rtol=1e-12)
    np.testing.assert_allclose(model.predict_quantiles(X, [0.3]), dist.ppf([0.3]), rtol=1e-9)
    np.testing.assert_allclose(model.predict_interval(X, 0.9), dist.interval(0.9), rtol=1e-9)
    with pytest.raises(AssertionError, match="factorised"):
        model.predict_dist(X)
