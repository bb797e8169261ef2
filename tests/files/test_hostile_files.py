"""Files that somebody has made or changed to do harm: each is refused, and nothing in it runs."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import safetensors.torch
import torch
from conftest import assert_nothing_ran, signed, watched

from skgp import SVGPRegressor, load
from skgp.exceptions import InvalidFileError
from skgp.files._container import FORMAT_VERSION, pack


class Bomb:
    """It leaves a file behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


def saved_by_torch(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def dumped_by_joblib(value: Any) -> bytes:
    buffer = io.BytesIO()
    joblib.dump(value, buffer)
    return buffer.getvalue()


def object_array(value: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, np.array([value], dtype=object))
    return buffer.getvalue()


@pytest.mark.parametrize("dump", [pickle.dumps, saved_by_torch, dumped_by_joblib, object_array])
def test_a_pickle_with_another_name_does_not_run(
    dump: Callable[[Any], bytes], tmp_path: Path, load_watched: Any
) -> None:
    mark = tmp_path / "mark"
    with pytest.raises(InvalidFileError):
        load_watched(dump(Bomb(mark)))
    assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists()


def test_archives_are_no_files(tmp_path: Path, load_watched: Any) -> None:
    """There is nothing to unpack, so no path of a member leads out, and no bomb grows."""
    for name, member in [("../../evil", b"x"), ("/tmp/evil", b"x"), ("bomb", bytes(10**7))]:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, member)
        with pytest.raises(InvalidFileError, match="no file that skgp"):
            load_watched(buffer.getvalue())
    assert not (tmp_path.parent.parent / "evil").exists()


