"""The rules of doc/architecture.md, checked on the syntax trees: no module is imported.

Each rule is a function from a project to the list of its violations. `BROKEN` holds, for each rule,
small projects that violate it, so a rule that stops to see anything fails here.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pytest
from levels import (
    ALLOWED_SETTERS,
    FACADES,
    FORBIDDEN,
    GLOBAL_SETTERS,
    INSIDE,
    LAZY,
    LEVELS,
    OWNERS,
    PUBLIC_FAMILIES,
    SIDE,
)

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = {"skgp": 400, "tests": 499, "examples": 499, "benchmarks": 499}


class Import(NamedTuple):
    """One imported name, absolute: `from a import b` gives `a.b`."""

    name: str
    line: int
    lazy: bool  # inside a function, or for type checkers only


@dataclass
class Module:
    """One file of the package."""

    name: str
    path: Path
    is_package: bool

    @cached_property
    def source(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, str(self.path))

    @cached_property
    def imports(self) -> list[Import]:
        return list(self._walk_imports(self.tree, lazy=False))

    def _walk_imports(self, node: ast.AST, lazy: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, child.lineno, lazy) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = self._absolute(child)
                for alias in child.names:
                    yield Import(f"{base}.{alias.name}", child.lineno, lazy)
            else:
                inner = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                inner = inner or (
                    isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
                )
                yield from self._walk_imports(child, inner)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        base = package[: len(package) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])

    @cached_property
    def public_names(self) -> list[str] | None:
        """`__all__`, or None where the module has none."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return list(ast.literal_eval(node.value))
        return None


@dataclass
class Project:
    """A repository with a package `skgp`."""

    root: Path

    @cached_property
    def modules(self) -> dict[str, Module]:
        found = {}
        for path in sorted((self.root / "skgp").rglob("*.py")):
            parts = path.relative_to(self.root).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            found[name] = Module(name, path, is_package)
        return found

    def target(self, name: str) -> str:
        """The module that an imported name of skgp stands in."""
        while name not in self.modules and "." in name:
            name = name.rpartition(".")[0]
        return name


def is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def unit_of(name: str) -> tuple[int, str] | None:
    """(level, unit) of a module; the side modules have level -1."""
    for side in SIDE:
        if is_in(name, side):
            return -1, side
    for level, units in enumerate(LEVELS):
        for unit in units:
            if unit == "skgp.estimators." and name.startswith(unit) and "._" not in name:
                return level, ".".join(name.split(".")[:3])  # each family is a unit
            if is_in(name, unit):
                return level, unit
    return None


def import_levels(project: Project) -> Iterator[str]:
    """Imports go down the levels."""
    for module in project.modules.values():
        source = unit_of(module.name)
        if source is None and module.name not in FACADES:
            yield f"{module.name} has no level in tests/levels.py and doc/architecture.md"
            continue
        for name, line, _ in module.imports:
            if not is_in(name, "skgp"):
                continue
            target = project.target(name)
            end = unit_of(target)
            if module.name in FACADES:
                allowed = is_in(target, module.name)
            elif source is None or end is None or target in FACADES:
                allowed = False
            elif source[1] == end[1]:
                allowed = True
            elif source[0] == -1:
                allowed = end[1] in SIDE[source[1]]
            else:
                allowed = 0 <= end[0] < source[0]
            if not allowed:
                yield f"{module.name}:{line} must not import {target}"


def third_party_imports(project: Project) -> Iterator[str]:
    """gpytorch, scikit-learn, torch and matplotlib are imported only where they belong."""
    for module in project.modules.values():
        for name, line, lazy in module.imports:
            package = name.split(".")[0]
            where = f"{module.name}:{line}"
            if package in OWNERS and not any(is_in(module.name, m) for m in OWNERS[package]):
                yield f"{where} must not import {package}"
            for part, packages in FORBIDDEN.items():
                exempt = packages.get(package)
                if is_in(module.name, part) and exempt and module.name not in exempt:
                    yield f"{where} must not import {package}"
            for part, packages in LAZY.items():
                if is_in(module.name, part) and package in packages and not lazy:
                    yield f"{where} must import {package} inside the function that needs it"


