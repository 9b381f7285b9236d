"""A memory as a file: the counted bytes and nothing else as tensors, their meaning as one text, a checksum over both.

Safe to load from a stranger: nothing is unpickled, nothing is believed before it was compared with the file's size, and
what would not be written again in the same way is refused. Loading takes at most twice the file's size, about 200 bytes
per image for Python's objects, and room to decode one image at a time (at most 40 bytes per pixel). A file of few bytes
stands for at most FREE_PIXELS, a larger one for MAX_PIXELS_PER_BYTE each, so that reading it takes seconds.
"""

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np

from samc.errors import OutputError
from samc.memory.budget import Accounting, Budget
from samc.memory.buffer import EpisodicMemory
from samc.memory.codecs import parse_codec
from samc.memory.container import Container, compact_json, container_bytes, damaged_file, packed, read, write
from samc.memory.stored import NOTE_LENGTH, StoredImage, TaskMemory, note_lengths

__all__ = ["FILE", "container_bytes", "load", "save"]

FILE = "memory.samc"
# its name in the folder of a run
VERSION = 1
MAX_SIDE = 4096
FREE_PIXELS = 2**27
# fewer than these the images of any file may have together, however few bytes it has
MAX_PIXELS_PER_BYTE = 32
# that one byte of a larger file may stand for: a few bytes from a stranger must not keep a machine busy for hours
MAX_TASKS = 10_000
MAX_NUMBER = 2**53
# beyond this, JSON's numbers are not the same everywhere
FIELDS = {"accounting", "budget", "checksum", "codec", "format", "image_shape", "num_classes", "tasks"}
NOTE = "notes"
# a further field, only where a method keeps something with each image: its name
NAME = re.compile("[a-z]{1,20}")


def save(memory: EpisodicMemory, path: str | Path, *, replace: bool = False) -> Path:
    """Write a memory; the file is as large as its container and `memory.nbytes` together."""
    path = Path(path)
    write(path, file_of(memory), replace=replace)
    return path


def file_of(memory: EpisodicMemory) -> bytes:
    """What a memory's file holds. The generator of a reservoir belongs to the learner and is not kept."""
    images = [image for held in memory.by_task.values() for image in held.images]
    tensors = {
        "blobs": np.frombuffer(b"".join(image.blob for image in images), np.uint8),
        "labels": np.frombuffer(b"".join(image.label for image in images), memory.label_type),
    }
    if memory.length_type is not None:
        tensors["sizes"] = np.array([len(image.blob) for image in images], memory.length_type)
    if memory.note is not None:
        tensors["notes"] = np.frombuffer(b"".join(image.note for image in images), np.uint8)
        tensors["note_sizes"] = note_lengths([image.note for image in images])
    fields: dict[str, Any] = {
        "format": VERSION,
        "codec": memory.codec.spec,
        "image_shape": list(memory.codec.image_shape),
        "num_classes": memory.num_classes,
        "accounting": memory.accounting,
        "budget": {"total": memory.budget.total, "per_task": memory.budget.per_task},
        "tasks": [[int(task), len(held.images), held.offered] for task, held in memory.by_task.items()],
    }
    if memory.note is not None:
        fields[NOTE] = memory.note
    if too_many_pixels(fields, memory.nbytes):
        raise OutputError("cannot write a memory: its images keep too little of what they are; use smaller images")
    text = compact_json(fields | {"checksum": checksum(fields, tensors)}, sort_keys=True)
    return packed(tensors, text)


def load(path: str | Path) -> EpisodicMemory:
    """Read a memory; it continues where the saved one stopped."""
    path = Path(path)
    container = read(path)
    try:
        fields = checked_fields(container)
        memory = empty_memory(fields)
        fill(memory, fields["tasks"], container.tensors)
    except Exception as error:  # a stranger's bytes may make any codec fail in its own way; the file is at fault
        raise damaged_file(path, " ".join(str(error).split())[:200] or type(error).__name__) from None
    return memory


def check_memory(memory: EpisodicMemory) -> None:
    """Refuse a memory whose images are not what its codec has written, or out of proportion: a ValueError says so."""
    images = [image for held in memory.by_task.values() for image in held.images]
    shape = memory.codec.image_shape
    if too_many_pixels({"image_shape": shape, "tasks": [(0, len(images), 0)]}, memory.nbytes):
        raise ValueError("its memory has too few bytes for so many images of that size")
    if any(len(image.label) != memory.label_type.itemsize for image in images):
        raise ValueError("its memory has labels of another size")
    if images and memory.labels(images).max() >= memory.num_classes:
        raise ValueError(f"labels go from 0 to {memory.num_classes - 1}")
    for _ in memory.decoded():  # what cannot be decoded is refused now, not in the middle of a task
        pass


