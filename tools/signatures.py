"""Writes the constructors of the estimators from the table of parameters.

`python -m tools.signatures` rewrites the `def __init__` of each class that `family` decorates.
`python -m tools.signatures --check` only names the files that it would change, and exits with
status 1 if there are any.

Names and order are those of the class docstring, its lines `$group` and its own entries.
Annotations and defaults are those of the table in `skgp.estimators._parameters`, with the
deviations that the decorator gives. Docstring and decorator are read from the file.
"""

import argparse
import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from skgp.estimators import _entries, _fit_groups, _layer_choices, _model_groups
from skgp.estimators._entries import Deviation, Parameter
from skgp.estimators._parameters import GROUPS, PARAMETERS, members

FOLDER: Final = Path(__file__).resolve().parents[1] / "skgp" / "estimators"
# The section of a docstring, which the next section or `$group` of one ends, and the beginnings of
# its entries: `$group`, or "a, b : type". A line of its own after a blank one is a heading.
SECTION: Final = re.compile(
    r"^Parameters\n-+\n(.*?)(?=\n\n\$|\n\n[^\n]+\n---|\Z)", re.MULTILINE | re.DOTALL
)
ENTRY: Final = re.compile(r"^(?:\$(\w+)$|(\w[\w, ]*) : )", re.MULTILINE)


class Family(NamedTuple):
    """A class in a source file."""

    node: ast.ClassDef
    deviations: Mapping[str, Deviation]

    @property
    def parameters(self) -> list[Parameter]:
        """Those that its constructor should have, in order."""
        section = SECTION.search(ast.get_docstring(self.node) or "")
        found: list[Parameter] = []
        for group, own in ENTRY.findall(section[1] if section else ""):
            for name in [group] if group else own.split(", "):
                if name not in GROUPS and name not in PARAMETERS:
                    raise ValueError(f"{self.node.name}: the table has no parameter {name}")
                found += members(name, self.deviations)
        names = [parameter.name for parameter in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{self.node.name}: the docstring has {', '.join(twice)} twice")
        if idle := sorted(self.deviations.keys() - names):
            raise ValueError(f"{self.node.name}: the docstring lacks {', '.join(idle)}")
        return found

    @property
    def constructor(self) -> ast.FunctionDef:
        """The constructor as it stands."""
        for node in self.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                return node
        raise ValueError(f"{self.node.name} has no __init__ to rewrite")


def families(source: str) -> Iterator[Family]:
    """The classes of a file that have the decorator `family`."""
    modules = (_entries, _fit_groups, _model_groups, _layer_choices)
    names = {name: value for module in modules for name, value in vars(module).items()}
    names["family"] = lambda texts=None, **deviations: deviations
    for node in ast.parse(source).body:
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(node, ast.ClassDef) and ast.unparse(decorator).startswith("family("):
                yield Family(node, eval(ast.unparse(decorator), names))


def signature(parameters: Sequence[Parameter]) -> list[str]:
    """The lines from `def __init__` up to the body."""
    lines: dict[bool, list[str]] = {True: [], False: []}
    for parameter in parameters:
        line = f"{parameter.name}: {parameter.annotation} = {parameter.default},"
        lines[parameter.positional].append(line)
    arguments = ["self,", *lines[True], "*,", *lines[False]]
    inner = [" " * 8 + line for line in arguments]
    return [line + "\n" for line in ("    def __init__(", *inner, "    ) -> None:")]


def rewritten(source: str) -> str:
    """The text of a file with the constructors that the table asks for."""
    lines = source.splitlines(keepends=True)
    for family in reversed(list(families(source))):  # from below: the numbers of lines above stay
        node = family.constructor
        lines[node.lineno - 1 : node.body[0].lineno - 1] = signature(family.parameters)
    return "".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite or check the files of a folder; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="change nothing, exit with 1 if needed"
    )
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    status = 0
    for path in sorted(options.folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        wanted = rewritten(source)
        if wanted == source:
            continue
        if options.check:
            status = 1
        else:
            path.write_text(wanted, encoding="utf-8")
        print(f"{'would rewrite' if options.check else 'rewrote'} {path}")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