def no_print(project: Project) -> Iterator[str]:
    """The library does not print."""
    for module in project.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
                yield f"{module.name}:{node.lineno} calls print"


def no_module_state(project: Project) -> Iterator[str]:
    """A mutable value of a module is a constant by its name, and nothing rebinds a global."""
    containers = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
    makers = {"dict", "list", "set", "defaultdict", "OrderedDict", "Counter", "deque"}
    for module in project.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Global):
                yield f"{module.name}:{node.lineno} rebinds a global"
        for node in module.tree.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            value = node.value
            is_call = isinstance(value, ast.Call)
            if not isinstance(value, containers) and not (
                is_call and ast.unparse(value.func).rpartition(".")[2] in makers
            ):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in map(ast.unparse, targets):
                if target != "__all__" and not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", target):
                    yield f"{module.name}:{node.lineno} holds mutable state in {target}"


def no_global_settings(project: Project) -> Iterator[str]:
    """No global seed, dtype, device or thread count is set."""
    for module in project.modules.values():
        aliases = {"np": "numpy"} | {name.rpartition(".")[2]: name for name, _, _ in module.imports}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                head, dot, rest = ast.unparse(node.func).partition(".")
                setter = aliases.get(head, head) + dot + rest
                if setter in GLOBAL_SETTERS and (module.name, setter) not in ALLOWED_SETTERS:
                    yield f"{module.name}:{node.lineno} calls {ast.unparse(node.func)}"


def file_length(project: Project) -> Iterator[str]:
    """A file that grows past the limit holds more than one noun."""
    for folder, most in MAX_LINES.items():
        for path in sorted((project.root / folder).rglob("*.py")):
            n_lines = len(path.read_text().splitlines())
            if n_lines > most:
                yield f"{path.relative_to(project.root)} has {n_lines} lines: split it"


def docstrings(project: Project) -> Iterator[str]:
    """Every module says what it is."""
    for module in project.modules.values():
        if not ast.get_docstring(module.tree):
            yield f"{module.name} has no docstring"


def is_public(module: Module) -> bool:
    """The user imports from it: not core, nothing private, no family whose names skgp exports."""
    hidden = any(is_in(module.name, f"skgp.{part}") for part in INSIDE)
    return module.name in PUBLIC_FAMILIES or (not hidden and "._" not in module.name)


def public_names(project: Project) -> Iterator[str]:
    """`__all__` stands in every public module and is sorted, by the order of `sorted`."""
    for module in project.modules.values():
        names = module.public_names
        if names is None and is_public(module):
            yield f"{module.name} has no __all__"
        if names is not None and names != sorted(set(names)):
            yield f"{module.name}: __all__ is not sorted: {sorted(set(names))}"


def api_reference(project: Project) -> Iterator[str]:
    """doc/api.rst lists the public names, and no others."""
    documented = set()
    current = ""
    for line in (project.root / "doc" / "api.rst").read_text().splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            current = match[1]
        elif match := re.fullmatch(r"   ([A-Za-z_]\w*)", line):
            documented.add((current, match[1]))
    names_documented = {name for _, name in documented}
    for module in filter(is_public, project.modules.values()):
        for name in module.public_names or []:
            if name not in names_documented and not name.startswith("__"):
                yield f"doc/api.rst lacks {module.name}.{name}"
    for module_name, name in sorted(documented):
        module = project.modules.get(module_name)
        if module is None or name not in (module.public_names or []):
            yield f"doc/api.rst names {module_name}.{name}, which is not public"


