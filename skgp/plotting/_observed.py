"""The observed targets of one output."""

from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgp._typing import FloatArray
from skgp.distributions import ContinuousDistribution
from skgp.scoring._calibration import share_of_jump
from skgp.scoring._reduce import check_distribution, check_targets, refuse_nan


@final
@dataclass(frozen=True)
class Observed:
    """Which of n rows have an observed target of the chosen output.

    Attributes
    ----------
    seen : ndarray of bool of shape (n, P)
    output : int
    """

    seen: NDArray[np.bool_]
    output: int

    @classmethod
    def check(
        cls, y_true: ArrayLike, dist: ContinuousDistribution, output: int | str | None
    ) -> Self:
        """Check the targets against the distribution, and the choice of the output."""
        y = check_targets(y_true, dist, None).y
        return cls(~np.isnan(y).reshape(len(y), -1), check_output(output, dist))

    def select(self, values: ArrayLike) -> FloatArray:
        """The chosen output in the m observed rows, (m,), of values of shape (n,) or (n, P).

        Where an entry is a pair of values, the last axis is that of the pair.
        """
        entries = np.asarray(values, dtype=np.float64).reshape(*self.seen.shape, -1)
        refuse_nan(np.where(self.seen, entries[..., -1], 0.0))
        chosen = entries[self.seen[:, self.output], self.output]
        return chosen[:, 0] if chosen.shape[1] == 1 else chosen


def check_output(output: int | str | None, dist: ContinuousDistribution) -> int:
    """The output to draw: it must be named if there are several."""
    check_distribution(dist)
    n_outputs = 1 if len(dist.shape) == 1 else dist.shape[1]
    names = list(dist.output_names or ())
    if isinstance(output, str):
        if output not in names:
            raise ValueError(f"output={output!r} is no name of an output: they have {names}.")
        return names.index(output)
    if output is None and n_outputs > 1:
        raise ValueError(
            f"The distribution has {n_outputs} outputs: choose one by output=0 to "
            f"output={n_outputs - 1}{', or by its name out of ' + str(names) if names else ''}."
        )
    chosen = 0 if output is None else output
    if not 0 <= chosen < n_outputs:
        raise ValueError(
            f"output={output} is not an output of the distribution: it has {n_outputs}, counted "
            "from 0."
        )
    return chosen


def output_name(output: int | str | None, dist: ContinuousDistribution) -> str:
    """What to write on the axis of the chosen output."""
    names = dist.output_names
    return "y" if names is None else names[check_output(output, dist)]


def select_output(values: FloatArray, output: int) -> FloatArray:
    """Column (n,) of values of shape (n,) or (n, P)."""
    column: FloatArray = values.reshape(len(values), -1)[:, output]
    return column


def observed_shares(pit: FloatArray, levels: FloatArray) -> FloatArray:
    """Share of the outcomes below each level of their cdf, by PIT values (m,) or ends (m, 2)."""
    below, up_to = (pit, pit) if pit.ndim == 1 else pit.T
    shares: FloatArray = share_of_jump(levels, below[:, None], up_to[:, None]).mean(axis=0)
    return shares
