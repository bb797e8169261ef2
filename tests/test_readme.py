"""The README starts with the two set-up commands, and every Python example of the docs compiles."""

import itertools
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

import skgp

ROOT = Path(__file__).resolve().parents[1]


def markdown_blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def rst_blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of each `.. code-block::` directive."""
    pattern = r"^\.\. code-block:: (\w+)\n\n((?:[ \t]+.*\n|\n)+)"
    return [
        (language, textwrap.dedent(code))
        for language, code in re.findall(pattern, text, flags=re.MULTILINE)
    ]


def python_blocks() -> list[Any]:
    """Every Python example of the README, the contributor's guide and the documentation."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    made = {"_build", "auto_examples", "generated"}
    found_pages = [*(ROOT / "doc").rglob("*.md"), *(ROOT / "doc").rglob("*.rst")]
    pages += sorted(page for page in found_pages if made.isdisjoint(page.parts))
    found = []
    for page in pages:
        blocks = rst_blocks if page.suffix == ".rst" else markdown_blocks
        python = [code for language, code in blocks(page.read_text()) if language == "python"]
        found += [pytest.param(code, id=f"{page.name}-{i}") for i, code in enumerate(python)]
    return found


def test_first_block_of_the_readme_is_the_two_commands() -> None:
    _, code = markdown_blocks((ROOT / "README.md").read_text())[0]
    first, second = code.splitlines()  # two lines, no more
    for line in (first, second):
        assert line.startswith("python3 -m venv .venv && .venv/bin/python -m pip install ")
        assert "-c constraints.txt" in line
    assert first.endswith("&& .venv/bin/python examples/quickstart.py")
    assert second.endswith("&& .venv/bin/python -m pytest -n 2")


def test_description_on_pypi_needs_no_checkout() -> None:
    """The build makes it from the README, by the substitutions in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / "README.md").read_text()
    for rule in hook["substitutions"]:
        text, n = re.subn(rule["pattern"], rule["replacement"], text)
        assert n > 0, rule
    assert "![" not in text
    assert all(target.startswith("https://") for target in re.findall(r"\]\((.*?)\)", text))
    for part in ("constraints.txt", ".venv", "(left)", "doc/"):
        assert part not in text
    for part in ('pip install "skgp[plot]"', "## In ten lines", "## Measured", "## Licence"):
        assert part in text


def test_example_of_the_readme_runs() -> None:
    """In few epochs: to find their number takes a minute."""
    blocks = markdown_blocks((ROOT / "README.md").read_text())
    (code,) = [code for language, code in blocks if language == "python"]
    assert code.count("DSPPRegressor(") == 1
    names: dict[str, Any] = {}
    exec(code.replace("DSPPRegressor(", "DSPPRegressor(max_iter=5, early_stopping=False, "), names)
    # Each column of the grid has been scored, and the search predicts distributions.
    assert len(names["search"].cv_results_["params"]) == 4
    assert names["search"].predict_proba(names["X"]).shape == names["y"].shape == (133,)


def test_picture_of_the_readme_is_small() -> None:
    (path,) = re.findall(r"!\[[^]]+\]\((.+)\)", (ROOT / "README.md").read_text())
    assert (ROOT / path).stat().st_size < 200_000


def table_after(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its own header."""
    lines = text[text.index(f"\n{heading}\n") :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :])
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]


def test_first_choices_and_methods_exist() -> None:
    """What the tables name can be made; the first choice needs no parameters."""
    readme = (ROOT / "README.md").read_text()
    firsts = [name for row in table_after(readme, "## Which one first?") for name in codes(row[1])]
    methods = [name for row in table_after(readme, "## Methods") for name in codes(row[1])]
    assert {"DSPPRegressor()", "SVGPRegressor()", "SVGPClassifier()"} == {*firsts}
    for name in firsts + [name for name in methods if name[0].isupper()]:
        assert hasattr(skgp, name.partition("(")[0]), name


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_citation_file_has_the_five_papers() -> None:
    readme, citation = ((ROOT / name).read_text() for name in ("README.md", "CITATION.cff"))
    titles = re.findall(r'^    title: "(.+)"$', citation, flags=re.MULTILINE)
    assert len(titles) == 5
    for title in titles:
        assert f"{title}, " in readme, title
    assert "(CITATION.cff)" in readme


@pytest.mark.parametrize("code", python_blocks())
def test_python_example_compiles(code: str) -> None:
    compile(code, "<example>", "exec")


def test_blocks_are_found() -> None:
    assert markdown_blocks("a\n```python\nx = 1\n```\n```\ny\n```\n") == [
        ("python", "x = 1\n"),
        ("", "y\n"),
    ]
    rst = "A\n\n.. code-block:: python\n\n    x = 1\n\n    y = 2\n\nB\n"
    assert rst_blocks(rst) == [("python", "x = 1\n\ny = 2\n\n")]
    assert len(python_blocks()) > 5