RULES: dict[str, Callable[[Project], Iterator[str]]] = {
    rule.__name__: rule
    for rule in (
        import_levels,
        third_party_imports,
        no_print,
        no_module_state,
        no_global_settings,
        file_length,
        docstrings,
        public_names,
        api_reference,
    )
}

# (rule, file, content, a part of the expected message); every other file of the project is sound.
BROKEN = [
    (
        "import_levels",
        "core/numerics/linalg.py",
        "from skgp.core.layers import sparse",
        "core.layers",
    ),
    ("import_levels", "core/numerics/linalg.py", "from ..layers import sparse", "core.layers"),
    ("import_levels", "core/kernels/kernel.py", "from skgp.core import nodes", "core.nodes"),
    (
        "import_levels",
        "core/nodes/rules.py",
        "def f():\n    import skgp.core.stacks",
        "core.stacks",
    ),
    (
        "import_levels",
        "core/stacks/stack.py",
        "from skgp.core import likelihoods",
        "core.likelihoods",
    ),
    (
        "import_levels",
        "core/layers/sparse.py",
        "from skgp.estimators._regressor import Regressor",
        "_regressor",
    ),
    ("import_levels", "core/layers/sparse.py", "from skgp import SVGPRegressor", "import skgp"),
    ("import_levels", "core/__init__.py", "import skgp.scoring", "scoring"),
    ("import_levels", "core/newcomer.py", "", "has no level"),
    ("import_levels", "estimators/deep.py", "from .sparse import SVGPRegressor", "sparse"),
    ("import_levels", "estimators/_regressor.py", "from .sparse import SVGPRegressor", "sparse"),
    ("import_levels", "estimators/_newcomer.py", "", "has no level"),
    ("import_levels", "fitting/model.py", "from skgp.recipes.stack import build", "recipes.stack"),
    ("import_levels", "fitting/model.py", "from skgp.fitting import recipe", "fitting.recipe"),
    ("import_levels", "scoring/__init__.py", "from skgp.core import numerics", "core.numerics"),
    ("import_levels", "scoring/__init__.py", "from .. import plotting", "plotting"),
    ("third_party_imports", "core/layers/sparse.py", "import gpytorch.kernels", "gpytorch"),
    ("third_party_imports", "core/layers/sparse.py", "def f():\n    import sklearn", "sklearn"),
    ("third_party_imports", "distributions.py", "from torch import Tensor", "torch"),
    ("third_party_imports", "scoring/_crps.py", "if True:\n    import torch", "torch"),
    ("third_party_imports", "plotting.py", "import matplotlib.pyplot as plt", "matplotlib"),
    ("no_print", "core/layers/sparse.py", "def f():\n    print(1)", "print"),
    ("no_module_state", "core/layers/sparse.py", "cache = {}", "cache"),
    ("no_module_state", "core/layers/sparse.py", "seen: list[int] = list()", "seen"),
    ("no_module_state", "core/layers/sparse.py", "def f():\n    global n\n    n = 1", "global"),
    (
        "no_global_settings",
        "core/layers/sparse.py",
        "import torch\ntorch.manual_seed(0)",
        "manual_seed",
    ),
    (
        "no_global_settings",
        "core/layers/sparse.py",
        "from torch import manual_seed as manual_seed\nmanual_seed(0)",
        "manual_seed",
    ),
    ("no_global_settings", "datasets.py", "import numpy as np\nnp.random.seed(0)", "seed"),
    ("file_length", "core/layers/sparse.py", "x = 1\n" * MAX_LINES["skgp"], "sparse.py"),
    ("docstrings", "core/layers/sparse.py", None, "core.layers"),
    ("public_names", "exceptions.py", "", "no __all__"),
    ("public_names", "exceptions.py", "__all__ = ['B', 'A']", "not sorted"),
    ("public_names", "estimators/baselines.py", "", "no __all__"),
    ("api_reference", "exceptions.py", "__all__ = ['FitError', 'Unheard']", "Unheard"),
    ("api_reference", "exceptions.py", "__all__ = []", "FitError"),
]

