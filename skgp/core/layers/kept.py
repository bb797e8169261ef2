"""What a prediction has computed from a module, for as long as nothing changes the module."""

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

_SETTINGS = bool, int, float, str


class Content(NamedTuple):
    """All that results of a module depend on: tensors, and plain attributes of it and its parts.

    Tensors are compared by value. Writing to the data of a parameter leaves no other trace.
    """

    settings: list[tuple[str, Any]]
    tensors: list[Tensor]

    @classmethod
    def of(cls, module: nn.Module) -> Self:
        """The present content, not a copy."""
        # Copies: another thread may keep factors in a part at any time.
        attributes = (item for part in module.modules() for item in vars(part).copy().items())
        settings = [(name, value) for name, value in attributes if isinstance(value, _SETTINGS)]
        return cls(settings, [*module.parameters(), *module.buffers()])

    def copied(self) -> Self:
        """The same, whatever becomes of the module."""
        return self._replace(tensors=[tensor.detach().clone() for tensor in self.tensors])

    def equals(self, other: Self) -> bool:
        """Whether results are the same, to the bit."""
        return (
            self.settings == other.settings
            and len(self.tensors) == len(other.tensors)
            and all(map(_equal, self.tensors, other.tensors))
        )


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.device == b.device and torch.equal(a, b)


class Kept(NamedTuple):
    """Factors of a layer and what they were computed from; it never changes."""

    content: Content
    factors: Any
