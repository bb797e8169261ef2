"""What happens around every fit, whatever it trains."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from skgp.core.gradients import recorded_gradients
from skgp.estimators._affordable import named_allocations

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def fits(method: MethodT) -> MethodT:
    """Decorator of an estimator's method that fits.

    Gradients are recorded whatever mode torch is in, and a failed allocation names parameters.
    """

    @wraps(method)
    def fitting(self: Any, *args: Any, **kwargs: Any) -> Any:
        with recorded_gradients(), named_allocations(self.get_params(deep=False)):
            return method(self, *args, **kwargs)

    return cast(MethodT, fitting)
