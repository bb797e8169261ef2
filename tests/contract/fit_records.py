"""Comparisons of fits."""

from typing import Any

import torch


def assert_same(actual: Any, desired: Any) -> None:
    """Bit for bit: all that is learned, and the records of the fit."""
    for name in ("loss_curve_", "validation_scores_", "n_iter_"):
        assert getattr(actual, name) == getattr(desired, name)
    assert actual.model_.n_steps == desired.model_.n_steps
    a, b = actual.model_.state_dict(), desired.model_.state_dict()
    assert a.keys() == b.keys()
    for name, value in b.items():
        assert torch.equal(a[name], value), name
