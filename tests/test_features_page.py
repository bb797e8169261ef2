"""doc/features.rst: 35 rows whose pages, objects and tests exist."""

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from test_mission import is_importable, names_of_tests

ROOT = Path(__file__).resolve().parents[1]
DOC = ROOT / "doc"
PAGE = DOC / "features.rst"
ANSWERS = {"yes", "partly", "no"}
Row = dict[str, str]


def rows(text: str) -> list[Row]:
    """The rows of the table, below its head."""
    names = "number", "feature", "here", "how", "test"
    found = []
    for block in re.split(r"(?m)^   \* - ", text)[2:]:
        cells = re.split(r"(?m)^     - ", block.split("\n\n")[0])
        found.append(dict(zip(names, (" ".join(cell.split()) for cell in cells), strict=True)))
    return found


@cache
def labels() -> set[str]:
    """Targets of `:ref:` in the pages."""
    pages = DOC.rglob("*.rst")
    return {name for page in pages for name in re.findall(r"(?m)^\.\. _(\w+):$", page.read_text())}


def faults(row: Row) -> list[str]:
    """What a row says that is not so."""
    found = [] if row["here"] in ANSWERS else [f"answer {row['here']}"]
    links = re.findall(r":(\w+):`([^`]*)`", row["how"])
    for role, target in links:
        if role == "doc":
            exists = any((DOC / f"{target}{end}").exists() for end in (".rst", ".md"))
            exists |= target == "auto_examples/index"  # of the gallery
        elif role == "ref":
            exists = target in labels()
        else:
            exists = is_importable(target)
        if not exists:
            found.append(f"link {target}")
    if not links:
        found.append("no link")
    if row["here"] in {"partly", "no"} and ". " not in row["how"]:
        found.append("no reason")
    path, _, name = row["test"].strip("`").partition("::")
    if name not in names_of_tests(ROOT / "tests" / path):
        found.append(f"test {row['test']}")
    return found


def test_every_row_links_to_what_exists() -> None:
    table = rows(PAGE.read_text())
    assert [row["number"] for row in table] == [*map(str, range(1, 36)), r"\+"]
    assert {row["number"]: faults(row) for row in table if faults(row)} == {}
    assert Counter(row["here"] for row in table)["no"] == 0
    assert len({row["test"] for row in table}) == len(table)


GOOD = rows(PAGE.read_text())[1]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"here": "perhaps"}, "answer perhaps"),
        ({"how": "by magic"}, "no link"),
        ({"how": "see :doc:`guide/magic`"}, "link guide/magic"),
        ({"how": "see :ref:`magic`"}, "link magic"),
        ({"how": ":class:`skgp.MagicRegressor`"}, "link skgp.MagicRegressor"),
        ({"here": "partly", "how": ":doc:`function_draws`"}, "no reason"),
        ({"test": "`test_compose.py::test_magic`"}, "test `test_compose.py::test_magic`"),
        ({"test": "`test_magic.py::test_walk`"}, "test `test_magic.py::test_walk`"),
    ],
)
def test_faults_are_found(change: Row, fault: str) -> None:
    assert faults(GOOD) == []
    assert faults(GOOD | change) == [fault]


def test_the_page_can_be_found() -> None:
    assert "doc/features.rst" in (ROOT / "README.md").read_text()
    landing = (DOC / "index.rst").read_text()
    assert ":doc:`features`" in landing
    assert "\n   features\n" in landing


def test_the_package_has_types() -> None:
    """By PEP 561 a type checker reads annotations of a package with this file."""
    assert (files("skgp") / "py.typed").is_file()