SOUND = {
    "__init__.py": "from skgp.estimators.sparse import SVGPRegressor\n__all__ = ['SVGPRegressor']",
    "exceptions.py": "__all__ = ['FitError']",
    "distributions.py": "def to_torch():\n    import torch\n__all__ = []",
    "datasets.py": "__all__ = []",
    "plotting.py": "from skgp.scoring import pit\n__all__ = []",
    "scoring/__init__.py": "from skgp.scoring._crps import crps\n__all__ = []",
    "scoring/_crps.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
    "core/__init__.py": "",
    "core/numerics/__init__.py": "",
    "core/numerics/linalg.py": "from skgp.exceptions import FitError",
    "core/kernels/__init__.py": "",
    "core/kernels/kernel.py": "import gpytorch\nfrom ..numerics import linalg\nKERNELS = {}",
    "core/kernels/inducing.py": "from sklearn.cluster import KMeans",
    "core/nodes/__init__.py": "",
    "core/nodes/rules.py": "import torch\ng = torch.Generator().manual_seed(0)",
    "core/layers/__init__.py": "",
    "core/layers/sparse.py": "from skgp.core.kernels.kernel import Kernel",
    "core/likelihoods/__init__.py": "",
    "core/stacks/__init__.py": "",
    "core/stacks/stack.py": "from skgp.core.layers.sparse import SparseGP",
    "estimators/__init__.py": "",
    "fitting/__init__.py": "",
    "fitting/model.py": "from ..core.stacks.stack import GPStack",
    "fitting/recipe.py": "from skgp.fitting.model import Model",
    "recipes/stack.py": "from skgp.fitting.recipe import Recipe",
    "estimators/_parameters.py": "",
    "estimators/_regressor.py": "from ._estimator import Estimator\nfrom ..core import stacks",
    "estimators/_estimator.py": "",
    "estimators/sparse.py": "from skgp.estimators._regressor import GPRegressor",
    "estimators/deep.py": "from skgp.estimators._regressor import GPRegressor",
}


def make_project(root: Path, changes: dict[str, str | None]) -> Project:
    """Write the sound project with some files replaced; None leaves the docstring out."""
    for name, content in (SOUND | changes).items():
        path = root / "skgp" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if content is None else f'"""A module."""\n{content}\n')
    api = ".. currentmodule:: skgp\n\n.. autosummary::\n\n   SVGPRegressor\n\n"
    api += ".. currentmodule:: skgp.exceptions\n\n.. autosummary::\n\n   FitError\n"
    (root / "doc").mkdir()
    (root / "doc" / "api.rst").write_text(api)
    return Project(root)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_skgp_keeps_the_rule(rule: Callable[[Project], Iterator[str]]) -> None:
    project = Project(ROOT)
    assert len(project.modules) > 10
    assert list(rule(project)) == []


def test_the_tables_name_modules_that_exist() -> None:
    units = {unit for level in LEVELS for unit in level} - {"skgp.estimators."}
    owners = {module for modules in OWNERS.values() for module in modules}
    assert units | owners | SIDE.keys() | set(FACADES) <= Project(ROOT).modules.keys()


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rule_accepts_a_sound_project(
    rule: Callable[[Project], Iterator[str]], tmp_path: Path
) -> None:
    assert list(rule(make_project(tmp_path, {}))) == []


@pytest.mark.parametrize(("rule", "file", "content", "message"), BROKEN)
def test_rule_finds_the_violation(
    rule: str, file: str, content: str | None, message: str, tmp_path: Path
) -> None:
    found = list(RULES[rule](make_project(tmp_path, {file: content})))
    assert len(found) == 1
    assert message in found[0]


def test_every_rule_has_a_broken_example() -> None:
    assert {rule for rule, *_ in BROKEN} == set(RULES)
