"""The record of a fit."""

import math
from dataclasses import dataclass, field


@dataclass
class History:
    """Record of a fit.

    Attributes
    ----------
    loss_curve : list of float
        Mean training loss of each epoch, nats per row.
    validation_scores : list of float
        Mean validation log density after each epoch.
    interrupted : bool
        Whether KeyboardInterrupt ended the fit.
    stopped : bool
        Whether a callback ended it.
    first_loss : float
        Training loss of the first step, before it.
    """

    loss_curve: list[float] = field(default_factory=list)
    validation_scores: list[float] = field(default_factory=list)
    interrupted: bool = False
    stopped: bool = False
    first_loss: float = math.inf

    def then(self, later: "History") -> "History":
        """The record of a fit in two parts."""
        losses = self.loss_curve + later.loss_curve
        scores = self.validation_scores + later.validation_scores
        return History(losses, scores, later.interrupted, later.stopped, self.first_loss)
