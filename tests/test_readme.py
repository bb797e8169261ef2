"""The README starts with the two set-up commands, and every Python example of the docs compiles."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

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
    pages += sorted((ROOT / "doc").glob("*.md")) + sorted((ROOT / "doc").glob("*.rst"))
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
