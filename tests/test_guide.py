"""The pages of the guide: short, each with a picture, and with code that runs."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest

DOC = Path(__file__).resolve().parents[1] / "doc"
GUIDE = [page for page in sorted((DOC / "guide").glob("*.rst")) if page.stem != "index"]
# Pages of single subjects, which the guide lists after its own.
SUBJECTS = [
    next(DOC.glob(f"{name}.*"))
    for name in re.findall(r"(?m)^   \.\./(\w+)$", (DOC / "guide" / "index.rst").read_text())
]
# Rules about processes, and draws of functions, whose example has the pictures.
WITHOUT_PICTURE = {"threads_and_processes", "function_draws"}
RUNNABLE = [
    *GUIDE,
    DOC / "likelihoods.rst",
    *(DOC / "coming_from" / f"{name}.rst" for name in ("ngboost", "sklearn_gp")),
]
SLOW = {"deep", "distributions", "likelihoods"}  # they fit with the defaults, or six models


def paragraphs(text: str) -> Iterator[list[str]]:
    """Running text: neither tables nor blocks of code nor directives and their options."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)  # of Markdown
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.strip("\n").splitlines()
        if not re.match(r"\s*(\.\. |>>>|===|\* -|:|\|)|    ", lines[0]):
            yield lines


@pytest.mark.parametrize("page", [*GUIDE, *SUBJECTS], ids=lambda page: page.stem)
def test_page_is_short_and_has_a_picture(page: Path) -> None:
    text = page.read_text()
    assert len(text.splitlines()) <= 200
    pictures = ".. plot::" in text or ".. image::" in text or ".. figure::" in text
    assert pictures or page.stem in WITHOUT_PICTURE
    for lines in paragraphs(text):
        items = re.split(r"(?m)^\s*- ", "\n".join(lines))  # each item of a list is a paragraph
        longest = max(items, key=lambda item: item.count("\n"))
        assert longest.strip("\n").count("\n") < 6, longest


def runnable(page: Path) -> Any:
    return pytest.param(page, id=page.stem, marks=pytest.mark.slow if page.stem in SLOW else ())


@pytest.mark.parametrize("page", [runnable(page) for page in RUNNABLE])
@pytest.mark.filterwarnings("default:the loss was still falling")  # short fits
def test_code_of_page_runs(page: Path) -> None:
    backend = matplotlib.get_backend()
    matplotlib.use("agg")
    try:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        result = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    finally:
        matplotlib.pyplot.close("all")
        matplotlib.use(backend)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.slow
def test_both_sides_of_the_gpytorch_page_end_at_the_same_score() -> None:
    text = (DOC / "coming_from" / "gpytorch.rst").read_text()
    ours: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(text):
        exec(example.source, ours)
    theirs: dict[str, Any] = {}
    exec((DOC / "coming_from" / "svgp_in_gpytorch.py").read_text(), theirs)
    score = ours["nll"](ours["y_new"], ours["model"].predict_dist(ours["X_new"]))
    assert abs(score - theirs["nll"]) < 0.03
