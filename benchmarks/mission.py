"""The page of what the five papers do and where the project stands, from benchmarks/mission.toml.

python -m benchmarks.mission > doc/benchmarks/mission.md
"""

import tomllib
from collections import Counter
from pathlib import PurePosixPath
from typing import Any

from benchmarks._markdown import head, line
from benchmarks._protocol import HERE

VERDICTS = ("works", "behind", "not run", "missing")
PAGE = "doc/benchmarks/mission.md"
_TOP = f"""\
# What the papers do, row by row

`python -m benchmarks.mission > {PAGE}` writes this page from
`benchmarks/mission.toml`, which also names the test and the command of each row. A test checks that
they exist, and that the numbers below stand on the page that a row links to. Published numbers
stand in parentheses.

- works: as in the paper, tested, and level with the printed number on what was run.
- behind: run, and short of the paper, or too small a part of it was run.
- not run: the code is there, the paper's experiment is not.
"""
Row = dict[str, Any]


def load_mission() -> Row:
    """The tables of benchmarks/mission.toml by name."""
    with open(HERE / "mission.toml", "rb") as file:
        return tomllib.load(file)


def render(mission: Row) -> str:
    """The page."""
    papers = [
        (paper["title"], [row for row in mission["rows"] if row["id"][0] == paper["letter"]])
        for paper in mission["papers"]
    ]
    lines = [_TOP, *head(["paper", "rows", *VERDICTS])]
    for title, rows in [*papers, ("all", mission["rows"])]:
        counts = Counter(row["verdict"] for row in rows)
        lines += line([title, str(len(rows)), *(str(counts[name]) for name in VERDICTS)])
    for title, rows in papers:
        lines += [
            "",
            f"## {title}",
            "",
            *head(["row", "what", "where", "stands", "result or reason"]),
        ]
        for row in rows:
            result = " ".join(filter(None, [row.get("result"), _link(row)]))
            code = f"`{row['code']}`" if "code" in row else ""
            lines += line([row["id"], row["what"], code, row["verdict"], result])
    lines += ["", "## Where results are farthest from the papers'", ""]
    lines += head(["shortfall", "rows", "stands on", "not known yet"])
    for shortfall in mission["shortfalls"]:
        ids = ", ".join(shortfall["rows"])
        lines += line([shortfall["what"], ids, _link(shortfall), shortfall.get("lacks", "")])
    return "\n".join(lines) + "\n"


def _link(row: Row) -> str:
    """A link to the page of a row, if it has one."""
    if "page" not in row:
        return ""
    page = PurePosixPath(row["page"])
    place = page.name if page.parent.name == "benchmarks" else f"../{page.parent.name}/{page.name}"
    return f"[{page.stem}]({place})"


if __name__ == "__main__":
    print(render(load_mission()), end="")
