"""What a memory is made of: a stored image, and a task's images in their order."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from samc.errors import DataError

NOTE_LENGTH = np.dtype("<u2")
# of the length of a note, which may be another for every image


class StoredImage(NamedTuple):
    """One stored image: what the codec wrote, the label, and the lengths of blob and note where they may differ.

    `cost` is what it counts against the budget. The `note` is what a method keeps with the image.
    """

    blob: bytes
    label: bytes
    length: bytes
    cost: int
    note: bytes = b""

    @property
    def nbytes(self) -> int:
        return len(self.blob) + len(self.label) + len(self.length) + len(self.note)

    def __repr__(self) -> str:
        return f"StoredImage({self.nbytes:,} bytes)"


@dataclass(repr=False)
class TaskMemory:
    """One task's stored images, oldest first; what they cost together; how many were ever offered."""

    images: deque[StoredImage] = field(default_factory=deque)
    cost: int = 0
    offered: int = 0

    @property
    def nbytes(self) -> int:
        return sum(image.nbytes for image in self.images)

    def __repr__(self) -> str:
        return f"TaskMemory({counted(len(self.images), 'image')} of {self.offered:,} offered, {self.nbytes:,} bytes)"


def note_lengths(notes: Sequence[bytes]) -> np.ndarray:
    """How long each note is, as it is stored."""
    longest, most = max(map(len, notes), default=0), np.iinfo(NOTE_LENGTH).max
    if longest > most:
        raise DataError(f"what is kept with an image takes at most {most:,} bytes, got {longest:,}; keep less")
    return np.array([len(note) for note in notes], NOTE_LENGTH)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
