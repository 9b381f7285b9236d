"""What a stream is: a data set cut into tasks, each of which hands out seeded batches of uint8 images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from samc.errors import ConfigError, DataError

HELD_OUT = 10
# one in so many training images is tested on where the test images must not be looked at


@dataclass(frozen=True, eq=False)
class Dataset:
    """All images of a data set as they were read: uint8 (n, h, w, c) and whole numbers (n,), once `check` agrees."""

    name: str
    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    class_names: tuple[str, ...]
    source: str
    # where the pixels come from, in words that two runs on the same data share


@dataclass(frozen=True, eq=False)
class Task:
    """One task: its classes, its images, and the seed that orders them. Labels are those of the whole stream."""

    id: int
    classes: tuple[int, ...]
    x: UInt8[Tensor, "n c h w"]
    y: Int64[Tensor, "n"]
    test_x: UInt8[Tensor, "m c h w"]
    test_y: Int64[Tensor, "m"]
    seed: int = 0

    def batches(
        self, batch_size: int, epochs: int = 1
    ) -> Iterator[tuple[UInt8[Tensor, "b c h w"], Int64[Tensor, "b"]]]:
        """The task's images in seeded order: each epoch has its own, and a second call repeats the first."""
        for epoch in range(epochs):
            order = torch.randperm(len(self.x), generator=generator(self.seed, self.id, epoch))
            for chosen in order.split(batch_size):
                yield self.x[chosen], self.y[chosen]

    def steps(self, batch_size: int, epochs: int = 1) -> int:
        """How many batches that makes."""
        return epochs * -(-len(self.x) // batch_size)


@dataclass(frozen=True, eq=False)
class Stream:
    """Tasks in the order in which they are learnt."""

    name: str
    tasks: tuple[Task, ...]
    num_classes: int
    class_names: tuple[str, ...]
    source: str

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, index: int) -> Task:
        return self.tasks[index]

    @property
    def task_classes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(task.classes for task in self.tasks)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        _, channels, height, width = self.tasks[0].x.shape
        return channels, height, width


