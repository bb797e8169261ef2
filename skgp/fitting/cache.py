"""Results on disk that other fits may read; where they cannot be had, they are computed."""

import warnings
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import sklearn
from sklearn.utils.validation import check_memory

from skgp._version import __version__
from skgp.exceptions import brief

ResultT = TypeVar("ResultT")

_VERSIONS: Final = (__version__, sklearn.__version__)  # what another one computed may differ


class Cached(Generic[ResultT]):
    """A function whose results the `memory` of an estimator keeps.

    A cache saves time and nothing else: a fit goes on without one that cannot be used.

    Parameters
    ----------
    function : callable
        A pure function at the top of a module; joblib has to be able to hash its arguments.
    memory : None, str or object with a method `cache`
        As estimators take it.
    returns : type
        Of the results. Anything else in the cache is ignored.
    quiet : bool, default=False
        Whether to do without the warning of a cache that cannot be used.
    """

    def __init__(
        self,
        function: Callable[..., ResultT],
        memory: Any,
        returns: type[ResultT],
        *,
        quiet: bool = False,
    ) -> None:
        self._function = function
        self._memory = memory
        self._returns = returns
        self._quiet = quiet
        self._kept: Callable[..., Any] | None = None
        if memory is not None:
            try:
                self._kept = check_memory(memory).cache(_result)
            except Exception as error:
                self._give_up(error)

    def __call__(self, *args: Any) -> ResultT:
        """The result for these arguments, read or computed."""
        if self._kept is None:
            return self._function(*args)
        try:
            found = self._kept(self._function, _VERSIONS, *args)
        except Exception as error:
            result = self._function(*args)  # first, for the error may be the function's own
            self._give_up(error)
            return result
        return found if isinstance(found, self._returns) else self._function(*args)

    def _give_up(self, error: Exception) -> None:
        """Do without the cache from now on."""
        self._kept = None
        if not self._quiet:
            warnings.warn(
                f"memory={self._memory!r} cannot be used ({type(error).__name__}: {brief(error)}): "
                "the fit goes on without; pass another folder, or None",
                stacklevel=2,
            )


def _result(function: Callable[..., Any], versions: tuple[str, ...], *args: Any) -> Any:
    """What a cache keeps: the arguments of this function are the key."""
    return function(*args)
