"""Names of the array types used in annotations."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
LabelArray: TypeAlias = npt.NDArray[Any]
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
Names: TypeAlias = tuple[str, ...] | None  # of outputs
