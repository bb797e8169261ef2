"""What users of notebooks and type checkers meet."""

import importlib.metadata
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgp
from skgp.fitting.fit import check_device


def test_links_of_the_html_representation_do_not_lead_to_scikit_learn() -> None:
    html = skgp.SVGPRegressor()._repr_html_()
    assert "https://scikit-learn.org" not in html


def test_device_auto_is_the_card_if_there_is_one(monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert check_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    asked = []
    monkeypatch.setattr(torch, "zeros", lambda *_, device, **__: asked.append(device) or _Like())
    check_device("auto")
    assert asked == ["cuda"]


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
