"""The container of a memory file: safetensors, written completely or not at all, and read with suspicion.

It knows tensors and one text; what they mean is for file.py to say.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from samc.errors import DataError, OutputError
from samc.files import open_regular, write_output
from samc.tensor_files import LENGTH_BYTES

KEY = "samc"
# all our text is under one key: the library writes several in an order that changes from call to call
MAX_HEADER_BYTES = 2**18
# enough for ten thousand tasks; parsing a header takes some twenty times its size
REMEDY = "give the path of a memory's file, such as runs/first/memory.samc"
TYPES: dict[str, np.dtype] = {"U8": np.dtype("<u1"), "U16": np.dtype("<u2"), "U32": np.dtype("<u4")}


@dataclass(frozen=True)
class Container:
    """What a file holds; tensors are memory-mapped, so that only what is read takes memory."""

    text: str
    tensors: dict[str, np.ndarray]
    header: np.ndarray

    @property
    def nbytes(self) -> int:
        """What the container itself takes: everything before the tensors' bytes."""
        return len(self.header)


def packed(tensors: dict[str, np.ndarray], text: str) -> bytes:
    content = save(tensors, {KEY: text})
    if int.from_bytes(content[:LENGTH_BYTES], "little") > MAX_HEADER_BYTES:
        raise OutputError("cannot write a memory: so many tasks do not fit into one file's header; keep fewer tasks")
    return content


def write(path: Path, content: bytes, *, replace: bool) -> None:
    """Completely or not at all; an existing file is replaced only if asked."""
    write_output(path, content, replace=replace, taken="choose another name, or say replace=True")


def container_bytes(path: Path) -> int:
    """What the container itself takes: everything before the tensors' bytes."""
    return map_file(path)[1]


def map_file(path: Path) -> tuple[UInt8[np.ndarray, "n"], int]:
    """A file's bytes, memory-mapped, and how many of them come before the tensors'."""
    with open_regular(path, REMEDY) as file:
        if os.fstat(file.fileno()).st_size < LENGTH_BYTES:
            raise damaged_file(path, "it is cut short")
        try:
            content = np.memmap(file, np.uint8, mode="r")
        except OSError as error:
            raise DataError(f"cannot read {path} ({error.strerror}); copy it to another disk") from None
    header = int.from_bytes(content[:LENGTH_BYTES].tobytes(), "little")
    if LENGTH_BYTES + header > len(content):
        raise damaged_file(path, "it is cut short, or never was a memory")
    if header > MAX_HEADER_BYTES:
        raise damaged_file(path, f"its header claims {header:,} bytes, none has more than {MAX_HEADER_BYTES:,}")
    return content, LENGTH_BYTES + header


def read(path: Path) -> Container:
    """Sizes are compared with the file's before any memory is taken; a header may be written in one way only."""
    content, header_end = map_file(path)
    try:
        with safe_open(path, framework="np"):
            pass  # tensors that overlap, leave gaps or end elsewhere than the file does are refused here
        raw = content[LENGTH_BYTES:header_end].tobytes()
        header = json.loads(raw)
        # written in one way only: no name twice, no white space that could carry anything
        if raw != compact_json(header).encode().ljust(len(raw)) or len(raw) - len(raw.rstrip(b" ")) >= LENGTH_BYTES:
            raise ValueError("its header has been altered")
        metadata = header.pop("__metadata__", {})
        if set(metadata) != {KEY}:
            raise ValueError(f"its notes are {', '.join(sorted(metadata)) or 'missing'} instead of {KEY} alone")
        tensors = {name: tensor_view(content[header_end:], entry) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise damaged_file(path, " ".join(str(error).split())[:200]) from None
    return Container(metadata[KEY], tensors, content[:header_end])


def tensor_view(data: np.ndarray, entry: dict[str, Any]) -> np.ndarray:
    """A tensor in the mapped file; the library has checked that it is within the file and as long as its shape says."""
    start, end = entry["data_offsets"]
    if entry["dtype"] not in TYPES or len(entry["shape"]) != 1:
        raise ValueError(f"it holds a tensor of {entry['dtype']} with {len(entry['shape'])} axes")
    return np.frombuffer(data[start:end], TYPES[entry["dtype"]])


def compact_json(content: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(content, separators=(",", ":"), sort_keys=sort_keys)


def damaged_file(path: Path, reason: str) -> DataError:
    return DataError(f"{path} is not a whole memory file ({reason}); copy it again, or save the memory anew")