def checksum(fields: dict[str, Any], tensors: dict[str, np.ndarray]) -> str:
    """SHA-256 over the fields and the tensors, each with its name and length before it."""
    digest = hashlib.sha256(compact_json(fields, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f" {name} {tensor.dtype.str} {len(tensor)} ".encode())
        digest.update(tensor.data)
    return digest.hexdigest()


def checked_fields(container: Container) -> dict[str, Any]:
    """The fields, of the right kinds, within bounds, and matching their checksum."""
    fields = json.loads(container.text)
    if not isinstance(fields, dict) or "format" not in fields:
        raise ValueError("it is no memory's")
    if fields["format"] != VERSION:
        raise ValueError(f"it has format {fields['format']}, this version of samc reads {VERSION}")
    if set(fields) - {NOTE} != FIELDS or container.text != compact_json(fields, sort_keys=True):
        raise ValueError("its notes are not in the form that samc writes")
    stated = fields.pop("checksum")
    if checksum(fields, container.tensors) != stated:
        raise ValueError("its content does not match its checksum")
    shape, tasks, budget = fields["image_shape"], fields["tasks"], fields["budget"]
    if len(tasks) > MAX_TASKS:
        raise ValueError(f"it has {len(tasks):,} tasks, none has more than {MAX_TASKS:,}")
    numbers = [fields["num_classes"], *shape, budget["total"], *(number for row in tasks for number in row)]
    if not all(type(number) is int and 0 <= number < MAX_NUMBER for number in numbers):
        raise ValueError("one of its counts is no whole number from 0")
    if len(shape) != 3 or shape[0] not in (1, 3) or not all(1 <= side <= MAX_SIDE for side in shape[1:]):
        raise ValueError(f"images have 1 or 3 channels and sides of 1 to {MAX_SIDE}, it says {shape}")
    if fields["num_classes"] < 1 or set(budget) != {"total", "per_task"} or type(budget["per_task"]) is not bool:
        raise ValueError("its classes or its budget make no sense")
    if fields["accounting"] not in get_args(Accounting):
        raise ValueError(f"its accounting is {fields['accounting']}")
    if NOTE in fields and (not isinstance(fields[NOTE], str) or not NAME.fullmatch(fields[NOTE])):
        raise ValueError("what it keeps with its images has no name")
    if any(len(row) != 3 or row[2] < row[1] for row in tasks) or len({row[0] for row in tasks}) != len(tasks):
        raise ValueError("its list of tasks makes no sense")
    if too_many_pixels(fields, sum(tensor.nbytes for tensor in container.tensors.values())):
        raise ValueError("it has too few bytes for so many images of that size")
    return fields


def too_many_pixels(fields: dict[str, Any], data_bytes: int) -> bool:
    """Whether images are out of all proportion to their bytes; a few of any size are always allowed."""
    _, height, width = fields["image_shape"]
    pixels = height * width * sum(count for _, count, _ in fields["tasks"])
    return pixels >= max(FREE_PIXELS, MAX_PIXELS_PER_BYTE * data_bytes)


def empty_memory(fields: dict[str, Any]) -> EpisodicMemory:
    codec = parse_codec(fields["codec"], tuple(fields["image_shape"]))
    if codec.spec != fields["codec"]:
        raise ValueError(f"its codec calls itself {codec.spec}")
    terms = codec, fields["num_classes"], Budget(**fields["budget"]), fields["accounting"]
    return EpisodicMemory(*terms, note=fields.get(NOTE))


def fill(memory: EpisodicMemory, tasks: list[list[int]], tensors: dict[str, np.ndarray]) -> None:
    """Fill an empty memory; the budget has to hold, so that nobody passes off more than was allowed."""
    types = {"blobs": np.dtype(np.uint8), "labels": memory.label_type}
    if memory.length_type is not None:
        types["sizes"] = memory.length_type
    if memory.note is not None:
        types |= {"notes": np.dtype(np.uint8), "note_sizes": NOTE_LENGTH}
    if {name: tensor.dtype for name, tensor in tensors.items()} != types:
        raise ValueError(f"its tensors are not {', '.join(types)}, each of the type it should have")
    labels = tensors["labels"]
    if sum(count for _, count, _ in tasks) != len(labels):
        raise ValueError("its tasks have another number of images than it has labels")
    if len(labels) and labels.max() >= memory.num_classes:
        raise ValueError(f"labels go from 0 to {memory.num_classes - 1}")
    images = read_images(memory, tensors)
    for task, count, offered in tasks:
        held = deque(islice(images, count))
        memory.by_task[task] = TaskMemory(held, sum(image.cost for image in held), offered)
    if any(held.cost > memory.budget_bytes for held in memory.by_task.values()):
        raise ValueError("it holds more than its budget allows")


def read_images(memory: EpisodicMemory, tensors: dict[str, np.ndarray]) -> Iterator[StoredImage]:
    labels = tensors["labels"]
    equal = np.full(len(labels), memory.codec.blob_bytes or 0, np.int64)
    blobs = pieces(tensors["blobs"], tensors.get("sizes", equal), len(labels))
    notes: Iterable[bytes] = [b""] * len(labels)
    if memory.note is not None:
        notes = pieces(tensors["notes"], tensors["note_sizes"], len(labels))
    return (read_image(memory, *image) for image in zip(blobs, labels, notes, strict=True))


def pieces(content: np.ndarray, lengths: np.ndarray, count: int) -> Iterator[bytes]:
    """So many pieces of a tensor, one after the other; together they are all of it."""
    if len(lengths) != count or int(lengths.sum(dtype=np.int64)) != len(content):
        raise ValueError("its images have other lengths than it says")
    ends = lengths.cumsum(dtype=np.int64)
    return (content[end - length : end].tobytes() for length, end in zip(lengths.astype(np.int64), ends, strict=True))


def read_image(memory: EpisodicMemory, blob: bytes, label: np.unsignedinteger, note: bytes) -> StoredImage:
    memory.codec.decode([blob])  # what cannot be decoded is refused now, not in the middle of a task
    return memory.stored_image(blob, label.tobytes(), note)
