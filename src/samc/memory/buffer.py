"""The episodic memory: encoded images of each task under a budget of bytes; the newest, or a fair sample."""

from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int64, UInt8

from samc.errors import ConfigError, DataError
from samc.memory.budget import Accounting, Budget
from samc.memory.codec import Codec, smallest_type
from samc.memory.selection import Selection


class Item(NamedTuple):
    """One remembered image: its bytes, its label, how long it is (nothing, where all are alike), and its cost.

    `cost` is what it weighs in the account that the budget is kept in.
    """

    blob: bytes
    label: bytes
    size: bytes
    cost: int

    @property
    def nbytes(self) -> int:
        return len(self.blob) + len(self.label) + len(self.size)


@dataclass
class Shelf:
    """One task's items, their running cost, and how many were ever offered."""

    items: deque[Item] = field(default_factory=deque)
    cost: int = 0
    offered: int = 0


class EpisodicMemory:
    """All that is kept of past tasks.

    With accounting "bytes" everything that is stored counts: positions, colours, headers, labels, lengths.
    With "values" only colours do, which is how the paper counts.
    When a task's share of the budget is full, its oldest items make room; given a `reservoir` to draw from, the memory
    keeps a uniform sample of all that the task has offered instead.
    """

    def __init__(
        self,
        codec: Codec,
        num_classes: int,
        budget: Budget,
        accounting: Accounting = "bytes",
        reservoir: torch.Generator | None = None,
    ):
        self.codec = codec
        self.accounting = accounting
        self.reservoir = reservoir
        self.num_classes = num_classes
        self.budget = budget
        self.label_type = smallest_type(num_classes - 1)
        # lossy pictures of noise may be larger than the noise
        self.size_type = None if codec.blob_bytes else smallest_type(2 * int(np.prod(codec.image_shape)) + 1024)
        self.shelves: dict[int, Shelf] = {}
        if self.most_pixels < 1:
            raise ConfigError(f"a budget of {self.budget_bytes} bytes a task cannot hold one image; raise it")

    @property
    def budget_bytes(self) -> int:
        """What each task may hold now."""
        return self.budget.share(len(self.shelves))

    @property
    def most_pixels(self) -> int:
        """The most pixels that one image may keep and still fit into a task's empty share."""
        if self.accounting == "values":
            return self.budget_bytes // self.codec.image_shape[0]
        return self.codec.most_pixels(self.budget_bytes - self.overhead_bytes)

    @property
    def overhead_bytes(self) -> int:
        """What every item takes besides its blob: its label, and its length if lengths differ."""
        return self.label_type.itemsize + (self.size_type.itemsize if self.size_type else 0)

    def add(
        self, task: int, images: UInt8[np.ndarray, "b c h w"], kept: Selection, labels: Int64[np.ndarray, "b"]
    ) -> None:
        """Remember these images, one after the other."""
        if len(labels) and not 0 <= labels.min() <= labels.max() < self.num_classes:
            raise DataError(f"labels go from 0 to {self.num_classes - 1}; got {labels.min()} to {labels.max()}")
        for blob, label in zip(self.codec.encode(images, kept), labels.astype(self.label_type), strict=True):
            self.put(task, self.item(blob, label.tobytes()))

    def put(self, task: int, item: Item) -> None:
        """The one place where memory grows: room is made before anything is added."""
        shelf = self.shelf(task)
        if item.cost > self.budget_bytes:
            raise DataError(f"one image takes {item.cost} bytes, its task has {self.budget_bytes}; raise the budget")
        shelf.offered += 1
        full = shelf.cost + item.cost > self.budget_bytes
        if full and self.reservoir is not None and self.draw(shelf.offered) >= len(shelf.items):
            return  # Vitter's algorithm R: the n-th of a stream is kept with probability held / n
        self.make_room(shelf, item.cost)
        shelf.items.append(item)
        shelf.cost += item.cost

    def shelf(self, task: int) -> Shelf:
        """A task's shelf; a new one takes its share of a common budget from the others."""
        if task not in self.shelves:
            self.shelves[task] = Shelf()
            for other in self.shelves.values():
                self.make_room(other, 0)
        return self.shelves[task]

    def make_room(self, shelf: Shelf, wanted: int) -> None:
        """Drop items, the oldest or any of them, until so much more fits."""
        while shelf.items and shelf.cost + wanted > self.budget_bytes:
            position = 0 if self.reservoir is None else self.draw(len(shelf.items))
            shelf.cost -= shelf.items[position].cost
            del shelf.items[position]

    def draw(self, below: int) -> int:
        return int(torch.randint(below, (), generator=self.reservoir))

    def item(self, blob: bytes, label: bytes) -> Item:
        size = np.array(len(blob), self.size_type).tobytes() if self.size_type else b""
        everything = len(blob) + len(label) + len(size)
        return Item(blob, label, size, everything if self.accounting == "bytes" else self.codec.parts(blob)["colours"])

    def recall(
        self, task: int
    ) -> tuple[UInt8[np.ndarray, "n c h w"], Bool[np.ndarray, "n h w"], Int64[np.ndarray, "n"]]:
        """A task's images as far as they were kept, their masks and labels, oldest first."""
        items = self.shelves[task].items if task in self.shelves else ()
        images, masks = self.codec.decode([item.blob for item in items])
        labels = np.frombuffer(b"".join(item.label for item in items), self.label_type)
        return images, masks, labels.astype(np.int64)

    @property
    def tasks(self) -> list[int]:
        return [task for task, shelf in self.shelves.items() if shelf.items]

    @property
    def nbytes(self) -> int:
        """Every byte that is stored, whatever the account."""
        return sum(item.nbytes for shelf in self.shelves.values() for item in shelf.items)

    @property
    def nbytes_by_part(self) -> dict[str, int]:
        parts: Counter[str] = Counter(labels=0)
        for shelf in self.shelves.values():
            for item in shelf.items:
                parts.update(self.codec.parts(item.blob), labels=len(item.label), lengths=len(item.size))
        return {name: size for name, size in sorted(parts.items()) if size or name == "labels"}

    @property
    def images_per_task(self) -> dict[int, int]:
        return {task: len(shelf.items) for task, shelf in self.shelves.items()}

    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """As a file of its own that anybody can weigh, open and audit: docs/memory.md."""
        from samc.memory.file import save  # noqa: PLC0415  (that module is made of this one)

        return save(self, path, replace=replace)

    @classmethod
    def load(cls, path: str | Path) -> "EpisodicMemory":
        """From such a file; a stranger's is safe to open."""
        from samc.memory.file import load  # noqa: PLC0415

        return load(path)

    def state_dict(self) -> dict[int, Any]:
        return {
            task: {"items": [(item.blob, item.label) for item in shelf.items], "offered": shelf.offered}
            for task, shelf in self.shelves.items()
        }

    def load_state_dict(self, state: dict[int, Any]) -> None:
        """Under a smaller budget than the state was made with, items make room as they always do."""
        self.shelves = {task: Shelf(offered=saved["offered"]) for task, saved in state.items()}
        for task, saved in state.items():
            shelf = self.shelves[task]
            shelf.items.extend(self.item(blob, label) for blob, label in saved["items"])
            shelf.cost = sum(item.cost for item in shelf.items)
            self.make_room(shelf, 0)
