"""One constructor parameter: its annotation, default, constraint and documentation."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from string import Template
from textwrap import dedent, fill, indent
from typing import Any, Final, Self

from sklearn.utils._param_validation import Interval, StrOptions

Constraint = list[Any]

_WIDTH: Final = 92  # of the text of an entry


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
        What a docstring says of it; empty if each family documents the parameter itself, or if
        the entry of another parameter names this one too. A text that begins with "name : " is the
        whole entry, and `$default` stands for the default there.
    positional : bool
        Whether it may be given without its name.
    heading : str
        Of the parameters from this one on; empty if it begins no part of a docstring.
    """

    name: str
    annotation: str
    default: str
    constraint: Constraint
    text: str = ""
    positional: bool = False
    heading: str = ""

    @classmethod
    def choice(cls, name: str, options: Iterable[str], default: str, text: str = "") -> Self:
        """One of several names, in the order of the annotation."""
        options = list(options)
        return cls(name, literal(options), f'"{default}"', [one_of(*options)], text)

    @cached_property
    def entry(self) -> str:
        """What stands in a docstring: name, type, default and text, below the heading."""
        text = dedent(self.text).strip()
        if text and not re.match(rf"{self.name}(, \w+)* : ", text):
            text = f"{self.name} : {self._kind}\n" + indent(fill(text, _WIDTH), "    ")
        if self.heading:
            text = f"\n{self.heading}\n{text}"
        return Template(text).safe_substitute(default=self.default)

    @property
    def _kind(self) -> str:
        """Type and default as docstrings have them."""
        if self.annotation.endswith(" | None"):
            return self.annotation.removesuffix(" | None") + ", optional"
        names = self.annotation.removeprefix("Literal[").removesuffix("]")
        kind = names if names == self.annotation else f"{{{names}}}"
        return f"{kind}, default=$default"


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
