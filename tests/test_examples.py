"""The scripts of the gallery: no panel can stay empty.

The gallery runs a script cell by cell. It takes the pictures of a cell after the cell has run and
closes them. So a figure has to be made and filled in one cell, and a display beside a figure
needs its `ax`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def cells(script: str) -> list[ast.Module]:
    return [ast.parse(cell) for cell in re.split(r"(?m)^# %%.*$", script)]


def calls(cell: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(cell):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def names(cell: ast.AST, context: type[ast.expr_context]) -> set[str]:
    found = (node for node in ast.walk(cell) if isinstance(node, ast.Name))
    return {node.id for node in found if isinstance(node.ctx, context)}


def makes_figure(node: ast.AST) -> bool:
    return any(
        name in ("plt.subplots", "plt.figure", "plt.subplot_mosaic") for name, _ in calls(node)
    )


def faults(script: str) -> Iterator[str]:
    gone: set[str] = set()  # figures and axes of the cells before
    for cell in cells(script):
        figures = [n for n in ast.walk(cell) if isinstance(n, ast.Assign) and makes_figure(n)]
        made = {name for assign in figures for name in names(assign, ast.Store)}
        assigned = names(cell, ast.Store)
        for name in sorted((names(cell, ast.Load) & gone) - assigned):
            yield f"{name} belongs to a figure of an earlier cell"
        for name, call in calls(cell):
            is_display = re.search(r"Display\.from_\w+$", name)
            if figures and is_display and "ax" not in {word.arg for word in call.keywords}:
                yield f"{name} draws beside the figure of its cell: pass ax="
        gone = (gone - assigned) | made


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_figure_is_filled_in_its_cell(path: Path) -> None:
    assert list(faults(path.read_text())) == []


def test_faults_are_found() -> None:
    split = "figure, axes = plt.subplots(2)\n# %%\naxes[0].plot([1])\n"
    assert list(faults(split)) == ["axes belongs to a figure of an earlier cell"]
    beside = "figure, ax = plt.subplots()\nPITDisplay.from_estimator(model, X, y)\n"
    assert len(list(faults(beside))) == 1
    again = "figure, ax = plt.subplots()\n# %%\nfigure, ax = plt.subplots()\nax.plot([1])\n"
    assert list(faults(again)) == []


def test_gallery_lists_every_example() -> None:
    listed = ast.parse((ROOT / "doc" / "gallery_order.py").read_text())
    (order,) = (n.value for n in listed.body if isinstance(n, ast.Assign))
    assert set(ast.literal_eval(order)) == {path.stem for path in EXAMPLES}
