"""A memory as a file: the counted bytes and nothing else as tensors, their meaning as one text, a checksum over both.

Safe to load from a stranger: nothing is unpickled, nothing is believed before it was compared with the file's size, and
what would not be written again in the same way is refused. Loading takes at most twice the file, some two hundred bytes
for each image that Python keeps as objects, and room to look at one image at a time (at most 32 bytes a pixel).
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np

from samc.errors import OutputError
from samc.memory.budget import Accounting, Budget
from samc.memory.buffer import EpisodicMemory, Item, Shelf
from samc.memory.codecs import parse
from samc.memory.container import Container, compact, container_bytes, damaged, read, write

__all__ = ["FILE", "container_bytes", "load", "save"]

FILE = "memory.samc"
# its name in the folder of a run
VERSION = 1
MOST_SIDE = 4096
THINNEST = 4096
# pixels that one byte of a file may stand for: a stranger's few bytes shall not keep anybody busy for hours
MOST_NUMBER = 2**53
# beyond this, JSON's numbers are not the same everywhere
FIELDS = {"accounting", "budget", "checksum", "codec", "format", "image_shape", "num_classes", "tasks"}


def save(memory: EpisodicMemory, path: str | Path, *, replace: bool = False) -> Path:
    """Write a memory; the file is as large as its container and `memory.nbytes` together.

    What a reservoir draws from is its learner's and is not kept.
    """
    path, items = Path(path), [item for shelf in memory.shelves.values() for item in shelf.items]
    tensors = {
        "blobs": np.frombuffer(b"".join(item.blob for item in items), np.uint8),
        "labels": np.frombuffer(b"".join(item.label for item in items), memory.label_type),
    }
    if memory.size_type is not None:
        tensors["sizes"] = np.frombuffer(b"".join(item.size for item in items), memory.size_type)
    fields = {
        "format": VERSION,
        "codec": memory.codec.spec,
        "image_shape": list(memory.codec.image_shape),
        "num_classes": memory.num_classes,
        "accounting": memory.accounting,
        "budget": {"total": memory.budget.total, "per_task": memory.budget.per_task},
        "tasks": [[int(task), len(shelf.items), shelf.offered] for task, shelf in memory.shelves.items()],
    }
    if too_thin(fields, memory.nbytes):
        raise OutputError(f"cannot write {path}: its images keep too little of what they are; use smaller images")
    text = compact(fields | {"checksum": checksum(fields, tensors)}, sort_keys=True)
    write(path, tensors, text, replace=replace)
    return path


def load(path: str | Path) -> EpisodicMemory:
    """Read a memory that goes on where the saved one stood."""
    path = Path(path)
    found = read(path)
    try:
        fields = checked_fields(found)
        memory = empty_memory(fields)
        put_back(memory, fields["tasks"], found.tensors)
    except Exception as error:  # a stranger's bytes may trip any codec in its own way; the file is at fault
        raise damaged(path, " ".join(str(error).split())[:200] or type(error).__name__) from None
    return memory


def checksum(fields: dict[str, Any], tensors: dict[str, np.ndarray]) -> str:
    """SHA-256 over the fields and the tensors, each with its name and length before it."""
    digest = hashlib.sha256(compact(fields, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f" {name} {tensor.dtype.str} {len(tensor)} ".encode())
        digest.update(tensor.data)
    return digest.hexdigest()


def checked_fields(found: Container) -> dict[str, Any]:
    """The fields, of the right kinds, within bounds, and matching their checksum."""
    fields = json.loads(found.text)
    if not isinstance(fields, dict) or "format" not in fields:
        raise ValueError("it is no memory's")
    if fields["format"] != VERSION:
        raise ValueError(f"it has format {fields['format']}, this version of samc reads {VERSION}")
    if set(fields) != FIELDS or found.text != compact(fields, sort_keys=True):
        raise ValueError("its notes are not in the form that samc writes")
    stated = fields.pop("checksum")
    if checksum(fields, found.tensors) != stated:
        raise ValueError("its content does not match its checksum")
    shape, tasks, budget = fields["image_shape"], fields["tasks"], fields["budget"]
    numbers = [fields["num_classes"], *shape, budget["total"], *(number for row in tasks for number in row)]
    if not all(type(number) is int and 0 <= number < MOST_NUMBER for number in numbers):
        raise ValueError("one of its counts is no whole number from 0")
    if len(shape) != 3 or shape[0] not in (1, 3) or not all(1 <= side <= MOST_SIDE for side in shape[1:]):
        raise ValueError(f"images have 1 or 3 channels and sides of 1 to {MOST_SIDE}, it says {shape}")
    if fields["num_classes"] < 1 or set(budget) != {"total", "per_task"} or type(budget["per_task"]) is not bool:
        raise ValueError("its classes or its budget make no sense")
    if fields["accounting"] not in get_args(Accounting):
        raise ValueError(f"its accounting is {fields['accounting']}")
    if any(len(row) != 3 or row[2] < row[1] for row in tasks) or len({row[0] for row in tasks}) != len(tasks):
        raise ValueError("its list of tasks makes no sense")
    if too_thin(fields, sum(tensor.nbytes for tensor in found.tensors.values())):
        raise ValueError("it has too few bytes for so many images of that size")
    return fields


def too_thin(fields: dict[str, Any], data_bytes: int) -> bool:
    """Whether images are out of all proportion to their bytes; one of any size is always allowed."""
    _, height, width = fields["image_shape"]
    pixels = height * width * sum(count for _, count, _ in fields["tasks"])
    return pixels > max(MOST_SIDE**2, THINNEST * data_bytes)


def empty_memory(fields: dict[str, Any]) -> EpisodicMemory:
    codec = parse(fields["codec"], tuple(fields["image_shape"]))
    if codec.spec != fields["codec"]:
        raise ValueError(f"its codec calls itself {codec.spec}")
    return EpisodicMemory(codec, fields["num_classes"], Budget(**fields["budget"]), fields["accounting"])


def put_back(memory: EpisodicMemory, tasks: list[list[int]], tensors: dict[str, np.ndarray]) -> None:
    """Fill an empty memory; the budget has to hold, so that nobody passes off more than was allowed."""
    kinds = {"blobs": np.dtype(np.uint8), "labels": memory.label_type}
    if memory.size_type is not None:
        kinds["sizes"] = memory.size_type
    if {name: tensor.dtype for name, tensor in tensors.items()} != kinds:
        raise ValueError(f"its tensors are not {', '.join(kinds)}, each of the type it should have")
    labels, blobs = tensors["labels"], tensors["blobs"]
    if sum(count for _, count, _ in tasks) != len(labels):
        raise ValueError("its tasks have another number of images than it has labels")
    if len(labels) and labels.max() >= memory.num_classes:
        raise ValueError(f"labels go from 0 to {memory.num_classes - 1}")
    items = read_items(memory, blobs, labels, lengths(memory, tensors))
    for task, count, offered in tasks:
        held = deque(next(items) for _ in range(count))
        memory.shelves[task] = Shelf(held, sum(item.cost for item in held), offered)
    if any(shelf.cost > memory.budget_bytes for shelf in memory.shelves.values()):
        raise ValueError("it holds more than its budget allows")


def lengths(memory: EpisodicMemory, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """How long each blob is; together they are all there is."""
    count = len(tensors["labels"])
    sizes = tensors["sizes"] if memory.size_type is not None else np.full(count, memory.codec.blob_bytes, np.int64)
    if len(sizes) != count or int(sizes.sum(dtype=np.int64)) != len(tensors["blobs"]):
        raise ValueError("its images have other lengths than it says")
    return sizes


def read_items(memory: EpisodicMemory, blobs: np.ndarray, labels: np.ndarray, sizes: np.ndarray) -> Iterator[Item]:
    start = 0
    for label, size in zip(labels, sizes, strict=True):
        blob = blobs[start : start + int(size)].tobytes()
        memory.codec.decode([blob])  # what cannot be decoded is refused now, not in the middle of a task
        yield memory.item(blob, label.tobytes())
        start += int(size)
