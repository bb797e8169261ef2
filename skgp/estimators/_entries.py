"""One constructor parameter: its annotation, default, constraint and documentation."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from string import Template
from textwrap import dedent
from typing import Any, Self

from sklearn.utils._param_validation import Interval, StrOptions

Constraint = list[Any]


def at_least(number: int) -> Interval:
    """Integers from a number upwards."""
    return Interval(Integral, number, None, closed="left")


def one_of(*names: str) -> StrOptions:
    """One of these names."""
    return StrOptions(set(names))


def literal(names: Iterable[str]) -> str:
    """Source text of the type that has these names for values."""
    return "Literal[" + ", ".join(f'"{name}"' for name in names) + "]"


@dataclass(frozen=True)
class Parameter:
    """A constructor parameter, as most families have it.

    Attributes
    ----------
    name : str
    annotation, default : str
        Source text.
    constraint : list
        What scikit-learn checks.
    text : str
        Entry in a docstring, where `$default` stands for the default; empty if each family
        documents the parameter itself, or if the entry of another parameter names this one too.
    positional : bool
        Whether it may be given without its name.
    """

    name: str
    annotation: str
    default: str
    constraint: Constraint
    text: str = ""
    positional: bool = False

    @classmethod
    def choice(cls, name: str, options: Iterable[str], default: str, text: str = "") -> Self:
        """One of several names, in the order of the annotation."""
        options = list(options)
        return cls(name, literal(options), f'"{default}"', [one_of(*options)], text)

    @property
    def entry(self) -> str:
        """The text with the default put in."""
        return Template(dedent(self.text).strip()).safe_substitute(default=self.default)


Group = tuple[Parameter, ...]  # that stand together in constructors and docstrings


@dataclass(frozen=True)
class Deviation:
    """What is different about a parameter in one family; None leaves it as it is."""

    annotation: str | None = None
    default: str | None = None
    constraint: Constraint | None = None
    text: str | None = None

    @classmethod
    def choice(cls, *options: str, default: str | None = None) -> Self:
        """Other names to choose from, in the order of the annotation."""
        text = None if default is None else f'"{default}"'
        return cls(literal(options), text, [one_of(*options)])

    def of(self, parameter: Parameter) -> Parameter:
        """The parameter in that family."""
        changes = {name: value for name, value in vars(self).items() if value is not None}
        return replace(parameter, **changes)
