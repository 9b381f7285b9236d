"""The container of a memory's file: safetensors, written whole or not at all and read as suspiciously as can be.

It knows tensors and one text; what they mean is file.py's business.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from samc.errors import DataError, OutputError
from samc.files import write_whole

KEY = "samc"
# all our text is under one key: the library writes several in an order that changes from call to call
LENGTH = 8
# bytes before the header that say how long it is
MOST_HEADER = 2**18
# enough for ten thousand tasks; parsing a header takes some twenty times its size
TYPES: dict[str, np.dtype] = {"U8": np.dtype("<u1"), "U16": np.dtype("<u2"), "U32": np.dtype("<u4")}


@dataclass(frozen=True)
class Container:
    """What a file holds; tensors are views of the file, of which only what is read takes memory."""

    text: str
    tensors: dict[str, np.ndarray]
    header: np.ndarray

    @property
    def own_bytes(self) -> int:
        return len(self.header)


def write(path: Path, tensors: dict[str, np.ndarray], text: str, *, replace: bool) -> None:
    """Whole or not at all; over a file that is there only if told so."""
    content = save(tensors, {KEY: text})
    if int.from_bytes(content[:LENGTH], "little") > MOST_HEADER:
        raise OutputError(f"cannot write {path}: so many tasks do not fit into one file's header; keep fewer tasks")
    try:
        write_whole(path, content, replace=replace)
    except FileExistsError:
        raise OutputError(f"{path} is there already; choose another name, or say replace=True") from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; free some space or choose another place") from None


def container_bytes(path: Path) -> int:
    """What the container itself takes: everything before the tensors' bytes."""
    return mapped(path)[1]


def mapped(path: Path) -> tuple[UInt8[np.ndarray, "n"], int]:
    """A file's bytes where they lie, and how many of them come before the tensors'."""
    if not path.is_file():  # nor a pipe, which would keep us waiting
        raise DataError(f"{path} is not there; give the path of a memory's file, such as runs/first/memory.samc")
    if path.stat().st_size < LENGTH:
        raise damaged(path, "it is cut short")
    try:
        content = np.memmap(path, np.uint8, mode="r")
    except OSError as error:
        raise DataError(f"cannot read {path} ({error.strerror}); check who may read it") from None
    header = int.from_bytes(content[:LENGTH].tobytes(), "little")
    if LENGTH + header > len(content):
        raise damaged(path, "it is cut short, or never was a memory")
    if header > MOST_HEADER:
        raise damaged(path, f"its header claims {header:,} bytes, none has more than {MOST_HEADER:,}")
    return content, LENGTH + header


def read(path: Path) -> Container:
    """Sizes are compared with the file's before anything is taken; a header must say what it says in one way only."""
    content, own_bytes = mapped(path)
    try:
        with safe_open(path, framework="np"):
            pass  # tensors that overlap, leave gaps or end elsewhere than the file does are refused here
        raw = content[LENGTH:own_bytes].tobytes()
        header = json.loads(raw)
        # one way only: nothing named twice, no room for words between the words
        if raw != compact(header).encode().ljust(len(raw)) or len(raw) - len(raw.rstrip(b" ")) >= LENGTH:
            raise ValueError("its header has been altered")
        metadata = header.pop("__metadata__", {})
        if set(metadata) != {KEY}:
            raise ValueError(f"its notes are {', '.join(sorted(metadata)) or 'missing'} instead of {KEY} alone")
        tensors = {name: view(content[own_bytes:], entry) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise damaged(path, " ".join(str(error).split())[:200]) from None
    return Container(metadata[KEY], tensors, content[:own_bytes])


def view(data: np.ndarray, entry: dict[str, Any]) -> np.ndarray:
    """A tensor where it lies; the library has checked that it lies within the file and has the size of its shape."""
    start, end = entry["data_offsets"]
    if entry["dtype"] not in TYPES or len(entry["shape"]) != 1:
        raise ValueError(f"it holds a tensor of {entry['dtype']} with {len(entry['shape'])} axes")
    return np.frombuffer(data[start:end], TYPES[entry["dtype"]])


def compact(content: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(content, separators=(",", ":"), sort_keys=sort_keys)


def damaged(path: Path, reason: str) -> DataError:
    return DataError(f"{path} is not a whole memory file ({reason}); copy it again, or save the memory anew")
