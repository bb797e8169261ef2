"""What a fit leaves behind while it runs, so that another one can go on from there."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

from skgp.core.training.history import History


class Progress:
    """Where the phases of a fit keep their states; this one keeps nothing.

    A state consists of tensors, numbers, texts and None in lists, tuples and dictionaries.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def saved(self, phase: str) -> Any:
        """The state in which an earlier fit has left this phase; None if it has not."""
        return None

    def follow(self, phase: str, state: Callable[[], Any]) -> None:
        """From now on this function gives the state of the phase."""

    def step(self) -> None:
        """A step is done: what all phases give now is enough to go on from."""

    def epoch(self, history: History) -> None:
        """An epoch is done; the record of the fit so far."""

    def finish(self, phase: str, state: Any, *, instead_of: Sequence[str]) -> None:
        """The fit is done: the state of this phase stands for those of others from now on."""


KEEPS_NOTHING: Final = Progress()