def with_header(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


TENSOR = b'"a":{"dtype":"F64","shape":[%s],"data_offsets":[%s]}'
META = b'"__metadata__":{"skgp":"{}"}'
WITHOUT_SENSE = {
    "empty": (b"", "no file that skgp"),
    "short": (b"\1\0", "no file that skgp"),
    "no header": (bytes(8), "no file that skgp"),
    "endless header": (b"\xff" * 16, "no file that skgp"),
    "long header": ((10**6).to_bytes(8, "little") + b"{}", "no file that skgp"),
    "no JSON": (with_header(b"import os"), "no valid JSON"),
    "no text": (with_header(b"\xff\xfe\xfd"), "no valid JSON"),
    "no object": (with_header(b"[]"), "no file that skgp"),
    "no metadata": (with_header(b"{}"), "no file that skgp"),
    "empty metadata": (with_header(b'{"__metadata__":{}}'), "no file that skgp"),
    "other metadata": (with_header(b'{"__metadata__":{"skgp":1}}'), "no file that skgp"),
    "a key twice": (with_header(b"{%s,%s}" % (META, META)), "a key twice"),
    "NaN": (with_header(b'{%s,"a":NaN}' % META), "NaN is not a number"),
    "nested": (with_header(b"[" * 100_000), "no valid JSON"),
    "a large integer": (with_header(b'{"a":' + b"9" * 5000 + b"}"), "no valid JSON"),
}


@pytest.mark.parametrize(("content", "message"), WITHOUT_SENSE.values(), ids=WITHOUT_SENSE)
def test_bytes_without_sense_are_refused(content: bytes, message: str, load_watched: Any) -> None:
    with pytest.raises(InvalidFileError, match=message):
        load_watched(content)


@pytest.mark.parametrize(
    ("shape", "offsets"),
    [
        (b"1000000000000", b"0,8"),
        (b"18446744073709551615,18446744073709551615", b"0,8"),
        (b"1", b"0,9223372036854775807"),
        (b"-1", b"0,8"),
        (b"1", b"8,0"),
        (b"1", b"8,16"),
    ],
)
def test_tensors_beyond_the_file_are_refused(
    shape: bytes, offsets: bytes, load_watched: Any
) -> None:
    text = json.dumps(json.dumps({"format_version": FORMAT_VERSION, "structure": None})).encode()
    header = b'{"__metadata__":{"skgp":%s},%s}' % (text, TENSOR % (shape, offsets))
    with pytest.raises(InvalidFileError, match="tensors of the file cannot be read"):
        load_watched(with_header(header, bytes(8)))


def test_a_part_of_a_file_is_refused(content: bytes, path: Path) -> None:
    for length in np.linspace(0, len(content) - 1, 50).astype(int):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidFileError):
            load(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(InvalidFileError):
        load(path)


def test_a_file_with_another_byte_is_refused(content: bytes, path: Path) -> None:
    rng = np.random.default_rng(0)
    for position, mask in zip(
        rng.integers(len(content), size=300), rng.integers(1, 256, size=300), strict=True
    ):
        spoilt = bytearray(content)
        spoilt[position] ^= int(mask)
        path.write_bytes(spoilt)
        with pytest.raises(InvalidFileError):
            load(path)


def test_a_number_in_a_file_cannot_be_changed_unnoticed(
    parts: Any, model: Any, load_watched: Any
) -> None:
    structure, tensors = parts
    text = json.dumps({"format_version": FORMAT_VERSION, "structure": structure})
    assert load_watched(signed(text, tensors)).n_inducing == model.n_inducing
    changed = text.replace('"n_inducing":5', '"n_inducing":6')
    for other in (
        signed(text.replace('"n_inducing": 5', '"n_inducing": 6'), tensors, sha256="0" * 64),
        safetensors.torch.save(tensors, {"skgp": changed}),
    ):
        with pytest.raises(InvalidFileError, match="has been changed"):
            load_watched(other)


# ------------------------------------------------ structures with a proper digest

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


def modules_of(data: Any) -> Iterator[dict[str, Any]]:
    """Every module that a structure describes."""
    for item in data.values() if isinstance(data, dict) else data:
        if isinstance(item, dict | list):
            yield from modules_of(item)
    if isinstance(data, dict) and "module" in data:
        yield data["module"]


@pytest.mark.parametrize("name", [*NAMES, None, 1, [], {}, ["os", "system"]])
@pytest.mark.parametrize("place", ["estimator", "module", "object", "function", "parameter"])
def test_only_trusted_names_stand_for_something(
    name: Any, place: str, parts: Any, load_watched: Any
) -> None:
    structure, tensors = parts
    state = structure["state"]
    if place == "estimator":
        structure["class"] = name
    elif place == "module":
        next(modules_of(structure))["class"] = name
    elif place == "object":
        state["model_"]["module"]["attributes"]["x_scale"]["object"]["class"] = name
    elif place == "function":
        state["feature_extractor"] = {"function": name}
    else:
        state["feature_extractor"] = {"object": {"class": name, "state": {}}}
    with pytest.raises(InvalidFileError):
        load_watched(pack(structure, tensors))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("estimator", "skgp:SparseGP"),
        ("estimator", "torch:Linear"),
        ("estimator", "skgp:Scale"),
        ("module", "skgp:SVGPRegressor"),
        ("module", "skgp:Scale"),
        ("module", "torch:exp"),
        ("module", "skgp:NodeRule"),
        ("object", "skgp:SVGPRegressor"),
        ("object", "skgp:SparseGP"),
        ("object", "torch:exp"),
        ("function", "skgp:SparseGP"),
        ("function", "skgp:SVGPRegressor"),
        ("function", "torch:Linear"),
    ],
)
def test_trusted_names_stand_where_they_belong(
    place: str, name: str, parts: Any, load_watched: Any
) -> None:
    test_only_trusted_names_stand_for_something(name, place, parts, load_watched)


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
    *("_skl_callbacks", "_metadata_request", "parameter", "a b", ""),
]


