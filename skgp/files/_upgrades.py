"""What files of earlier versions lack."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from skgp.fitting.stream import FOR_SCALES


def _opening(fields: dict[str, Any]) -> dict[str, Any]:
    """An opening that only says which outputs varied: these had enough values for a scale."""
    if isinstance(fields.get("varied"), np.ndarray):
        fields["n_values"] = np.where(fields.pop("varied"), FOR_SCALES, 0)
    return fields


# From the fields of a class in a file to those that it has now, by its name in files.
UPGRADES: Final[Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]] = MappingProxyType(
    {"skgp:Opening": _opening}
)
