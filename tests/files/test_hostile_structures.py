"""Structures with a proper digest that describe no estimator, or a harmful one."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from watching import assert_nothing_ran, signed, watched

from skgp import SVGPRegressor, load, save
from skgp.exceptions import InvalidFileError
from skgp.files._container import pack, unpack

TEXTS = {
    "a key twice": ('{"format_version":1,"structure":{"class":"a","class":"b"}}', "a key twice"),
    "NaN": ('{"format_version":1,"structure":NaN}', "NaN is not a number"),
    "infinity": ('{"format_version":1,"structure":-Infinity}', "-Infinity is not a number"),
    "a large float": ('{"format_version":1,"structure":1e999}', "too large for a float"),
    "a large integer": ('{"format_version":1,"structure":%s}' % ("9" * 5000), "no valid JSON"),
    "deep": ('{"format_version":1,"structure":%s}' % ("[" * 10**6), "no valid JSON"),
    "no version": ('{"structure":null}', "names no version"),
    "version 0": ('{"format_version":0,"structure":null}', "format version 0"),
    "a later version": ('{"format_version":2,"structure":null}', "format version 2"),
    "a version that is a bool": ('{"format_version":true,"structure":null}', "names no version"),
    "a version that is a text": ('{"format_version":"1","structure":null}', "names no version"),
    "no structure": ('{"format_version":1}', "NoneType stands"),
    "a list": ("[1]", "names no version"),
    "no JSON": ("__import__('os').system('true')", "no valid JSON"),
    "long": (" " * (2**23 + 1), "has more than"),
}


@pytest.mark.parametrize(("text", "message"), TEXTS.values(), ids=TEXTS)
def test_texts_of_another_kind_are_refused(text: str, message: str, load_watched: Any) -> None:
    with pytest.raises(InvalidFileError, match=message):
        load_watched(signed(text, {}))


def test_a_later_version_is_named(load_watched: Any) -> None:
    text = '{"format_version":2,"versions":{"skgp":"9.9"}}'
    with pytest.raises(InvalidFileError, match=r"version 2, .* version 1.*9\.9"):
        load_watched(signed(text, {}))


NAMES = [
    *("os:system", "posix:system", "builtins:eval", "builtins:exec", "builtins:type"),
    *(
        "subprocess:Popen",
        "functools:partial",
        "pickle:loads",
        "torch:load",
        "joblib.memory:Memory",
    ),
    *("torch.nn.modules.lazy:LazyLinear", "torch.nn.parallel.data_parallel:DataParallel"),
    *("torch.jit._script:ScriptModule", "torch.nn:Module", "torch:Lazy", "gpytorch:RFFKernel"),
    *("skgp.core.training.run:Run", "skgp:Run", "skgp:Estimator", "skgp:Memory", "skgp:Layer"),
    *("skgp.estimators.svgp:SVGPRegressor", "skgp.compose._cross_fitted_regressor:x"),
    *("sklearn.pipeline:Pipeline", "__main__:main", "", ":", "skgp:", "../../evil"),
]


def module(name: Any = "torch:Sequential", **parts: Any) -> Any:
    """A module without anything in it."""
    empty = {"parameters": {}, "buffers": {}, "not_persistent": [], "modules": {}, "attributes": {}}
    return {"module": {"class": name, "training": False, **empty, **parts}}


def file_of(value: Any, name: Any = "skgp:SVGPRegressor", **state: Any) -> bytes:
    """An estimator without a fit, one parameter of which has this value."""
    tensors = {
        "extra": torch.zeros(1, dtype=torch.int64),
        "keys": torch.zeros(624, dtype=torch.uint32),
    }
    text = json.dumps(value)
    named = {name: tensor for name, tensor in tensors.items() if f'"{name}"' in text}
    return pack({"class": name, "state": {"random_state": value, **state}}, named)


PLACES = {
    "estimator": lambda name: file_of(0, name),
    "module": lambda name: file_of(module(name)),
    "object": lambda name: file_of({"object": {"class": name, "state": {}}}),
    "function": lambda name: file_of({"function": name}),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [*NAMES, None, 1, [], {}, ["os", "system"]])
def test_only_trusted_names_stand_for_something(name: Any, place: str, load_watched: Any) -> None:
    with pytest.raises(InvalidFileError, match=r"may stand here|in the place of str"):
        load_watched(PLACES[place](name))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("estimator", "skgp:SparseGP"),
        ("estimator", "torch:Linear"),
        ("estimator", "skgp:Scale"),
        ("module", "skgp:SVGPRegressor"),
        ("module", "skgp:Scale"),
        ("module", "torch:exp"),
        ("object", "skgp:SVGPRegressor"),
        ("object", "skgp:SparseGP"),
        ("object", "torch:exp"),
        ("function", "skgp:SparseGP"),
        ("function", "skgp:SVGPRegressor"),
        ("function", "torch:Linear"),
    ],
)
def test_trusted_names_stand_where_they_belong(place: str, name: str, load_watched: Any) -> None:
    with pytest.raises(InvalidFileError, match="may stand here"):
        load_watched(PLACES[place](name))


def test_abstract_classes_have_no_objects(load_watched: Any) -> None:
    with pytest.raises(InvalidFileError, match="cannot be made"):
        load_watched(file_of(module("skgp:NodeRule")))


ATTRIBUTES = [
    *("predict", "fit", "_recipe", "_validate_params", "_parameter_constraints", "_changeable"),
    *(
        "_doc_link_template",
        "__class__",
        "__reduce__",
        "__setstate__",
        "__dict__",
        "noise_variance_",
    ),
    *("_skl_callbacks", "_metadata_request", "parameter", "a b", "", "__deepcopy__", "__array__"),
]


@pytest.mark.parametrize("value", [1, {"function": "torch:exp"}, {"dict": []}])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_hide_nothing(name: str, value: Any, load_watched: Any) -> None:
    with pytest.raises(InvalidFileError, match=r"may not|has no parameter"):
        load_watched(file_of(0, **{name: value}))


@pytest.mark.parametrize("of", ["torch:Sequential", "skgp:Model", "gpytorch:RBFKernel"])
@pytest.mark.parametrize(
    "name", ["forward", "_forward_hooks", "_compiled_call_impl", "__call__", "training", "_modules"]
)
def test_attributes_of_modules_hide_nothing(name: str, of: str, load_watched: Any) -> None:
    load_watched(file_of(module(of, attributes={"harmless": {"function": "torch:exp"}})))
    with pytest.raises(InvalidFileError, match="may not have"):
        load_watched(file_of(module(of, attributes={name: {"function": "torch:exp"}})))


def test_a_file_names_no_folder_of_pickles(load_watched: Any) -> None:
    with pytest.raises(InvalidFileError, match="may not set memory"):
        load_watched(file_of(0, memory="/tmp/evil"))


def nested(n: int) -> Any:
    data: Any = 1
    for _ in range(n):
        data = [data]
    return data


def doubled(n: int) -> Any:
    """Modules each of which holds the one before it twice: 2^n in all."""
    twice = ({"0": {"ref": i}, "1": {"ref": i}} for i in range(n))
    return [module(), *(module(modules=modules) for modules in twice)]


def test_a_later_parameter_has_its_default(parts: Any, load_watched: Any) -> None:
    """A file of a version without it is read."""
    structure, tensors = parts
    assert structure["state"].pop("jitter") != 0.5
    assert load_watched(pack(structure, tensors)).jitter == SVGPRegressor().jitter


STORED = {"name": "extra", "order": [0]}
STRINGS = {"shape": [2], "values": ["a", "b"]}
STATE = [{"array": {"name": "keys", "order": [0]}}, 624, 0, 0.0]
NEW = {
    "a float": {"float": "nan"},
    "a tuple": {"tuple": [1, 2.0]},
    "a dictionary": {"dict": [["a", 1], [2, {"size": [3]}]]},
    "strings": {"strings": STRINGS},
    "objects": {"objects": {**STRINGS, "values": ["a", None]}},
    "an array": {"array": STORED},
    "a scalar": {"scalar": {"strings": {"shape": [], "values": ["a"]}}},
    "a tensor twice": {"tuple": [{"tensor": STORED}, {"ref": 0}]},
    "a generator": {"random_state": STATE},
    "nested": nested(99),
    "not nested": [[]] * 200,
    "modules": doubled(14),
}
VALUES = {
    "no kind": ({}, "no kind"),
    "an unknown kind": ({"pickle": "gASV"}, "no kind"),
    "two kinds": ({"tuple": [], "dict": []}, "no kind"),
    "a finite float": ({"float": "1.0"}, "no float"),
    "code for a float": ({"float": "__import__('os')"}, "no float"),
    "a float of another type": ({"float": []}, "no float"),
    "a key twice": ({"dict": [["a", 1], ["a", 2]]}, "a key twice"),
    "a key that is a list": ({"dict": [[[], 1]]}, "has a key that"),
    "a key that is a tuple": ({"dict": [[{"tuple": []}, 1]]}, "has a key that"),
    "no pairs": ({"dict": [["a"]]}, "pairs"),
    "no list": ({"tuple": "ab"}, "str stands"),
    "a negative size": ({"size": [-1]}, "negative"),
    "a size that is no number": ({"size": [True]}, "bool stands"),
    "too few strings": ({"strings": {**STRINGS, "shape": [3]}}, "has 2 entries"),
    "a size beyond memory": ({"strings": {"shape": [10**30, 0], "values": []}}, "describe"),
    "strings that are none": ({"strings": {**STRINGS, "values": ["a", 1]}}, "that are none"),
    "a long string": (
        {"strings": {"shape": [5000], "values": ["a" * 5000] + [""] * 4999}},
        "too large",
    ),
    "lists in an array": ({"objects": {**STRINGS, "values": [[], 1]}}, "neither strings nor"),
    "a scalar that is none": ({"scalar": 1}, "int stands"),
    "no such tensor": ({"array": {"name": "t9999", "order": [0]}}, "no tensor"),
    "a tensor that is used twice": ({"tuple": [{"array": STORED}] * 2}, "used twice"),
    "a tensor that nothing names": (["extra"], "nothing names"),
    "more axes than there are": ({"array": {**STORED, "order": [0, 1]}}, "no axes"),
    "axes that there are not": ({"array": {**STORED, "order": [7]}}, "no axes"),
    "an axis that is a text": ({"array": {**STORED, "order": ["0"]}}, "str stands"),
    "too many keys": ({"array": {**STORED, "dtype": "O"}}, "has the keys"),
    "an integer that is trained": (
        {"parameter": {**STORED, "requires_grad": True}},
        "parameter extra has",
    ),
    "a number beyond all": ({"tuple": [{"tensor": STORED}, {"ref": 1}]}, "module number 1"),
    "a negative number": ({"tuple": [{"tensor": STORED}, {"ref": -1}]}, "module number -1"),
    "a number that is a bool": ({"tuple": [{"tensor": STORED}, {"ref": False}]}, "bool stands"),
    "a module in itself": (module(modules={"0": {"ref": 0}}), "module number 0"),
    "a generator that reads beyond": ({"random_state": [STATE[0], 625, 0, 0.0]}, "no state"),
    "a generator before its start": ({"random_state": [STATE[0], -1, 0, 0.0]}, "no state"),
    "a generator of other keys": ({"random_state": [{"array": STORED}, 624, 0, 0.0]}, "no state"),
    "a generator of parts": ({"random_state": STATE[:3]}, "describe"),
    "a method of nothing": ({"method": "_lengthscale_param"}, "may not stand"),
    "deep": (nested(101), "deep"),
    "deeper": (nested(900), "deep|JSON"),
    "modules of modules": (doubled(40), "modules"),
}


@pytest.mark.parametrize("value", NEW.values(), ids=NEW)
def test_values_are_read(value: Any, load_watched: Any) -> None:
    load_watched(file_of(value))


def test_truth_values_are_zero_or_one(load_watched: Any) -> None:
    """NumPy and torch count on it where they count."""
    bits = torch.tensor([2, 0, 255], dtype=torch.uint8).view(torch.bool)
    structure = {"class": "skgp:SVGPRegressor", "state": {"n_": {"array": STORED}}}
    loaded = load_watched(pack(structure, {"extra": bits}))
    assert loaded.n_.view(np.uint8).tolist() == [1, 0, 1]


@pytest.mark.parametrize(("value", "message"), VALUES.values(), ids=VALUES)
def test_other_values_are_refused(value: Any, message: str, load_watched: Any) -> None:
    with pytest.raises(InvalidFileError, match=message):
        load_watched(file_of(value))


@pytest.mark.parametrize("name", ["__reduce__", "load_state_dict", "forward", "__init__", "_apply"])
def test_a_kernel_finds_its_priors_by_methods_of_one_kind(
    name: str, parts: Any, load_watched: Any
) -> None:
    structure, tensors = parts
    text = json.dumps(structure)
    assert text.count('{"method": "_lengthscale_param"}') == 2  # in the parameter, in the model
    structure = json.loads(text.replace('"_lengthscale_param"', f'"{name}"'))
    with pytest.raises(InvalidFileError, match="method"):
        load_watched(pack(structure, tensors))


def test_a_stream_does_not_go_on_from_moments_of_other_sizes(path: Path) -> None:
    """A fused step of torch would write beyond their ends."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = SVGPRegressor(n_inducing=5, random_state=0)
    save(model.partial_fit(X, X[:, 0]), path)
    structure, tensors = unpack(path.read_bytes())
    moments = json.dumps(structure["state"]["_optimizer_state"])
    for name in re.findall(r'"name": "(t\d+)"', moments):
        tensors[name] = tensors[name].new_zeros((0,) * tensors[name].dim())
    path.write_bytes(pack(structure, tensors))
    again = load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    opening, again._opening = again._opening, None  # as after many rows
    assert opening is not None
    with pytest.raises(ValueError, match="that of another model"):
        again.partial_fit(X, X[:, 0])