@pytest.mark.parametrize("value", [1, {"function": "torch:exp"}, {"dict": []}])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_hide_nothing(name: str, value: Any, parts: Any, load_watched: Any) -> None:
    structure, tensors = parts
    structure["state"][name] = value
    with pytest.raises(InvalidFileError):
        load_watched(pack(structure, tensors))


@pytest.mark.parametrize(
    "name", ["forward", "_forward_hooks", "_compiled_call_impl", "__call__", "training", "_modules"]
)
def test_attributes_of_modules_hide_nothing(name: str, parts: Any, load_watched: Any) -> None:
    structure, tensors = parts
    for module in list(modules_of(structure)):
        module["attributes"][name] = {"function": "torch:exp"}
        with pytest.raises(InvalidFileError, match="may not have"):
            load_watched(pack(structure, tensors))
        del module["attributes"][name]
    load_watched(pack(structure, tensors))


def test_a_file_names_no_folder_of_pickles(parts: Any, load_watched: Any) -> None:
    structure, tensors = parts
    structure["state"]["memory"] = "/tmp/evil"
    with pytest.raises(InvalidFileError, match="may not set memory"):
        load_watched(pack(structure, tensors))


def nested(n: int) -> Any:
    data: Any = 1
    for _ in range(n):
        data = [data]
    return data


def doubled(n: int) -> Any:
    """Modules each of which holds the one before it twice: 2^n in all."""
    empty = {"parameters": {}, "buffers": {}, "not_persistent": [], "attributes": {}}
    empty |= {"class": "torch:Sequential", "training": False}
    data: list[Any] = [{"module": {**empty, "modules": {}}}]
    for i in range(n):
        twice = {"0": {"ref": i}, "1": {"ref": i}}
        data.append({"module": {**empty, "modules": twice}})
    return data


def test_a_later_parameter_has_its_default(parts: Any, load_watched: Any) -> None:
    """A file of a version without it is read."""
    structure, tensors = parts
    assert structure["state"].pop("jitter") != 0.5
    assert load_watched(pack(structure, tensors)).jitter == SVGPRegressor().jitter


def held_by_itself() -> Any:
    (module,) = doubled(0)
    module["module"]["modules"]["0"] = {"ref": 0}
    return module


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
    "a module in itself": (held_by_itself(), "module number 0"),
    "a generator that reads beyond": ({"random_state": [STATE[0], 625, 0, 0.0]}, "no state"),
    "a generator before its start": ({"random_state": [STATE[0], -1, 0, 0.0]}, "no state"),
    "a generator of other keys": ({"random_state": [{"array": STORED}, 624, 0, 0.0]}, "no state"),
    "a generator of parts": ({"random_state": STATE[:3]}, "describe"),
    "a method of nothing": ({"method": "_lengthscale_param"}, "may not stand"),
    "deep": (nested(101), "deep"),
    "deeper": (nested(900), "deep|JSON"),
    "modules of modules": (doubled(40), "modules"),
}


def file_of(value: Any) -> bytes:
    """An estimator without a fit, one parameter of which has this value."""
    tensors = {
        "extra": torch.zeros(1, dtype=torch.int64),
        "keys": torch.zeros(624, dtype=torch.uint32),
    }
    text = json.dumps(value)
    named = {name: tensor for name, tensor in tensors.items() if f'"{name}"' in text}
    return pack({"class": "skgp:SVGPRegressor", "state": {"random_state": value}}, named)


@pytest.mark.parametrize("value", NEW.values(), ids=NEW)
def test_values_are_read(value: Any, load_watched: Any) -> None:
    load_watched(file_of(value))


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


@pytest.mark.parametrize("part", ["parameters", "buffers", "modules"])
def test_parts_of_modules_are_of_their_types(part: str, parts: Any, load_watched: Any) -> None:
    structure, tensors = parts
    structure["state"]["model_"]["module"][part]["more"] = [1.0]
    with pytest.raises(InvalidFileError, match="in the place of"):
        load_watched(pack(structure, tensors))


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
