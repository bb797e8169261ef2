"""Constructors are those of the table of parameters, and tools/signatures.py writes them."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator

import skgp
from skgp.estimators import baselines
from skgp.estimators._entries import Parameter
from skgp.estimators._parameters import GROUPS, PARAMETERS
from tools import signatures

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = [
    value
    for module in (skgp, baselines)
    for name in module.__all__
    if inspect.isclass(value := getattr(module, name)) and issubclass(value, BaseEstimator)
]
FAKE = '''\
"""A family."""


@family(texts={"of_several": "softmax"}, batch_size=Deviation(default="10"))
class FakeRegressor:
    """Text.

    Parameters
    ----------
    n_components : int, default=2
    $max_iter

    Training
    $minibatch
    normalize_X, normalize_y : bool, default=True
        Both.

    Attributes
    ----------
    model_ : object
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 10,
        learning_rate_init: float = 0.03,
        normalize_X: bool = True,
        normalize_y: bool = True,
    ) -> None:
        store_parameters(self, locals())

    def fit(self) -> None: ...
'''
BATCH_SIZE = "        batch_size: int = 10,\n"
MAX_ITER = '        max_iter: int | Literal["auto"] = "auto",\n'
# What is wrong with a constructor: (old, new) text.
WRONG = {
    "default": (BATCH_SIZE, BATCH_SIZE.replace("10", "1000")),
    "annotation": (BATCH_SIZE, BATCH_SIZE.replace("int", "float")),
    "missing": (BATCH_SIZE, ""),
    "surplus": (BATCH_SIZE, BATCH_SIZE + "        tol: float = 1e-4,\n"),
    "order": (MAX_ITER + BATCH_SIZE, BATCH_SIZE + MAX_ITER),
    "keyword": ("        *,\n", ""),
}
# (old, new) text of a docstring or decorator, and a part of the message.
UNKNOWN = {
    "parameter": ("$minibatch", "$minibatches", "no parameter minibatches"),
    "twice": ("    $minibatch\n", "    $minibatch\n    $max_iter\n", "max_iter twice"),
    "deviation": ("batch_size=Dev", "n_samples=Dev", "lacks n_samples"),
    "constructor": ("def __init__", "def __new__", "no __init__"),
}


def family_of(cls: type) -> signatures.Family:
    module = sys.modules[cls.__module__]
    named = {family.node.name: family for family in signatures.families(inspect.getsource(module))}
    return named[cls.__name__]


def with_change(old: str, new: str) -> str:
    assert FAKE.count(old) == 1
    return FAKE.replace(old, new)


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_the_constructor_is_that_of_the_table(cls: Any) -> None:
    family = family_of(cls)
    expected = family.parameters
    found = inspect.signature(cls).parameters
    names = vars(sys.modules[cls.__module__])
    assert list(found) == [parameter.name for parameter in expected]
    assert list(cls._parameter_constraints) == list(found)
    for parameter in expected:
        one = found[parameter.name]
        kind = one.POSITIONAL_OR_KEYWORD if parameter.positional else one.KEYWORD_ONLY
        assert one.kind == kind
        assert repr(one.default) == repr(eval(parameter.default, names)), parameter.name
        assert one.annotation == eval(parameter.annotation, names), parameter.name
        if parameter.name not in family.deviations:
            assert cls._parameter_constraints[parameter.name] is parameter.constraint


def test_all_groups_have_the_same_constraint_and_annotation_of_a_parameter() -> None:
    """Where docstrings are stripped, constraints come from the names alone."""
    assert not GROUPS.keys() & PARAMETERS.keys()

    def fixed(parameter: Parameter) -> tuple[Any, ...]:
        return parameter.annotation, id(parameter.constraint), parameter.positional

    for group in GROUPS.values():
        for parameter in group:
            assert fixed(parameter) == fixed(PARAMETERS[parameter.name])


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_entry_begins_with_the_name(name: str) -> None:
    every = [p for group in GROUPS.values() for p in group if p.name == name]
    for parameter in [PARAMETERS[name], *every]:
        entry = parameter.entry.removeprefix(f"\n{parameter.heading}\n")
        head = entry.partition(" : ")[0].split(", ")[0]
        assert head in ("", name)
        assert "$default" not in parameter.entry


@pytest.mark.parametrize(
    ("parameter", "entry"),
    [
        (Parameter("a", "int", "3", [], "Rows."), "a : int, default=3\n    Rows."),
        (Parameter("a", "float | None", "None", [], "Rows."), "a : float, optional\n    Rows."),
        (
            Parameter.choice("a", ("x", "y"), "x", "a is one of two."),
            'a : {"x", "y"}, default="x"\n    a is one of two.',
        ),
        (Parameter("a", "Any", "4", [], "a, b : int, default=$default"), "a, b : int, default=4"),
        (Parameter("a", "int", "3", []), ""),
    ],
)
def test_the_entry_has_name_type_and_default(parameter: Parameter, entry: str) -> None:
    assert parameter.entry == entry


def test_the_program_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert signatures.main(["--check"]) == 0
    assert capsys.readouterr().out == ""


def test_a_right_constructor_stays() -> None:
    assert signatures.rewritten(FAKE) == FAKE
    assert signatures.rewritten(FAKE + FAKE) == FAKE + FAKE
    assert signatures.rewritten("") == ""


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_constructor_is_rewritten(wrong: str) -> None:
    source = with_change(*WRONG[wrong])
    assert signatures.rewritten(source) == FAKE
    assert signatures.rewritten(source + FAKE + source) == FAKE * 3


@pytest.mark.parametrize("wrong", WRONG)
def test_check_finds_it_and_leaves_the_file(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "baselines" / "fake.py"
    path.parent.mkdir()
    path.write_text(with_change(*WRONG[wrong]))
    assert signatures.main(["--check", str(tmp_path)]) == 1
    assert path.read_text() != FAKE
    assert str(path) in capsys.readouterr().out
    assert signatures.main([str(tmp_path)]) == 0
    assert path.read_text() == FAKE
    assert signatures.main(["--check", str(tmp_path)]) == 0


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_what_the_program_cannot_write_is_an_error(unknown: str) -> None:
    *change, message = UNKNOWN[unknown]
    with pytest.raises(ValueError, match=message):
        signatures.rewritten(with_change(*change))


def test_the_command_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "fake.py").write_text(with_change(*WRONG["default"]))
    command = [sys.executable, "-m", "tools.signatures", "--check", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "fake.py" in done.stdout