@pytest.mark.parametrize("part", ["parameters", "buffers", "modules"])
def test_parts_of_modules_are_of_their_types(part: str, load_watched: Any) -> None:
    load_watched(file_of(module(**{part: {"more": None}})))
    with pytest.raises(InvalidFileError, match="in the place of"):
        load_watched(file_of(module(**{part: {"more": [1.0]}})))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 11))]
)
def test_any_change_of_the_structure_is_harmless(parts: Any, path: Path, seed: int) -> None:
    """Another value in any place is refused as one kind of error, or it is an attribute."""
    structure, tensors = parts
    places = list(containers(structure))
    rng = np.random.default_rng(seed)
    values = [None, True, -1, 10**20, 0.5, "", "skgp:Model", "torch:exp", [], {}, nested(3)]
    values += [
        {"ref": 0},
        {"function": "torch:exp"},
        {"dict": []},
        {"tuple": [1]},
        {"float": "nan"},
    ]
    outcomes = set()
    for number in rng.integers(len(places), size=100):
        container, key = places[number]
        before = container[key]
        container[key] = values[rng.integers(len(values))]
        path.write_bytes(pack(structure, tensors))
        container[key] = before
        with watched() as calls:
            try:
                load(path)
                outcomes.add("loaded")
            except InvalidFileError:
                outcomes.add("refused")
        assert_nothing_ran(calls)
    assert outcomes == {"loaded", "refused"}


def containers(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a structure: its container, and its key or index there."""
    for key, item in data.items() if isinstance(data, dict) else enumerate(data):
        yield data, key
        if isinstance(item, dict | list):
            yield from containers(item)
