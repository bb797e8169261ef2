"""The versions that the checks run on are those that pyproject.toml promises."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import skgp

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# They read the code and are not imported by it, so they are not in the oldest environment.
LINTERS = {"mypy", "ruff", "scipy-stubs"}


def requirements(*extras: str) -> dict[str, Requirement]:
    """What the library and some of its extras need, by name."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def pins(name: str) -> dict[str, Version]:
    """Versions by name of a file of constraints."""
    lines = re.findall(r"^([\w-]+)==(\S+)", (ROOT / name).read_text(), flags=re.MULTILINE)
    return {package: Version(version) for package, version in lines}


def lower_bound(requirement: Requirement) -> Version:
    (bound,) = (spec.version for spec in requirement.specifier if spec.operator == ">=")
    return Version(bound)


def test_lower_bounds_are_the_oldest_tested_versions() -> None:
    bounds = {
        name: lower_bound(requirement)
        for name, requirement in requirements("plot", "test").items()
        if name not in LINTERS
    }
    oldest = pins("constraints-oldest.txt")
    assert bounds == {name: oldest[name] for name in bounds}


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-oldest.txt"])
def test_tested_versions_are_allowed(name: str) -> None:
    allowed = requirements("plot", "test")
    refused = {
        package: version
        for package, version in pins(name).items()
        if package in allowed and version not in allowed[package].specifier
    }
    assert not refused
    assert {"gpytorch", "numpy", "scikit-learn", "scipy", "torch"} <= set(pins(name))


def test_page_of_supported_versions_states_the_pins() -> None:
    """In minor versions, one row for each package that users may have."""
    page = (ROOT / "doc" / "supported_versions.md").read_text()
    rows = re.findall(r"^\| ([\w-]+).*? \| ([\d.]+) \| ([\d.]+) \|$", page, flags=re.MULTILINE)
    stated = {name.lower(): versions for name, *versions in rows if name != "Python"}
    oldest, newest = pins("constraints-oldest.txt"), pins("constraints.txt")
    assert {"torch", "gpytorch", "scikit-learn", "numpy", "scipy"} <= set(stated)
    for name, (low, high) in stated.items():
        assert oldest[name].release[:2] == Version(low).release[:2]
        assert newest[name].release[:2] == Version(high).release[:2]


def test_conda_recipe_needs_what_the_project_needs() -> None:
    """conda-forge calls torch pytorch, and has no extras."""
    recipe = (ROOT / "conda-recipe" / "recipe.yaml").read_text()
    run = re.search(r"^  run:\n((?:    - .*\n)+)", recipe, flags=re.MULTILINE)
    assert run is not None
    found = {line.removeprefix("    - ") for line in run[1].splitlines()}
    needed = [f"python {PROJECT['requires-python']}"]
    needed += [re.sub(r"^torch>", "pytorch>", line) for line in PROJECT["dependencies"]]
    assert found == {re.sub(r"^([\w-]+) ?", r"\1 ", line) for line in needed}
    assert re.search(r'version: "(.*)"', recipe)[1] == skgp.__version__  # type: ignore[index]