def generator(*seeds: int) -> torch.Generator:
    """A random generator that belongs to these numbers and to no others."""
    # their number counts too: numpy takes trailing zeros for nothing
    state = np.random.SeedSequence((len(seeds), *seeds)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def split(
    dataset: Dataset,
    *,
    n_tasks: int | None = None,
    classes_per_task: int | None = None,
    class_order: Sequence[int] | str = "natural",
    samples_per_task: int | None = None,
    tested_on: str = "test",
    seed: int = 0,
) -> Stream:
    """Cut a data set into tasks.

    With classes_per_task, the first n_tasks groups of that many classes are taken (all of them by default);
    without it, all classes are shared out over n_tasks as evenly as possible.
    samples_per_task keeps that many training images of each task, drawn by the seed; test images are never cut.
    tested_on="held-out" puts a tenth of the training images in the place of the test images, to choose settings on.
    """
    check(dataset)
    if tested_on == "held-out":
        dataset = held_out(dataset)
    order = ordered_classes(class_order, len(dataset.class_names), seed)
    groups = grouped(order, n_tasks, classes_per_task, dataset.name)
    if samples_per_task is not None and samples_per_task < 1:
        raise ConfigError(f"samples-per-task is at least 1, got {samples_per_task}; leave it out to use every image")
    tasks = []
    for task_id, classes in enumerate(groups):
        chosen = np.flatnonzero(np.isin(dataset.y, classes))
        if samples_per_task is not None:
            drawn = torch.randperm(len(chosen), generator=generator(seed, task_id))[:samples_per_task]
            chosen = chosen[np.sort(drawn.numpy())]
        tested = np.flatnonzero(np.isin(dataset.test_y, classes))
        train, test = (
            as_tensors(x, y, rows)
            for x, y, rows in ((dataset.x, dataset.y, chosen), (dataset.test_x, dataset.test_y, tested))
        )
        tasks.append(Task(task_id, classes, *train, *test, seed=seed))
    return Stream(dataset.name, tuple(tasks), len(dataset.class_names), dataset.class_names, dataset.source)


def held_out(dataset: Dataset) -> Dataset:
    """Without its test images: every tenth training image of a class is one now, the same ones for every seed."""
    tested = np.zeros(len(dataset.y), bool)
    for label in range(len(dataset.class_names)):
        rows = np.flatnonzero(dataset.y == label)
        if len(rows) < HELD_OUT:
            name = dataset.class_names[label]
            raise DataError(f"{dataset.name}: class {name!r} has fewer than {HELD_OUT} images, no tenth to hold out")
        tested[rows[::HELD_OUT]] = True
    x, y, source = dataset.x, dataset.y, f"{dataset.source}, tested on a tenth of the training images"
    return replace(dataset, x=x[~tested], y=y[~tested], test_x=x[tested], test_y=y[tested], source=source)


def as_tensors(x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> tuple[Tensor, Tensor]:
    """Some rows as tensors; channels come first in the shape and stay last in memory, where convolutions want them."""
    return torch.from_numpy(x[rows]).permute(0, 3, 1, 2), torch.from_numpy(y[rows].astype(np.int64))


def ordered_classes(class_order: Sequence[int] | str, num_classes: int, seed: int) -> list[int]:
    """The class order in numbers: natural, shuffled (by the seed), or as given, whole or in part."""
    if class_order == "natural":
        return list(range(num_classes))
    if class_order == "shuffled":
        return torch.randperm(num_classes, generator=generator(seed)).tolist()
    try:
        parts = class_order.split(",") if isinstance(class_order, str) else class_order
        order = [int(part) for part in parts]
    except ValueError:
        raise ConfigError(f"class-order is natural, shuffled or numbers like 3,1,2; got {class_order!r}") from None
    wrong = [c for c in order if not 0 <= c < num_classes]
    if wrong or len(set(order)) < len(order) or not order:
        raise ConfigError(f"class-order names each class once, from 0 to {num_classes - 1}; got {class_order}")
    return order


def grouped(order: list[int], n_tasks: int | None, classes_per_task: int | None, name: str) -> list[tuple[int, ...]]:
    """The classes of each task."""
    if classes_per_task is not None and len(order) % classes_per_task:
        raise ConfigError(f"{name} has {classes_per_task} classes a task; class-order names {len(order)}")
    most = len(order) // (classes_per_task or 1)
    wanted = n_tasks if n_tasks is not None else most if classes_per_task else 1
    if not 1 <= wanted <= most:
        raise ConfigError(f"{name} can be cut into 1 to {most} tasks, got n-tasks {wanted}")
    if classes_per_task is not None:
        return [tuple(order[i * classes_per_task :][:classes_per_task]) for i in range(wanted)]
    return [tuple(group.tolist()) for group in np.array_split(order, wanted)]


def check(dataset: Dataset) -> None:
    """Refuse what would train on nonsense: wrong shapes or types, labels without a class, a class without images."""
    name, num_classes = dataset.name, len(dataset.class_names)
    for part, x, y in (("training", dataset.x, dataset.y), ("test", dataset.test_x, dataset.test_y)):
        if x.dtype != np.uint8:
            holes = int(np.isnan(x).sum()) if np.issubdtype(x.dtype, np.floating) else 0
            found = f"{x.dtype} with {holes} NaN values" if holes else str(x.dtype)
            raise DataError(f"{name}: {part} images are uint8 from 0 to 255, got {found}; convert them first")
        if x.ndim != 4 or x.shape[3] not in (1, 3) or 0 in x.shape[1:] or x.shape[1:] != dataset.x.shape[1:]:
            raise DataError(f"{name}: {part} images are (n, height, width, 1 or 3), all of one size; got {x.shape}")
        if not np.issubdtype(y.dtype, np.integer) or y.shape != (len(x),):
            raise DataError(
                f"{name}: {part} labels are one whole number an image; got {y.dtype} {y.shape} for {len(x)}"
            )
        counts = np.bincount(y[(y >= 0) & (y < num_classes)], minlength=num_classes)
        if counts.sum() < len(y):
            raise DataError(f"{name}: {part} labels go from 0 to {num_classes - 1}; got {y.min()} to {y.max()}")
        if (counts == 0).any():
            empty = dataset.class_names[int(np.argmin(counts))]
            raise DataError(f"{name}: class {empty!r} has no {part} image; add some or leave the class out")
