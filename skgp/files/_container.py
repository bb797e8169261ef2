"""One safetensors file: tensors, and a text of JSON in its metadata.

Nothing in such a file is compressed, and nothing has a path. Its header says where each tensor
lies, and safetensors refuses one whose tensors overlap, leave gaps or reach beyond the end.
"""

import hashlib
import json
import math
import platform
from collections.abc import Mapping
from importlib.metadata import version
from types import ModuleType
from typing import Any, Final

import torch
from torch import Tensor

from skgp._version import __version__
from skgp.exceptions import InvalidFileError

FORMAT_VERSION: Final = 1

_LONGEST_TEXT: Final = 2**23  # characters of JSON: as Python objects they may take 50 times as much
_LONGEST_HEADER: Final = 2 * _LONGEST_TEXT + 2**22  # the text with its quotes escaped; the tensors
_PACKAGES: Final = ("torch", "gpytorch", "scikit-learn", "numpy", "safetensors")


def pack(structure: Any, tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a file, from a structure that JSON can express and contiguous tensors.

    Raises
    ------
    ValueError
        If the structure is too long.
    """
    document = {
        "format_version": FORMAT_VERSION,
        "versions": {
            "skgp": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in _PACKAGES},
        },
        "structure": structure,
    }
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    if len(text) > _LONGEST_TEXT:
        raise ValueError(
            f"the attributes outside of arrays take {len(text)} characters, and a file may have "
            f"{_LONGEST_TEXT}: turn long lists into NumPy arrays"
        )
    metadata = {"skgp": text, "sha256": _digest(text, tensors)}
    content: bytes = _safetensors().save(dict(tensors), metadata)
    return content


def unpack(content: bytes) -> tuple[Any, dict[str, Tensor]]:
    """Structure and tensors of a file.

    Raises
    ------
    InvalidFileError
        If these are not the bytes of a file that `pack` has written, or of another version.
    """
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(len(content) - 8, _LONGEST_HEADER):
        raise InvalidFileError("this is no file that skgp.save has written, or a part of one")
    header = _parsed(content[8 : 8 + length])
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("skgp"), str):
        raise InvalidFileError("this is no file that skgp.save has written")
    text = metadata["skgp"]
    if len(text) > _LONGEST_TEXT:
        raise InvalidFileError(f"the structure has more than {_LONGEST_TEXT} characters")
    document = _parsed(text.encode())
    if not isinstance(document, dict) or type(document.get("format_version")) is not int:
        raise InvalidFileError("the file names no version of its format")
    if document["format_version"] != FORMAT_VERSION:
        raise InvalidFileError(
            f"the file has format version {document['format_version']}, and this skgp "
            f"({__version__}) reads version {FORMAT_VERSION}: it was written with "
            f"{document.get('versions')}"
        )
    load = _safetensors().load
    try:
        tensors: dict[str, Tensor] = load(content)
    except Exception as error:  # of many types: it depends on what is wrong
        raise InvalidFileError(f"the tensors of the file cannot be read: {error}") from error
    if metadata.get("sha256") != _digest(text, tensors):
        raise InvalidFileError("the file has been changed since skgp.save has written it")
    return document.get("structure"), tensors


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Of all that a file says. It finds accidents and edits, but anybody can compute it anew."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _parsed(text: bytes) -> Any:
    """The value of a JSON text, without what the standard does not allow."""
    try:
        return json.loads(
            text.decode(),
            object_pairs_hook=_without_repetitions,
            parse_constant=_no_number,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(f"the structure of the file is no valid JSON: {error}") from error


def _without_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large for a float")
    return number


def _safetensors() -> ModuleType:
    """The functions of safetensors for torch, which nothing but files needs."""
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError("save and load need safetensors: pip install skgp[files]") from error
    return safetensors.torch
