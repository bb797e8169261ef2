"""Rows of the training data, as the losses see them."""

from typing import NamedTuple

from torch import Tensor


class Targets(NamedTuple):
    """Observed outputs of a batch.

    Attributes
    ----------
    y : Tensor of shape (B, P)
        Values; zero where missing.
    mask : Tensor of shape (B, P) or None
        One where observed, zero where missing; None if nothing is missing.
    """

    y: Tensor
    mask: Tensor | None


class Batch(NamedTuple):
    """Rows of the training data.

    Attributes
    ----------
    x : Tensor of shape (B, D)
    targets : Targets
    weight : Tensor of shape (B,) or None
        Row weights with mean one over the training data; None if all are equal.
    rows : Tensor of shape (B,) or None
        Numbers of the rows in the table; None where nothing depends on them.
    known_noise : Tensor of shape (B, P) or None
        Variances of noise that the targets have beside the learned one, zero where missing; None if
        there is none.
    """

    x: Tensor
    targets: Targets
    weight: Tensor | None
    rows: Tensor | None = None
    known_noise: Tensor | None = None
