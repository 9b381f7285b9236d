"""What a stream is, and how a data set is cut into one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from samc.config import RunConfig, check_setting
from samc.errors import ConfigError, DataError
from samc.streams.pixels import by_sides
from samc.streams.task import ArrayTask, Task, generator

HELD_OUT = 10
# one in so many training images is tested on where settings are chosen, which must not see the test images


@dataclass(frozen=True, eq=False, repr=False)
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
    domain: np.ndarray | None = None
    test_domain: np.ndarray | None = None
    # which task each image belongs to, from 0, where every task has all classes; None where tasks are cut by class

    def __repr__(self) -> str:
        images = f"{len(self.y):,} training and {len(self.test_y):,} test images of {by_sides(self.x.shape[1:])}"
        return f"Dataset({self.name}: {images}, {len(self.class_names)} classes)"


@dataclass(frozen=True, eq=False, repr=False)
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
        return self.tasks[0].image_shape

    def __repr__(self) -> str:
        tasks = "1 task" if len(self) == 1 else f"{len(self)} tasks"
        return f"Stream({self.name}: {tasks}, {self.num_classes} classes, {by_sides(self.image_shape)})"


def split(
    dataset: Dataset,
    *,
    n_tasks: int | None = None,
    classes_per_task: int | None = None,
    class_order: Sequence[int] | str = RunConfig.class_order,
    samples_per_task: int | None = None,
    tested_on: str = RunConfig.tested_on,
    seed: int = 0,
) -> Stream:
    """Cut a data set into tasks.

    With classes_per_task, the first n_tasks groups of that many classes are taken (all of them by default);
    without it, all classes are shared out over n_tasks as evenly as possible.
    samples_per_task keeps that many training images of each task, drawn by the seed; test images are never cut.
    tested_on="held-out" puts a tenth of the training images in the place of the test images, to choose settings on.
    """
    check(dataset)
    check_setting(RunConfig, "tested_on", tested_on)
    check_setting(RunConfig, "samples_per_task", samples_per_task)
    check_setting(RunConfig, "seed", seed)
    if tested_on == "held-out":
        dataset = with_held_out_test(dataset)
    if dataset.domain is None:
        order = ordered_classes(class_order, len(dataset.class_names), seed)
        cuts = by_class(dataset, grouped(order, n_tasks, classes_per_task, dataset.name))
    else:
        cuts = by_domain(dataset, n_tasks, class_order)
    tasks = []
    for task_id, (classes, all_rows, test_rows) in enumerate(cuts):
        train_rows = all_rows
        if samples_per_task is not None:
            drawn = torch.randperm(len(all_rows), generator=generator(seed, task_id))[:samples_per_task]
            train_rows = all_rows[np.sort(drawn.numpy())]
        train = as_tensors(dataset.x, dataset.y, train_rows)
        test = as_tensors(dataset.test_x, dataset.test_y, test_rows)
        tasks.append(ArrayTask(task_id, classes, *train, *test, seed=seed))
    return Stream(dataset.name, tuple(tasks), len(dataset.class_names), dataset.class_names, dataset.source)


Cut = tuple[tuple[int, ...], np.ndarray, np.ndarray]
# a task's classes, and the rows of its training and test images


def by_class(dataset: Dataset, groups: list[tuple[int, ...]]) -> Iterator[Cut]:
    for classes in groups:
        yield classes, np.flatnonzero(np.isin(dataset.y, classes)), np.flatnonzero(np.isin(dataset.test_y, classes))


def by_domain(dataset: Dataset, n_tasks: int | None, class_order: Sequence[int] | str) -> Iterator[Cut]:
    """A task for each domain, or for the first so many, of all classes."""
    assert dataset.domain is not None and dataset.test_domain is not None  # noqa: PT018
    most = int(dataset.domain.max()) + 1
    if class_order != RunConfig.class_order:
        raise ConfigError(f"every task of {dataset.name} has all classes; leave class-order out")
    if n_tasks is not None and not 1 <= n_tasks <= most:
        raise ConfigError(f"{dataset.name} has {most} domains, got n-tasks {n_tasks}")
    for domain in range(n_tasks or most):
        rows = np.flatnonzero(dataset.domain == domain), np.flatnonzero(dataset.test_domain == domain)
        yield tuple(np.unique(dataset.y[rows[0]]).tolist()), *rows


def with_held_out_test(dataset: Dataset) -> Dataset:
    """The same without its test images: every tenth training image per class is one now, the same for every seed.

    Where there are domains, per class and domain.
    """
    held_out, domain = np.zeros(len(dataset.y), bool), dataset.domain
    for label, name in enumerate(dataset.class_names):
        rows = np.flatnonzero(dataset.y == label)
        parts = [rows] if domain is None else [rows[domain[rows] == part] for part in np.unique(domain[rows])]
        for part in parts:
            if len(part) < HELD_OUT:
                where = "" if domain is None else " in a domain"
                found = f"class {name!r} has fewer than {HELD_OUT} images{where}, no tenth to hold out"
                raise DataError(f"{dataset.name}: {found}")
            held_out[part[::HELD_OUT]] = True
    x, y, source = dataset.x, dataset.y, f"{dataset.source}, tested on a tenth of the training images"
    domains = (None, None) if domain is None else (domain[~held_out], domain[held_out])
    cut = replace(dataset, x=x[~held_out], y=y[~held_out], test_x=x[held_out], test_y=y[held_out], source=source)
    return replace(cut, domain=domains[0], test_domain=domains[1])


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
    wrong = [label for label in order if not 0 <= label < num_classes]
    if wrong or len(set(order)) < len(order) or not order:
        raise ConfigError(f"class-order names each class once, from 0 to {num_classes - 1}; got {class_order}")
    return order


def grouped(order: list[int], n_tasks: int | None, classes_per_task: int | None, name: str) -> list[tuple[int, ...]]:
    """The classes of each task."""
    if classes_per_task is not None and len(order) % classes_per_task:
        raise ConfigError(f"{name} has {classes_per_task} classes per task; class-order names {len(order)}")
    most = len(order) // (classes_per_task or 1)
    wanted = n_tasks if n_tasks is not None else most if classes_per_task else 1
    if not 1 <= wanted <= most:
        raise ConfigError(f"{name} can be cut into 1 to {most} tasks, got n-tasks {wanted}")
    if classes_per_task is not None:
        return [tuple(order[task * classes_per_task :][:classes_per_task]) for task in range(wanted)]
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
                f"{name}: {part} labels are one whole number per image; got {y.dtype} {y.shape} for {len(x)}"
            )
        counts = np.bincount(y[(y >= 0) & (y < num_classes)], minlength=num_classes)
        if counts.sum() < len(y):
            raise DataError(f"{name}: {part} labels go from 0 to {num_classes - 1}; got {y.min()} to {y.max()}")
        if (counts == 0).any():
            empty = dataset.class_names[int(np.argmin(counts))]
            raise DataError(f"{name}: class {empty!r} has no {part} image; add some or leave the class out")
