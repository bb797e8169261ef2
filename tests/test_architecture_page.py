"""The tables of doc/architecture.md and skgp/core/README.md, compared with the code as text.

Each check is a function from the text of a page, and what the code says, to the list of
differences. `BROKEN` holds small pages for each check, so a check that sees nothing fails here. No
module of skgp is imported.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "skgp" / "core"
PAGE = ROOT / "doc" / "architecture.md"
README = CORE / "README.md"


def assigned(path: Path, name: str) -> Any:
    """The literal that a module assigns to a name at its top."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise LookupError(f"{path} assigns nothing to {name}")


def public_estimators() -> set[str]:
    """The public estimators of skgp and of its baselines."""
    package = ROOT / "skgp"
    files = package / "__init__.py", package / "estimators" / "baselines" / "__init__.py"
    names = {name for file in files for name in assigned(file, "__all__")}
    return {name for name in names if name.endswith(("Regressor", "Classifier", "Embedding"))}


def core_modules() -> set[str]:
    """As `room/file`, or the file alone that stands in no room."""
    paths = (path.relative_to(CORE).with_suffix("") for path in CORE.rglob("*.py"))
    return {path.as_posix() for path in paths if path.name != "__init__"}


def rows_below(page: str, header: str) -> list[list[str]]:
    """The cells of the table that has this line for its header."""
    lines = page.splitlines()
    if header not in lines:
        return []
    rows = []
    for line in lines[lines.index(header) + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def code_in(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def differences(named: list[str], expected: set[str], where: str) -> Iterator[str]:
    for name in sorted(expected - set(named)):
        yield f"{where} lacks {name}"
    for name in sorted(set(named) - expected):
        yield f"{where} names {name}, which does not exist"


def estimators(page: str, public: set[str]) -> Iterator[str]:
    """Each public estimator has a row, if need be one for each of several variants."""
    rows = rows_below(page, "| estimator | structure | nodes | objective |")
    named = [code.partition("(")[0] for first, *_ in rows for code in code_in(first)]
    yield from differences(named, public, "the table of estimators")
    for row in rows:
        if len(row) != 4 or not all(row):
            yield f"the table of estimators has an incomplete row: {row}"


def levels(page: str, expected: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    """The levels are those of tests/levels.py, from zero. `a.*` stands for all of a."""
    rows = rows_below(page, "| level | modules |")
    if [number for number, _ in rows] != [str(i) for i in range(len(expected))]:
        yield f"the levels are not numbered from 0 to {len(expected) - 1}"
        return
    for (number, cell), units in zip(rows, expected, strict=True):
        named = ["skgp." + code.removesuffix("*") for code in code_in(cell)]
        yield from differences(named, set(units), f"level {number}")
        if len(named) != len(set(named)):
            yield f"level {number} names a module twice"


def rooms(page: str, modules: set[str]) -> Iterator[str]:
    """Each module of core stands in the row of its room."""
    rows = rows_below(page, "| room | holds | modules |")
    named = [
        f"{code_in(room)[0]}/{code}".removeprefix("core/").removeprefix("core.")
        for room, _, cell in rows
        for code in code_in(cell)
    ]
    yield from differences(named, modules, "the table of rooms")
    for name in sorted({name for name in named if named.count(name) > 1}):
        yield f"the table of rooms names {name} twice"


def layer_modules() -> set[str]:
    """Files of fitting and recipes, and the private ones of estimators."""
    paths = [
        path.relative_to(ROOT / "skgp")
        for part in ("fitting", "recipes", "estimators")
        for path in (ROOT / "skgp" / part).glob("*.py")
    ]
    hidden = "fitting", "recipes"
    return {
        path.as_posix()
        for path in paths
        if path.name != "__init__.py" and (path.parts[0] in hidden or path.name.startswith("_"))
    }


def layer(page: str, modules: set[str]) -> Iterator[str]:
    """Each module of the layer has a place in its table; folders carry over within the column."""
    named, folder = [], ""
    for first, _ in rows_below(page, "| module | contents |"):
        for code in code_in(first):
            folder = code.rpartition("/")[0] or folder
            named.append(f"{folder}/{code.rpartition('/')[2]}")
    yield from differences(named, modules, "the table of the estimator layer")


def packages() -> set[str]:
    """Parts of skgp, as the layout names them."""
    folder = ROOT / "skgp"
    parts = [path for path in folder.iterdir() if (path / "__init__.py").exists()]
    files = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    return {f"skgp/{path.name}/" for path in parts} | {f"skgp/{name}" for name in files}


def layout(page: str, parts: set[str]) -> Iterator[str]:
    """Each part of skgp has a row in the layout."""
    named = [
        code for first, _ in rows_below(page, "| path | contents |") for code in code_in(first)
    ]
    of_package = [code for code in named if code.startswith("skgp/")]
    yield from differences(of_package, parts, "the layout")


def files(page: str, modules: set[str]) -> Iterator[str]:
    """Each module of core has a row that says what it holds."""
    rows = [row for row in rows_below(page, "| file | contents |") if code_in(row[0])]
    named = [code for first, _ in rows for code in code_in(first)]
    yield from differences(named, {f"{name}.py" for name in modules}, "the table of files")
    for first, contents in rows:
        if not contents:
            yield f"the table of files says nothing of {first}"


def decisions(page: str, pages: dict[str, str]) -> Iterator[str]:
    """The index lists every decision by its title, and has it in its toctree."""
    links = re.findall(r"^\d+\. \[(.+)\]\((.+)\.md\)$", page, flags=re.MULTILINE)
    entries = re.findall(r"^\d{2,}-[\w-]+$", page, flags=re.MULTILINE)
    yield from differences([name for _, name in links], set(pages), "the list of decisions")
    yield from differences(entries, set(pages), "the toctree of decisions")
    for title, name in links:
        if name in pages and pages[name].splitlines()[0] != f"# {title}":
            yield f"the list of decisions has another title for {name}"


DECISIONS = ROOT / "doc" / "decisions"


def decision_pages() -> dict[str, str]:
    return {path.stem: path.read_text() for path in DECISIONS.glob("[0-9]*.md")}


# (check, page, what the code says)
CHECKS: list[tuple[Callable[[str, Any], Iterator[str]], Path, Callable[[], Any]]] = [
    (estimators, PAGE, public_estimators),
    (levels, PAGE, lambda: assigned(ROOT / "tests" / "levels.py", "LEVELS")),
    (rooms, PAGE, core_modules),
    (layer, PAGE, layer_modules),
    (layout, PAGE, packages),
    (files, README, core_modules),
    (decisions, DECISIONS / "index.md", decision_pages),
]

ESTIMATORS = "| estimator | structure | nodes | objective |\n|---|---|---|---|\n"
LEVELS = "| level | modules |\n|---|---|\n"
ROOMS = "| room | holds | modules |\n|---|---|---|\n"
LAYER = "| module | contents |\n|---|---|\n"
LAYOUT = "| path | contents |\n|---|---|\n"
FILES = "| file | contents |\n|---|---|\n"
TWO_LEVELS = (("skgp.exceptions", "skgp.core.linalg"), ("skgp.estimators._",))
TOCTREE = "```{toctree}\n01-a\n```\n"

# check, a sound page, what the code says
SOUND: list[tuple[Callable[[str, Any], Iterator[str]], str, Any]] = [
    (
        estimators,
        ESTIMATORS + "| `A(x=1)` | one | two | `T` |\n| `A`, `B` | one | two | `T` |\n\n| `C` |\n",
        {"A", "B"},
    ),
    (
        levels,
        LEVELS + "| 0 | `exceptions`, `core.linalg` |\n| 1 | `estimators._*`: private |\n",
        TWO_LEVELS,
    ),
    (rooms, ROOMS + "| `core` | x | `data` |\n| `core.a` | x | `b` |\n", {"data", "a/b"}),
    (
        layer,
        LAYER + "| `f/a.py`, `b.py` | x |\n| `e/_c.py` | y |\n",
        {"f/a.py", "f/b.py", "e/_c.py"},
    ),
    (layout, LAYOUT + "| `skgp/a/` | x |\n| `doc/`, `b/` | y |\n", {"skgp/a/"}),
    (files, FILES + "| **x** | |\n| `linalg.py` | \\|A\\| |\n", {"linalg"}),
    (decisions, "1. [A `x`](01-a.md)\n\n" + TOCTREE, {"01-a": "# A `x`\n"}),
]

# check, a broken page, what the code says, a part of the message
BROKEN: list[tuple[Callable[[str, Any], Iterator[str]], str, Any, str]] = [
    (estimators, "no table", {"A"}, "lacks A"),
    (estimators, ESTIMATORS + "| `A` | one | two | `T` |\n", {"A", "B"}, "lacks B"),
    (estimators, ESTIMATORS + "| `A`, `B` | one | two | `T` |\n", {"A"}, "names B"),
    (estimators, ESTIMATORS + "| `A` | one | two | |\n", {"A"}, "incomplete"),
    (levels, LEVELS + "| 0 | `exceptions`, `core.linalg` |\n", TWO_LEVELS, "from 0 to 1"),
    (
        levels,
        LEVELS + "| 0 | `exceptions` |\n| 1 | `estimators._*` |\n",
        TWO_LEVELS,
        "level 0 lacks skgp.core.linalg",
    ),
    (
        levels,
        LEVELS + "| 0 | `exceptions`, `core.linalg` |\n| 1 | `estimators._*`, `x` |\n",
        TWO_LEVELS,
        "level 1 names skgp.x",
    ),
    (
        levels,
        LEVELS + "| 0 | `exceptions`, `exceptions`, `core.linalg` |\n| 1 | `estimators._*` |\n",
        TWO_LEVELS,
        "twice",
    ),
    (rooms, ROOMS + "| `core.a` | x | `b` |\n", {"a/b", "a/c"}, "lacks a/c"),
    (rooms, ROOMS + "| `core.a` | x | `b`, `old` |\n", {"a/b"}, "names a/old"),
    (rooms, ROOMS + "| `core.a` | x | `b` |\n| `core.a` | y | `b` |\n", {"a/b"}, "twice"),
    (layer, LAYER + "| `f/a.py` | x |\n", {"f/a.py", "f/b.py"}, "lacks f/b.py"),
    (layer, LAYER + "| `f/a.py`, `b.py` | x |\n", {"f/a.py"}, "names f/b.py"),
    (layout, LAYOUT + "| `skgp/a/` | x |\n", {"skgp/a/", "skgp/b/"}, "lacks skgp/b/"),
    (layout, LAYOUT + "| `skgp/a/` | x |\n| `skgp/c.py` | x |\n", {"skgp/a/"}, "names skgp/c.py"),
    (files, FILES + "| `linalg.py` | factors |\n", {"linalg", "rows"}, "lacks rows.py"),
    (files, FILES + "| `linalg.py` | x |\n| `old.py` | y |\n", {"linalg"}, "names old.py"),
    (files, FILES + "| `linalg.py` | |\n", {"linalg"}, "says nothing"),
    (decisions, TOCTREE, {"01-a": "# A\n"}, "list of decisions lacks 01-a"),
    (decisions, "1. [A](01-a.md)\n", {"01-a": "# A\n"}, "toctree of decisions lacks 01-a"),
    (decisions, "1. [B](01-a.md)\n" + TOCTREE, {"01-a": "# A\n"}, "another title"),
]


@pytest.mark.parametrize(("check", "path", "code"), CHECKS)
def test_page_agrees_with_the_code(
    check: Callable[[str, Any], Iterator[str]], path: Path, code: Callable[[], Any]
) -> None:
    assert len(code()) > 5
    assert list(check(path.read_text(), code())) == []


@pytest.mark.parametrize(("check", "page", "code"), SOUND)
def test_check_accepts_a_sound_page(
    check: Callable[[str, Any], Iterator[str]], page: str, code: Any
) -> None:
    assert list(check(page, code)) == []


@pytest.mark.parametrize(("check", "page", "code", "message"), BROKEN)
def test_check_finds_the_difference(
    check: Callable[[str, Any], Iterator[str]], page: str, code: Any, message: str
) -> None:
    found = list(check(page, code))
    assert len(found) == 1
    assert message in found[0]


def test_every_check_has_a_sound_and_a_broken_page() -> None:
    checks = {check for check, *_ in CHECKS}
    assert checks == {check for check, *_ in SOUND} == {check for check, *_ in BROKEN}
