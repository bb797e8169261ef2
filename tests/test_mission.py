"""benchmarks/mission.toml names what exists, and the page of documentation is written from it."""

import argparse
import importlib
import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from benchmarks._protocol import HERE, load_protocol, read_results
from benchmarks._protocol import tables as tables_of
from benchmarks.mission import PAGE, VERDICTS, load_mission, render

ROOT = HERE.parent
MISSION = load_mission()
ROWS = MISSION["rows"]
N_ROWS = {"P": 28, "D": 37, "N": 45, "I": 31, "S": 26, "C": 5}
FIELDS = {"id", "what", "code", "test", "command", "page", "verdict", "result"}
# What rows of a verdict have to say.
NEEDED = {
    "works": {"code", "test"},
    "behind": {"code", "test", "command", "page", "result"},
    "not run": {"code", "test", "result"},
    "missing": {"result"},
}
BROKEN = {
    "code": {"code": "skgp.SVGPRegresor"},
    "member": {"code": "skgp.core.layers.layer.Layer.momentz"},
    "module": {"code": "skgp.core.layer.Layer"},
    "file": {"test": "tests/core/test_no_such.py::test_value"},
    "test": {"test": "tests/core/test_activations.py::test_val"},
    "program": {"command": "python -m benchmarks.table dspp2020"},
    "protocol": {"command": "python -m benchmarks.tables dspp2021 --data DIR"},
    "table": {"command": "python -m benchmarks.tables dspp2020 --data DIR --tables univariat"},
    "method": {
        "command": "python -m benchmarks.tables dspp2020 --methods DSP",
        "result": "",
        "verdict": "not run",
    },
    "option": {"command": "python -m benchmarks.speed --thread 1"},
    "result": {
        "command": "python -m benchmarks.tables iwvi2019 --methods 'LV-GP-GP IWVI, bound'",
        "verdict": "works",
    },
    "page": {"page": "doc/benchmarks/dspp2021.md"},
    "number": {"page": "doc/benchmarks/dspp2020.md", "result": "NLL 0.9551"},
    "no page": {"result": "NLL 0.955"},
    "field": {"tests": "tests/core/test_activations.py::test_value"},
}


def faults(row):
    """What a row says that is not so."""
    found = [f"unknown field {name}" for name in set(row) - FIELDS]
    found += [f"no {name}" for name in NEEDED.get(row["verdict"], set()) - set(row)]
    if row["verdict"] not in VERDICTS:
        found.append(f"verdict {row['verdict']}")
    if "code" in row and not is_importable(row["code"]):
        found.append(f"code {row['code']}")
    if "test" in row:
        path, name = row["test"].split("::")
        if name not in names_of_tests(ROOT / path):
            found.append(f"test {row['test']}")
    if "command" in row:
        found += faults_of_command(row["command"], row["verdict"])
    page = text_of(ROOT / row["page"]) if "page" in row else ""
    if "page" in row and not page:
        found.append(f"page {row['page']}")
    numbers = re.findall(r"-?\d+\.\d+", row.get("result", ""))
    return found + [f"number {number}" for number in numbers if not stands_on(number, page)]


def is_importable(name):
    """Whether a dotted name is a module or an object in one."""
    *parents, last = name.split(".")
    if not parents:
        return importlib.util.find_spec(name) is not None
    for n_modules in range(len(parents), 0, -1):
        try:
            found = importlib.import_module(".".join(parents[:n_modules]))
        except ModuleNotFoundError:
            continue
        for part in [*parents[n_modules:], last]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@cache
def text_of(path: Path):
    """Text of a file, empty if there is none, with one space wherever there is white space."""
    return " ".join(path.read_text().split()) if path.exists() else ""


@cache
def names_of_tests(path: Path):
    return set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.M)) if path.exists() else set()


@cache
def methods_with_results(name):
    rows = read_results(HERE / "results" / f"{name}.jsonl", load_protocol(name))
    return {row["method"] for row in rows}


def stands_on(number, text):
    return re.search(rf"(?<![\d.]){re.escape(number)}(?!\.?\d)", text) is not None


def faults_of_command(command, verdict):
    """What a command names that does not exist."""
    words = shlex.split(command)
    module = words[2]
    if words[:2] != ["python", "-m"] or importlib.util.find_spec(module) is None:
        return [f"program of {command}"]
    if module != "benchmarks.tables":
        source = text_of(ROOT / f"{module.replace('.', '/')}.py")
        options = [word for word in words if word.startswith("--")]
        return [f"option {option}" for option in options if f'"{option}"' not in source]
    parser = argparse.ArgumentParser()
    parser.add_argument("protocol")
    parser.add_argument("--data")
    for name in ("--tables", "--methods"):
        parser.add_argument(name, nargs="+", default=[])
    asked = parser.parse_args(words[3:])
    if not (HERE / "protocols" / f"{asked.protocol}.toml").exists():
        return [f"protocol {asked.protocol}"]
    known = {table.get("name"): table for table in tables_of(load_protocol(asked.protocol))}
    found = [f"table {name}" for name in asked.tables if name not in known]
    chosen = [known[name] for name in asked.tables or known if name in known]
    methods = {method for table in chosen for method in table["methods"]}
    found += [f"method {name}" for name in asked.methods if name not in methods]
    if verdict in ("works", "behind"):  # it has been run
        done = methods_with_results(asked.protocol)
        found += [f"results of {name}" for name in asked.methods if name not in done]
    return found


def test_there_is_a_row_for_each_of_the_papers():
    ids = [row["id"] for row in ROWS]
    assert ids == [f"{letter}{i}" for letter, n in N_ROWS.items() for i in range(1, n + 1)]
    assert [paper["letter"] for paper in MISSION["papers"]] == list(N_ROWS)


def test_what_a_row_names_exists():
    assert {row["id"]: found for row in ROWS if (found := faults(row))} == {}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_faults_are_found(change):
    sound = {"id": "D3", "what": "", "code": "skgp.DSPPRegressor", "verdict": "works"}
    sound["test"] = "tests/core/test_activations.py::test_value"
    assert faults(sound) == []
    assert len(faults(sound | change)) == 1


def test_shortfalls_are_explained_where_they_say():
    ids = {row["id"] for row in ROWS}
    assert [shortfall["number"] for shortfall in MISSION["shortfalls"]] == list(range(1, 13))
    for shortfall in MISSION["shortfalls"]:
        assert set(shortfall["rows"]) <= ids
        assert shortfall["says"] in text_of(ROOT / shortfall["page"])


def test_the_page_is_written_from_the_file():
    assert (ROOT / PAGE).read_text() == render(MISSION)
