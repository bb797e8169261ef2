"""The user's units of inputs and outputs, for tensors with gradients."""

import torch
from torch import Tensor

from skgp.fitting.table import FAR, Scale


class TensorScales:
    """Scales of inputs and outputs as tensors.

    Parameters
    ----------
    x_scale, y_scale : Scale
    like : Tensor
        Of the dtype and on the device of the model.
    """

    def __init__(self, x_scale: Scale, y_scale: Scale, like: Tensor) -> None:
        self.x_offset, self.x_unit = _tensors(x_scale, like)
        self.y_offset, self.y_unit = _tensors(y_scale, like)

    @property
    def n_inputs(self) -> int:
        """Number D of columns of X."""
        return len(self.x_unit)

    def scaled(self, x: Tensor) -> Tensor:
        """Inputs (..., n, D) in the units of the model.

        Raises
        ------
        ValueError
            If x has another number of columns, no rows, or an infinite number.
        """
        if x.dim() < 2 or x.shape[-1] != self.n_inputs or not x.numel():
            raise ValueError(
                f"x has the shape {tuple(x.shape)}, and the functions take one row or more of "
                f"{self.n_inputs} columns"
            )
        if x.isinf().any():
            raise ValueError("x holds infinity: replace it by a large number, or drop these rows")
        return ((x.to(self.x_unit) - self.x_offset) / self.x_unit).clamp(-FAR, FAR)

    def outputs(self, values: Tensor) -> Tensor:
        """Outputs (..., P) in the user's units."""
        return values * self.y_unit + self.y_offset


def _tensors(scale: Scale, like: Tensor) -> tuple[Tensor, Tensor]:
    """Offset and unit of a scale."""
    offset, unit = (torch.from_numpy(values).to(like) for values in (scale.offset, scale.unit))
    return offset, unit
