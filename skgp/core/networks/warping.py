"""Skewed columns of the inputs, made about symmetric."""

import math
from typing import Final

import torch
from torch import Tensor, nn

_POWERS: Final = torch.arange(-30, 11, dtype=torch.float64) / 10.0  # among which one is chosen
_LEAST_GAIN: Final = 0.1  # nats per row of a normal density, for a column to count as skewed
_LEAST_VALUES: Final = 3  # distinct ones: no transform changes the shape of fewer


class InputWarp(nn.Module):
    """Box-Cox transforms of how far columns are from the near end of their range.

    z = sign (x - end) / reach, h(z) = ((1 + z)^power - 1) / power for 0 <= z <= far, and
    x -> sign (h(z) - centre) / unit (Box and Cox 1964). Below zero and beyond the farthest row h
    goes on as a line: a negative power alone is bounded, and rows far outside would look like the
    farthest one. Columns with a power of one stay as they are, to the last bit.

    Parameters
    ----------
    power, sign, end, reach, far, centre, unit : Tensor of shape (D,)
    """

    power: Tensor
    sign: Tensor
    end: Tensor
    reach: Tensor
    far: Tensor
    centre: Tensor
    unit: Tensor

    def __init__(
        self,
        power: Tensor,
        sign: Tensor,
        end: Tensor,
        reach: Tensor,
        far: Tensor,
        centre: Tensor,
        unit: Tensor,
    ) -> None:
        super().__init__()
        self.register_buffer("power", power)
        self.register_buffer("sign", sign)
        self.register_buffer("end", end)
        self.register_buffer("reach", reach)
        self.register_buffer("far", far)
        self.register_buffer("centre", centre)
        self.register_buffer("unit", unit)

    @property
    def is_linear(self) -> Tensor:
        """Which columns stay as they are, (D,)."""
        return self.power == 1.0

    def forward(self, x: Tensor) -> Tensor:
        z = self.sign * (x - self.end) / self.reach
        inside = torch.minimum(z, self._farthest)
        h = box_cox(inside, self.power) + self._slope(self._farthest) * (z - inside)
        return torch.where(self.is_linear, x, self.sign * (h - self.centre) / self.unit)

    def inverse(self, h: Tensor) -> Tensor:
        """Inputs (n, D) of features."""
        value = self.sign * h * self.unit + self.centre
        inside = torch.minimum(value, box_cox(self._farthest, self.power))
        straight = torch.where(self.power == 0.0, 1.0, self.power)
        log = torch.where(self.power == 0.0, inside, (self.power * inside).log1p() / straight)
        z = torch.where(inside > 0.0, log.expm1(), inside)
        outside = (value - inside) / self._slope(self._farthest)
        z = z + torch.where(value > inside, outside, 0.0)
        return torch.where(self.is_linear, h, self.sign * self.reach * z + self.end)

    def slope(self) -> Tensor:
        """d h / d x of each column where x is zero, the mean of the rows; (D,)."""
        z = (-self.sign * self.end).clamp_min(0.0) / self.reach
        slope = self._slope(z) / (self.reach * self.unit)
        return torch.where(self.is_linear, 1.0, slope)

    @property
    def _farthest(self) -> Tensor:
        """`far`, which files of earlier versions do not say."""
        return self.far if "far" in self._buffers else torch.full_like(self.reach, math.inf)

    def _slope(self, z: Tensor) -> Tensor:
        """d h / d z within the range."""
        return ((self.power - 1.0) * z.log1p()).exp()


def box_cox(z: Tensor, power: Tensor) -> Tensor:
    """((1 + z)^power - 1) / power, its limit log(1 + z) where the power is zero, and z below 0."""
    log = z.clamp_min(0.0).log1p()
    straight = torch.where(power == 0.0, 1.0, power)
    value = torch.where(power == 0.0, log, (power * log).expm1() / straight)
    return torch.where(z > 0.0, value, z)


def skewed_columns(x: Tensor, weight: Tensor) -> InputWarp | None:
    """Transforms of the columns whose shape they bring far closer to a normal one.

    The power of a column maximises the normal likelihood of the transformed rows, which is the mean
    of -log(var h) / 2 + (power - 1) log(1 + z) over them; it stays one if that gains little.

    Parameters
    ----------
    x : Tensor of shape (n, D)
        Inputs of about zero mean and unit variance, float64.
    weight : Tensor of shape (n,)
        Weights of the rows.

    Returns
    -------
    InputWarp or None
        None if no column is skewed.
    """
    share = weight / weight.sum()
    centred = x - share @ x
    sign = torch.where(share @ centred.pow(3) < 0.0, -1.0, 1.0).to(x)
    end = sign * (sign * x).amin(0)
    z = sign * (x - end)
    reach = (share @ z).clamp_min(torch.finfo(x.dtype).eps)
    z = z / reach
    mean_log = share @ z.log1p()
    least = torch.finfo(x.dtype).tiny

    def moments(power: Tensor) -> tuple[Tensor, Tensor]:
        h = box_cox(z, power)
        mean = share @ h
        return mean, share @ (h - mean).square()

    scores = torch.stack(
        [
            -0.5 * moments(power)[1].clamp_min(least).log() + (power - 1.0) * mean_log
            for power in _POWERS
        ]
    )
    best = scores.max(0)
    gain = best.values - scores[-1]  # the last power is one
    n_distinct = 1 + (x.sort(0).values.diff(dim=0) > 0.0).sum(0)
    is_skewed = (gain > _LEAST_GAIN) & (n_distinct >= _LEAST_VALUES)
    if not is_skewed.any():
        return None
    power = torch.where(is_skewed, _POWERS[best.indices], 1.0)
    mean, var = moments(power)
    return InputWarp(power, sign, end, reach, z.amax(0), mean, var.clamp_min(least).sqrt())
