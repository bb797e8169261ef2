"""Groups of constructor parameters as frozen values, apart from the estimator that holds them."""

from dataclasses import fields
from typing import Any, TypeVar, cast

GroupT = TypeVar("GroupT")


def pick(group: type[GroupT], estimator: Any) -> GroupT:
    """A group with the values that an estimator stores under the names of the group's fields.

    Parameters
    ----------
    group : type
        A dataclass.
    estimator : estimator
    """
    names = [field.name for field in fields(cast(Any, group))]
    return group(**{name: getattr(estimator, name) for name in names})
