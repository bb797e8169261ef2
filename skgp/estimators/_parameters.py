"""The table of constructor parameters, and what estimators make of it."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from sklearn.base import BaseEstimator

from skgp.estimators._documentation import complete_docstring
from skgp.estimators._entries import Deviation, Group, Parameter
from skgp.estimators._fit_groups import FIT_GROUPS, FIT_PARAMETERS
from skgp.estimators._layer_choices import LAYER_GROUPS
from skgp.estimators._model_groups import MODEL_GROUPS, MODEL_PARAMETERS

ClassT = TypeVar("ClassT", bound=type[BaseEstimator])

# Each name is a line `$name` of docstrings. A group may have its own default and text of a
# parameter, but no other annotation or constraint.
GROUPS: Final[dict[str, Group]] = MODEL_GROUPS | LAYER_GROUPS | FIT_GROUPS
PARAMETERS: Final[dict[str, Parameter]] = {
    parameter.name: parameter for group in GROUPS.values() for parameter in group
} | {parameter.name: parameter for parameter in (*MODEL_PARAMETERS, *FIT_PARAMETERS)}


def _entries(group: Group) -> str:
    """The entries of parameters as they stand in a docstring."""
    return "\n".join(filter(None, (parameter.entry for parameter in group)))


# What stands for the line `$name` of a family without deviations.
_ENTRIES: Final[dict[str, str]] = {
    name: _entries(group)
    for name, group in ({name: (p,) for name, p in PARAMETERS.items()} | GROUPS).items()
}


def members(name: str, deviations: Mapping[str, Deviation]) -> Group:
    """The parameters of a group, or the one parameter of that name, in a family.

    Parameters
    ----------
    name : str
    deviations : mapping
        Of the family, by parameter.
    """
    group = GROUPS.get(name) or (PARAMETERS[name],)
    return tuple(
        deviations[parameter.name].of(parameter) if parameter.name in deviations else parameter
        for parameter in group
    )


def _deviates(group: Group, deviations: Mapping[str, Deviation]) -> bool:
    return any(parameter.name in deviations for parameter in group)


def family(
    texts: Mapping[str, str] | None = None, **deviations: Deviation
) -> Callable[[ClassT], ClassT]:
    """Class decorator of an estimator: what its parameters may be, and its documentation.

    `tools/signatures.py` writes the constructor from the same table and deviations.

    Parameters
    ----------
    texts : mapping, optional
        Values of the placeholders of the docstring, see `complete_docstring`.
    **deviations : Deviation
        By parameter: what is not as in the table.
    """

    def complete(cls: ClassT) -> ClassT:
        # A name that is not in the table is an old one, which the program is about to remove.
        names = [name for name in inspect.signature(cls).parameters if name in PARAMETERS]
        cls._parameter_constraints = {
            name: members(name, deviations)[0].constraint for name in names
        }
        own = {
            name: _entries(members(name, deviations))
            for name in (*deviations, *(n for n, g in GROUPS.items() if _deviates(g, deviations)))
        }
        complete_docstring(cls, {**_ENTRIES, **own, **(texts or {})})
        return cls

    return complete


def store_parameters(estimator: BaseEstimator, arguments: Mapping[str, Any]) -> None:
    """Store every parameter untouched under its name, as scikit-learn wants constructors to do.

    Parameters
    ----------
    estimator : estimator
    arguments : mapping
        The `locals()` of its constructor, taken before any other local is made.
    """
    for name, value in arguments.items():
        if name != "self":
            setattr(estimator, name, value)
