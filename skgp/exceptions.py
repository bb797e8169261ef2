"""Errors and warnings that skgp raises; each message carries the remedy."""

from textwrap import shorten

import numpy as np

__all__ = [
    "CheckpointWarning",
    "CompilationWarning",
    "FitQualityWarning",
    "InterruptedFitWarning",
    "InvalidFileError",
    "NonFiniteLossError",
    "NotPositiveDefiniteError",
    "OutlierWarning",
]


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A kernel matrix has no Cholesky factor, even with the largest jitter that was tried."""


class NonFiniteLossError(ArithmeticError):
    """The training loss stayed NaN or infinite after every attempt to heal the fit."""


class CheckpointWarning(UserWarning):
    """A checkpoint cannot be written or read; the fit goes on, or starts, without it."""


class CompilationWarning(UserWarning):
    """`torch.compile` failed; the fit goes on without it, more slowly and with the same result."""


class FitQualityWarning(UserWarning):
    """A fit has ended, but its predictions should not be trusted as they are."""


class InvalidFileError(ValueError):
    """A file that `skgp.load` refuses; nothing in it has been run."""


class InterruptedFitWarning(UserWarning):
    """A fit was interrupted; the estimator holds the state of its last completed epoch."""


class OutlierWarning(UserWarning):
    """Rows lie far outside of those from which a model that goes on has its scales."""


def brief(error: BaseException) -> str:
    """The text of an error of others in a part of a line: some have pages."""
    return shorten(str(error), 60, placeholder=" ...")
