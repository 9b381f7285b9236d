"""The episodic memory: encoded images of every task, under a budget of bytes that holds at every moment."""

import operator
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import torch
from jaxtyping import Bool, Int64, UInt8

from samc.config import Terms
from samc.errors import ConfigError, DataError
from samc.memory.budget import Accounting, Budget
from samc.memory.codec import MAX_UNKNOWN_CLASSES, Codec, label_type, largest_blob, smallest_type
from samc.memory.selection import Selection
from samc.memory.stored import NOTE_LENGTH, StoredImage, TaskMemory, counted, note_lengths

PIXELS_AT_ONCE = 2**22
# of the images that are decoded together where each is looked at alone


class EpisodicMemory:
    """All that is kept of past tasks.

    With accounting "bytes" everything that is stored counts: positions, colours, headers, labels, lengths, notes.
    With "values" only colours do, which is how the paper counts.

    A full task drops its oldest images for new ones. Given a `reservoir`, a generator to draw from, the memory keeps a
    uniform sample of all the images that a task has offered instead (reservoir sampling).

    Where the number of classes is not known (None), it may grow up to 65,536 and labels take two bytes.

    `note` names what a method keeps with each image besides (`nbytes_by_part` has it under that name); None: nothing.
    """

    def __init__(
        self,
        codec: Codec,
        num_classes: int | None,
        budget: Budget,
        accounting: Accounting = Terms.accounting,  # type: ignore[assignment]
        reservoir: torch.Generator | None = None,
        note: str | None = None,
    ):
        self.codec = codec
        self.num_classes = MAX_UNKNOWN_CLASSES if num_classes is None else num_classes
        self.budget = budget
        self.accounting = accounting
        self.reservoir = reservoir
        self.note = note
        self.by_task: dict[int, TaskMemory] = {}
        self.label_type = label_type(num_classes)
        # a lossy picture of noise may be larger than the noise
        self.length_type = None if codec.blob_bytes else smallest_type(2 * int(np.prod(codec.image_shape)) + 1024)
        self.check_room(1)

    # What goes in

    def add(
        self,
        task: SupportsIndex,
        images: UInt8[np.ndarray, "b c h w"],
        selection: Selection,
        labels: Int64[np.ndarray, "b"],
        notes: Sequence[bytes] | None = None,
    ) -> None:
        """Store the selected pixels of these images, one image after the other, each with its note."""
        if len(labels) and not 0 <= labels.min() <= labels.max() < self.num_classes:
            raise DataError(f"labels go from 0 to {self.num_classes - 1}; got {labels.min()} to {labels.max()}")
        blobs, kept = self.codec.encode(images, selection), labels.astype(self.label_type)
        for blob, label, note in zip(blobs, kept, notes or [b""] * len(kept), strict=True):
            values = self.codec.nbytes_by_part(blob)["colours"] if self.accounting == "values" else 0
            self.put(task, self.stored_image(blob, label.tobytes(), note, values))

    def stored_image(self, blob: bytes, label: bytes, note: bytes = b"", values: int | None = None) -> StoredImage:
        """What is kept of an image; `values` is what counts if only colours do, looked up where it is not given."""
        length = np.array(len(blob), self.length_type).tobytes() if self.length_type else b""
        if self.note is not None:
            length += note_lengths([note]).tobytes()
        elif note:
            raise DataError("this memory keeps nothing besides its images; make it with a name for what it shall keep")
        if self.accounting == "bytes":
            return StoredImage(blob, label, length, len(blob) + len(label) + len(length) + len(note), note)
        values = self.codec.nbytes_by_part(blob)["colours"] if values is None else values
        return StoredImage(blob, label, length, values, note)

    def put(self, task: SupportsIndex, image: StoredImage) -> None:
        """The one place where the memory grows: room is made before anything is added."""
        held = self.task(task)
        if image.cost > self.budget_bytes:
            raise DataError(f"one image takes {image.cost} bytes, its task has {self.budget_bytes}; raise the budget")
        held.offered += 1
        full = held.cost + image.cost > self.budget_bytes
        if full and self.reservoir is not None and self.draw(held.offered) >= len(held.images):
            return  # Vitter's algorithm R: the n-th image of a stream is kept with probability held / n
        self.make_room(held, image.cost)
        held.images.append(image)
        held.cost += image.cost

    def task(self, task: SupportsIndex) -> TaskMemory:
        """What is held of a task; a new task takes its share of a common budget from the others."""
        number = operator.index(task)  # tensors of one number differ from each other, and from the number
        if number not in self.by_task:
            if not self.budget.per_task:
                self.check_room(len(self.by_task) + 1)
            self.by_task[number] = TaskMemory()
            for held in self.by_task.values():
                self.make_room(held, 0)
        return self.by_task[number]

    def make_room(self, held: TaskMemory, wanted: int) -> None:
        """Drop images of a task, the oldest or random ones, until `wanted` more fits."""
        while held.images and held.cost + wanted > self.budget_bytes:
            index = 0 if self.reservoir is None else self.draw(len(held.images))
            held.cost -= held.images[index].cost
            del held.images[index]

    def fit_classes(self, num_classes: int, budget: Budget) -> None:
        """Be ready for so many classes: labels are kept in a type that holds them, under the budget for such labels.

        A budget that has no room for an image then is refused, and nothing is changed.
        """
        kind, before = label_type(num_classes), (self.num_classes, self.budget, self.label_type)
        labels = {task: self.labels(held.images).astype(kind) for task, held in self.by_task.items()}
        self.num_classes, self.budget, self.label_type = num_classes, budget, kind
        if kind == before[-1]:
            return
        try:
            self.check_room(max(1, len(self.by_task)))
        except ConfigError:
            self.num_classes, self.budget, self.label_type = before
            raise
        for task, held in self.by_task.items():
            images = zip(held.images, labels[task], strict=True)
            held.images = deque(self.stored_image(image.blob, label.tobytes(), image.note) for image, label in images)
            held.cost = sum(image.cost for image in held.images)
            self.make_room(held, 0)

    def draw(self, below: int) -> int:
        return int(torch.randint(below, (), generator=self.reservoir))

    # What comes out

    def recall(
        self, task: int
    ) -> tuple[UInt8[np.ndarray, "n c h w"], Bool[np.ndarray, "n h w"], Int64[np.ndarray, "n"]]:
        """A task's images as far as they were kept, their masks and their labels, oldest first."""
        images = self.by_task[task].images if task in self.by_task else ()
        decoded, masks = self.codec.decode([image.blob for image in images])
        return decoded, masks, self.labels(images)

    def decoded(
        self, tasks: Iterable[int] | None = None
    ) -> Iterator[tuple[bytes, UInt8[np.ndarray, "c h w"], Bool[np.ndarray, "h w"]]]:
        """Every stored image of some tasks, or of all: its blob, its pixels and its mask; few are decoded at a time."""
        at_once = max(1, PIXELS_AT_ONCE // int(np.prod(self.codec.image_shape[1:])))
        for task in self.by_task if tasks is None else tasks:
            blobs = [image.blob for image in self.by_task[task].images]
            for start in range(0, len(blobs), at_once):
                part = blobs[start : start + at_once]
                yield from zip(part, *self.codec.decode(part), strict=True)

    def labels(self, images: Iterable[StoredImage]) -> Int64[np.ndarray, "n"]:
        return np.frombuffer(b"".join(image.label for image in images), self.label_type).astype(np.int64)

    @property
    def tasks(self) -> list[int]:
        """The tasks of which at least one image is held."""
        return [task for task, held in self.by_task.items() if held.images]

    @property
    def images_per_task(self) -> dict[int, int]:
        return {task: len(held.images) for task, held in self.by_task.items()}

    # What it takes, and what it may take

    @property
    def nbytes(self) -> int:
        """Every byte that is stored, whatever the accounting."""
        return sum(held.nbytes for held in self.by_task.values())

    @property
    def nbytes_by_part(self) -> dict[str, int]:
        """The same bytes by what they are for: positions, colours, labels, lengths, headers, gist, notes by name."""
        parts: Counter[str] = Counter(labels=0)
        for held in self.by_task.values():
            for image in held.images:
                parts.update(self.codec.nbytes_by_part(image.blob), labels=len(image.label), lengths=len(image.length))
                if self.note is not None:
                    parts[self.note] += len(image.note)
        return {name: size for name, size in sorted(parts.items()) if size or name == "labels"}

    @property
    def budget_bytes(self) -> int:
        """What each task may hold now, in the accounting's bytes."""
        return self.share(len(self.by_task))

    def share(self, tasks: int) -> int:
        """The same, where there are so many tasks."""
        return self.budget.total if self.budget.per_task else self.budget.total // max(1, tasks)

    @property
    def max_pixels(self) -> int:
        """The most pixels that one image may keep and still fit into an empty task's share."""
        return self.pixels_in(self.budget_bytes)

    def pixels_in(self, share: int) -> int:
        if self.accounting == "values":
            return share // self.codec.image_shape[0]
        return self.codec.max_pixels(share - self.overhead_bytes)

    def check_room(self, tasks: int, note_bytes: int = 0, images: Iterable[UInt8[np.ndarray, "n c h w"]] = ()) -> None:
        """Refuse a budget in which one of so many tasks could not hold an image; of those that are known, the largest.

        `note_bytes` is what a method keeps with each image.
        """
        share, least = self.share(tasks), self.least_share(note_bytes, images)
        if share >= least:
            return
        if self.budget.per_task:
            shared, enough = f"a budget of {share} bytes per task", f"{least}/task"
        else:
            each = f", {share} bytes for each of {tasks}," if tasks > 1 else ""
            shared, enough = f"a budget of {self.budget}{each}", str(least * tasks)
        remedy = f"raise it: one takes {least} bytes as {self.codec.spec}, so give at least --memory-bytes {enough}"
        raise ConfigError(f"{shared} cannot hold one image; {remedy}")

    def least_share(self, note_bytes: int = 0, images: Iterable[UInt8[np.ndarray, "n c h w"]] = ()) -> int:
        """The fewest bytes of a task in which an image finds room, as far as that is known before it is encoded."""
        besides = self.overhead_bytes + note_bytes if self.accounting == "bytes" else 0
        if self.codec.blob_bytes:
            return self.codec.blob_bytes + besides
        if self.codec.selective and not self.codec.gist:  # a single pixel
            most = int(np.prod(self.codec.image_shape)) + 2**16 + besides
            extra = note_bytes if self.accounting == "bytes" else 0
            return bisect_left(range(most), 1, key=lambda share: self.pixels_in(share - extra))
        return max((largest_blob(self.codec, part) + besides for part in images), default=0)

    @property
    def overhead_bytes(self) -> int:
        """What every image takes on top of blob and note: its label, and their lengths if those differ."""
        lengths = self.length_type, NOTE_LENGTH if self.note is not None else None
        return self.label_type.itemsize + sum(kind.itemsize for kind in lengths if kind)

    # How it is kept and shown

    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """As a file of its own that anybody can weigh, open and audit: docs/memory.md."""
        from samc.memory.file import save  # noqa: PLC0415  (it imports this module)

        return save(self, path, replace=replace)

    @classmethod
    def load(cls, path: str | Path) -> "EpisodicMemory":
        """From such a file; a stranger's is safe to open."""
        from samc.memory.file import load  # noqa: PLC0415  (it imports this module)

        return load(path)

    def terms(self) -> dict[str, str]:
        """What its bytes mean, and how many there may be."""
        share = "per task" if self.budget.per_task else "in all"
        return {
            "codec": self.codec.spec,
            "memory": f"{self.budget.total:,} bytes {share}",
            "accounting": self.accounting,
            "what is kept": "the newest" if self.reservoir is None else "a sample",
            "bytes of a label": str(self.label_type.itemsize),
        }

    def state_dict(self) -> dict[int, Any]:
        return {
            task: {"items": [self.saved(image) for image in held.images], "offered": held.offered}
            for task, held in self.by_task.items()
        }

    def saved(self, image: StoredImage) -> tuple[bytes, ...]:
        return (image.blob, image.label) if self.note is None else (image.blob, image.label, image.note)

    def load_state_dict(self, state: dict[int, Any]) -> None:
        """Under a smaller budget than the state was made with, images are dropped as they always are."""
        self.by_task = {task: TaskMemory(offered=saved["offered"]) for task, saved in state.items()}
        for task, saved in state.items():
            held = self.by_task[task]
            held.images.extend(self.stored_image(*item) for item in saved["items"])
            held.cost = sum(image.cost for image in held.images)
            self.make_room(held, 0)

    def __repr__(self) -> str:
        tasks = counted(len(self.by_task), "task")
        images = counted(sum(self.images_per_task.values()), "image")
        cost = sum(held.cost for held in self.by_task.values())
        budget = self.budget.total * max(1, len(self.by_task)) if self.budget.per_task else self.budget.total
        unit = "bytes" if self.accounting == "bytes" else "bytes of colours"
        return f"EpisodicMemory({tasks}, {images}, {cost:,} of {budget:,} {unit}, {self.codec.spec})"

    def _repr_html_(self) -> str:
        """What a notebook shows: some pictures of each task."""
        from samc.memory.notebook import memory_html  # noqa: PLC0415  (it imports this module)

        return memory_html(self)
