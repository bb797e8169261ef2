"""What users of notebooks and type checkers meet."""

import importlib.metadata
from typing import Any

import pytest
import torch

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
