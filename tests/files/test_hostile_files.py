"""Files that somebody has made or changed to do harm: each is refused, and nothing in it runs."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import safetensors.torch
import torch
from watching import signed

from skgp import load
from skgp.exceptions import InvalidFileError
from skgp.files._container import FORMAT_VERSION


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
    "endless header": (b"\xff" * 16, "or a part of one"),
    "large header": (with_header(b"{}".ljust(2**25)), "or a part of one"),
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
