"""A nested state as tensors and one JSON text, and as one safetensors file that is checked before it is believed.

Nothing is pickled. The file's SHA-256 is over every byte of it, with zeros in the place of the digest itself.
"""

import hashlib
import json
import math
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from samc.errors import DataError
from samc.files import write_whole
from samc.tensor_files import LENGTH_BYTES, open_tensors
from samc.version import VERSION

FORMAT = 1
KEY = "samc"
# all our text is under one key: the library writes several in an order that changes from call to call
BYTES = "bytes"
# the tensor that all of a state's byte strings lie in, one after the other: thousands of small tensors would be slow
NO_DIGEST = b"0" * 64
DIGEST = rb"\"sha256\":\""
# what stands before the digest: the first of the text, whose quotes the header escapes once; those in a state, twice
PLAIN = (bool, int, str, type(None))
TAGS = {float: "float", bytes: "bytes", tuple: "tuple", dict: "dict", OrderedDict: "ordered", np.ndarray: "array"}
# a value that JSON has no word for is an object of one key, which says what it is; tensors are among them


class Packing:
    """Collects the tensors and byte strings of a state while its structure is written down."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.places: set[int] = set()
        self.strings: list[bytes] = []

    def structure(self, value: Any, path: str) -> Any:
        """What JSON can hold of a value: all but tensors and bytes, which it names. Objects of one key are ours."""
        kind = type(value)
        if kind in PLAIN or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.structure(part, f"{path}.{place}") for place, part in enumerate(value)]
        tag = "tensor" if isinstance(value, Tensor) else TAGS.get(kind)
        if tag is None or (tag == "array" and value.dtype.hasobject):
            known = "a state holds numbers, texts, bytes, tensors and arrays"
            raise TypeError(f"{known}; {path or 'it'} is a {kind.__name__}")
        return {tag: getattr(self, f"{tag}_content")(value, path)}

    def float_content(self, value: float, path: str) -> str:
        return str(value)

    def bytes_content(self, value: bytes, path: str) -> int:
        self.strings.append(value)
        return len(value)

    def tuple_content(self, value: tuple, path: str) -> list:
        return self.structure(list(value), path)

    def dict_content(self, value: dict, path: str) -> list:
        return [[self.structure(key, path), self.structure(part, f"{path}.{key}")] for key, part in value.items()]

    ordered_content = dict_content

    def tensor_content(self, value: Tensor, path: str) -> str:
        return self.add(value.detach(), path)

    def array_content(self, value: np.ndarray, path: str) -> list:
        content = torch.from_numpy(np.frombuffer(value.tobytes(), np.uint8).copy())
        return [self.add(content, path), value.dtype.str, list(value.shape)]

    def add(self, tensor: Tensor, path: str) -> str:
        """Under a name of its own, which also says where it belongs."""
        tensor = tensor.cpu().contiguous()
        if tensor.untyped_storage().data_ptr() in self.places:
            tensor = tensor.clone()  # the library refuses tensors that share their memory
        self.places.add(tensor.untyped_storage().data_ptr())
        name = f"{len(self.tensors)}{re.sub('[^.0-9A-Za-z_]', '', path)[:100]}"
        self.tensors[name] = tensor
        return name


def pack(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """What JSON can hold of a state, and its tensors by name."""
    packing = Packing()
    structure = packing.structure(state, "")
    if any(packing.strings):
        content = np.frombuffer(b"".join(packing.strings), np.uint8).copy()
        packing.tensors[BYTES] = torch.from_numpy(content)
    return structure, packing.tensors


def unpack(structure: Any, tensors: dict[str, Tensor]) -> Any:
    """The state again, every type as it was."""
    return Unpacking(tensors).value(structure)


class Unpacking:
    """Puts tensors and byte strings back to where the structure names them, in its order."""

    def __init__(self, tensors: dict[str, Tensor]):
        self.tensors = tensors
        self.content = tensors[BYTES].numpy().tobytes() if BYTES in tensors else b""
        self.start = 0
        self.read: dict[str, Callable[[Any], Any]] = {
            "float": float,
            "bytes": self.next_bytes,
            "tuple": lambda parts: tuple(self.value(parts)),
            "dict": lambda pairs: dict(self.value(pairs)),
            "ordered": lambda pairs: OrderedDict(self.value(pairs)),
            "tensor": tensors.__getitem__,
            "array": self.array,
        }

    def value(self, part: Any) -> Any:
        if isinstance(part, list):
            return [self.value(inner) for inner in part]
        if not isinstance(part, dict):
            return part
        ((tag, content),) = part.items()
        return self.read[tag](content)

    def next_bytes(self, length: int) -> bytes:
        start, self.start = self.start, self.start + length
        if not start <= self.start <= len(self.content):
            raise ValueError("its bytes are fewer than it says")
        return self.content[start : self.start]

    def array(self, parts: list[Any]) -> np.ndarray:
        name, dtype, shape = parts
        return np.frombuffer(self.tensors[name].numpy().tobytes(), np.dtype(dtype)).reshape(shape).copy()


def save_state(path: Path, kind: str, state: Any, *, replace: bool) -> int:
    """Write a state, whole or not at all; returns how many bytes that took."""
    content = file_of(kind, state)
    write_whole(path, content, replace=replace)
    return len(content)


def file_of(kind: str, state: Any) -> bytearray:
    """What a state's file holds."""
    structure, tensors = pack(state)
    fields = {"sha256": NO_DIGEST.decode(), "kind": kind, "format": FORMAT, "samc": VERSION, "state": structure}
    text = json.dumps(fields, separators=(",", ":"), allow_nan=False)
    content = bytearray(save(tensors, {KEY: text}))
    place = content.index(DIGEST) + len(DIGEST)
    content[place : place + len(NO_DIGEST)] = hashlib.sha256(content).hexdigest().encode()
    return content


def load_state(path: Path, kind: str) -> tuple[Any, str]:
    """A state of this kind, and the version of samc that wrote it."""
    with open_tensors(path, "give the path of a file that samc has written") as file:
        content = file.read()
    try:
        fields = checked_fields(content)
        if fields["kind"] != kind:
            raise DataError(f"{path} is a {fields['kind']}, not a {kind}; give the path of a {kind}")
        if fields["format"] != FORMAT:
            wrote = f"{path} has format {fields['format']}, written by samc {fields['samc']}"
            raise DataError(f"{wrote}; this is samc {VERSION}, which reads format {FORMAT}: use that version")
        return unpack(fields["state"], load(content)), fields["samc"]
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} is damaged ({reason}); take another copy of it") from None


def checked_fields(content: bytes) -> dict[str, Any]:
    """The text of a file as JSON, once all of its bytes match their checksum."""
    header_end = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    if len(content) < LENGTH_BYTES or header_end > len(content):
        raise ValueError("it is cut short")
    place = content.find(DIGEST, 0, header_end) + len(DIGEST)
    if place < len(DIGEST):
        raise ValueError("it has no checksum")
    digest, view = hashlib.sha256(), memoryview(content)
    for part in (view[:place], NO_DIGEST, view[place + len(NO_DIGEST) :]):
        digest.update(part)
    if digest.hexdigest().encode() != content[place : place + len(NO_DIGEST)]:
        raise ValueError("its content does not match its checksum")
    return json.loads(json.loads(content[LENGTH_BYTES:header_end])["__metadata__"][KEY])
