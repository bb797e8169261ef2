"""Docstrings of the estimators say what the code does: parameters, defaults, attributes."""

import inspect
import re
from typing import Any

import pytest
from contract_cases import EMBEDDINGS, ONE_PER_CLASS, Case, Data

from skgp.estimators._parameters import family

pytestmark = pytest.mark.usefixtures("short_start")
CASES = ONE_PER_CLASS + EMBEDDINGS
HEADINGS = ["Model", "Training", "Scaling and numerics", "Running"]
SECTION = re.compile(r"^ {4}(\w[\w ]*)\n {4}-+$", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w[\w, ]*) : (.*)$", re.MULTILINE)


def entries(cls: type, section: str) -> dict[str, str]:
    """Names and types of one section, in order; "a, b : t" counts as two."""
    doc = cls.__doc__
    assert doc is not None
    parts = SECTION.split(doc)
    text = dict(zip(parts[1::2], parts[2::2], strict=True))[section]
    found = {}
    for names, kind in ENTRY.findall(text):
        for name in names.split(", "):
            assert name not in found
            found[name] = kind
    return found


def test_no_placeholder_is_left(case: Case) -> None:
    doc = case.cls.__doc__
    assert "$" not in doc
    assert "    max_iter : int" in doc
    # Every shared line stands at the indentation of the class docstring's own lines.
    indents = {len(line) - len(line.lstrip()) for line in doc.splitlines()[1:] if line.strip()}
    assert indents == {4, 8}


def test_parameters_are_those_of_the_constructor_in_its_order(case: Case) -> None:
    parameters = inspect.signature(case.cls).parameters
    assert list(entries(case.cls, "Parameters")) == list(parameters)


def test_five_parameters_come_first_and_the_others_have_headings(case: Case) -> None:
    """A heading stands alone after a blank line; numpydoc takes it for an entry without a type."""
    doc = case.cls.__doc__
    assert doc is not None
    section = dict(zip(*[iter(SECTION.split(doc)[1:])] * 2, strict=True))["Parameters"]
    first, *parts = re.split(r"\n\s*\n {4}(?=\S)", section.strip("\n"))
    assert len(ENTRY.findall(first)) == 5
    assert "random_state : " in first
    assert [part.partition("\n")[0] for part in parts] == HEADINGS
    assert all(ENTRY.findall(part) for part in parts)


def test_defaults_are_those_of_the_signature(case: Case) -> None:
    """None is said by "optional", or by a type that names it."""
    documented_types = entries(case.cls, "Parameters")
    for name, parameter in inspect.signature(case.cls).parameters.items():
        kind = documented_types[name]
        stated = re.search(r"default=(.+)$", kind)
        if stated is not None:
            assert eval(stated[1], {}) == parameter.default, name
        else:
            assert parameter.default is None, name
            assert kind.endswith("optional") or "None" in kind, name


def test_attributes_exist_after_a_fit(case: Case, data: Data) -> None:
    import pandas as pd

    model = case.make(**case.known({"max_iter": 2, "early_stopping": True}))
    names = set(entries(case.cls, "Attributes"))
    model.fit(pd.DataFrame(data.X, columns=["a", "b", "c"]), data.y)
    missing = {name for name in names if not hasattr(model, name)}
    assert not missing
    learned = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    properties = {
        name
        for name, value in inspect.getmembers(case.cls)
        if name.endswith("_")
        and not name.startswith("_")
        and isinstance(value, property)
        and hasattr(model, name)  # an exact GP has no inducing inputs
    }
    assert learned | properties <= names


def test_each_placeholder_has_its_value() -> None:
    """An unknown name or a missing value is an error where the class is defined."""

    class Unknown:
        """Text.

        $nonsense
        """

    class NoRule:
        """Text.

        $hidden_units
        """

    for cls in (Unknown, NoRule):
        with pytest.raises(KeyError):
            family()(cls)


def test_without_docstrings_nothing_happens() -> None:
    class Bare: ...

    decorated: Any = family()(Bare)  # type: ignore[type-var]  # any class will do
    assert decorated is Bare
    assert Bare.__doc__ is None
