"""The episodic memory: encoded images of each task under a budget of bytes a task; the newest, or a fair sample."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int64, UInt8

from samc.errors import ConfigError, DataError
from samc.memory.codec import Codec, Shape, smallest_type

Accounting = Literal["bytes", "values"]


class Item(NamedTuple):
    """One remembered image; `cost` is what it weighs in the account that the budget is kept in."""

    blob: bytes
    label: bytes
    cost: int

    @property
    def nbytes(self) -> int:
        return len(self.blob) + len(self.label)


@dataclass
class Shelf:
    """One task's items, their running cost, and how many were ever offered."""

    items: deque[Item] = field(default_factory=deque)
    cost: int = 0
    offered: int = 0


class EpisodicMemory:
    """All that is kept of past tasks.

    With accounting "bytes" everything that is stored counts: headers, positions, colours, labels.
    With "values" only colours do, which is how the paper counts.
    The budget is what `budget_images` whole images would take, counted the same way.
    When a task's budget is full, its oldest items make room; given a `reservoir` to draw from, the memory keeps a
    uniform sample of all that the task has offered instead.
    """

    def __init__(
        self,
        codec: Codec,
        num_classes: int,
        budget_images: int,
        accounting: Accounting = "bytes",
        reservoir: torch.Generator | None = None,
    ):
        if budget_images < 1:
            raise ConfigError(f"buffer-size is at least 1 image a task, got {budget_images}; the paper uses 10")
        self.codec = codec
        self.accounting = accounting
        self.reservoir = reservoir
        self.num_classes = num_classes
        self.budget_images = budget_images
        self.label_type = smallest_type(num_classes - 1)
        self.budget_bytes = budget_images * self.raw_image_bytes
        self.shelves: dict[int, Shelf] = {}
        if self.most_pixels < 1:
            raise ConfigError(f"a budget of {self.budget_bytes} bytes a task cannot hold one image; raise buffer-size")

    @property
    def raw_image_bytes(self) -> int:
        """What one whole image weighs in this account."""
        return whole_image_bytes(self.codec.image_shape, self.num_classes, self.accounting)

    @property
    def most_pixels(self) -> int:
        """The most pixels that one image may keep and still fit into an empty memory."""
        if self.accounting == "values":
            return self.budget_bytes // self.codec.image_shape[0]
        return self.codec.most_pixels(self.budget_bytes - self.label_type.itemsize)

    def add(
        self,
        task: int,
        images: UInt8[np.ndarray, "b c h w"],
        masks: Bool[np.ndarray, "b h w"],
        labels: Int64[np.ndarray, "b"],
    ) -> None:
        """Remember these images, one after the other."""
        if len(labels) and not 0 <= labels.min() <= labels.max() < self.num_classes:
            raise DataError(f"labels go from 0 to {self.num_classes - 1}; got {labels.min()} to {labels.max()}")
        for blob, label in zip(self.codec.encode(images, masks), labels.astype(self.label_type), strict=True):
            self.put(task, self.item(blob, label.tobytes()))

    def put(self, task: int, item: Item) -> None:
        """The one place where memory grows: room is made before anything is added."""
        if item.cost > self.budget_bytes:
            raise DataError(f"one image takes {item.cost} bytes, the whole task has {self.budget_bytes}")
        shelf = self.shelves.setdefault(task, Shelf())
        shelf.offered += 1
        full = shelf.cost + item.cost > self.budget_bytes
        if full and self.reservoir is not None and self.draw(shelf.offered) >= len(shelf.items):
            return  # Vitter's algorithm R: the n-th of a stream is kept with probability held / n
        self.make_room(shelf, item.cost)
        shelf.items.append(item)
        shelf.cost += item.cost

    def make_room(self, shelf: Shelf, wanted: int) -> None:
        """Drop items, the oldest or any of them, until so much more fits."""
        while shelf.items and shelf.cost + wanted > self.budget_bytes:
            position = 0 if self.reservoir is None else self.draw(len(shelf.items))
            shelf.cost -= shelf.items[position].cost
            del shelf.items[position]

    def draw(self, below: int) -> int:
        return int(torch.randint(below, (), generator=self.reservoir))

    def item(self, blob: bytes, label: bytes) -> Item:
        cost = len(blob) + len(label) if self.accounting == "bytes" else self.codec.parts(blob)["colours"]
        return Item(blob, label, cost)

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
        return list(self.shelves)

    @property
    def nbytes(self) -> int:
        """Every byte that is stored, whatever the account."""
        return sum(item.nbytes for shelf in self.shelves.values() for item in shelf.items)

    @property
    def nbytes_by_part(self) -> dict[str, int]:
        parts: Counter[str] = Counter(labels=0)
        for shelf in self.shelves.values():
            for item in shelf.items:
                parts.update(self.codec.parts(item.blob), labels=len(item.label))
        return dict(sorted(parts.items()))

    @property
    def images_per_task(self) -> dict[int, int]:
        return {task: len(shelf.items) for task, shelf in self.shelves.items()}

    def state_dict(self) -> dict:
        return {
            task: {"items": [(item.blob, item.label) for item in shelf.items], "offered": shelf.offered}
            for task, shelf in self.shelves.items()
        }

    def load_state_dict(self, state: dict) -> None:
        """Under a smaller budget than the state was made with, items make room as they always do."""
        self.shelves = {}
        for task, saved in state.items():
            items = deque(self.item(blob, label) for blob, label in saved["items"])
            shelf = Shelf(items, sum(item.cost for item in items), saved["offered"])
            self.make_room(shelf, 0)
            self.shelves[task] = shelf


def whole_image_bytes(image_shape: Shape, num_classes: int, accounting: Accounting) -> int:
    """What budgets are counted in: one raw image, with its label where everything counts."""
    if accounting not in ("bytes", "values"):
        raise ConfigError(f"accounting is bytes or values, got {accounting!r}")
    label = smallest_type(num_classes - 1).itemsize
    return int(np.prod(image_shape)) + (label if accounting == "bytes" else 0)
