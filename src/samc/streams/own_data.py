"""A stream of whatever Python code has at hand: tasks, arrays, torch Datasets, DataLoaders."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from samc.errors import ConfigError, DataError
from samc.streams.base import Dataset, Stream, split
from samc.streams.custom import from_arrays, from_datasets
from samc.streams.images import short_sha1
from samc.streams.loader import LoaderTask
from samc.streams.pixels import Normalisation, by_sides, described
from samc.streams.task import ArrayTask, Task

NAME = "your data"
EXPECTED = "a Task, a Dataset, a DataLoader, a pair (train, test) of either, or arrays (x, y) or (x, y, test_x, test_y)"


def stream_of(
    items: Any,
    *,
    name: str = NAME,
    class_names: Sequence[str] | None = None,
    mean: Any = None,
    std: Any = None,
    seed: int = 0,
    **cut: Any,
) -> Stream:
    """A stream with one task per item of a list (or other iterable), in order; a Stream is returned as it is.

    Or, with `n_tasks` or whatever else `samc.streams.split` takes to `cut` by, of one Dataset of all classes, a pair
    (train, test) of such or arrays of all classes: `stream_of(dataset, n_tasks=5)`.

    An item is a Task; a torch Dataset or a pair of them (train, test), as in `Task.from_dataset`; a DataLoader or a
    pair of them, as in `Task.from_loader`; or a tuple of arrays, as in `Task.from_arrays`. Labels stay as they come:
    whole numbers from 0, which tasks may share or not. With `mean` and `std`, float images are normalised ones.
    Tasks are numbered by their place, unless they come with ids that all differ. `seed` orders the batches of Datasets
    and arrays; a DataLoader orders its own.
    """
    if isinstance(items, Stream):
        return items
    if cut:
        return split(whole(items, name, class_names, mean, std), seed=seed, **cut)
    if isinstance(items, Task | TorchDataset | DataLoader):
        kind = type(items).__name__
        remedy = f"put the {kind} into a list" + (", or have it cut: n_tasks=5" if is_dataset(items) else "")
        raise DataError(f"a stream is a list with one item per task; {remedy}")
    if isinstance(items, str):
        raise DataError(f"a stream is a list with one item per task; open one by name with open_stream({items!r})")
    tasks = [as_task(item, place, {"mean": mean, "std": std}, seed) for place, item in enumerate(items)]
    if not tasks:
        raise DataError(f"the stream has no task; give a list with one item per task: {EXPECTED}")
    if len({task.id for task in tasks}) < len(tasks):
        tasks = [task.numbered(place) for place, task in enumerate(tasks)]
    for task in tasks:
        if task.image_shape != tasks[0].image_shape:
            sizes = " and ".join(by_sides(other.image_shape) for other in (tasks[0], task))
            raise DataError(f"tasks {tasks[0].id} and {task.id} differ in image size: {sizes}; bring them to one size")
    num_classes = 1 + max(max(task.classes) for task in tasks)
    names = tuple(class_names) if class_names is not None else tuple(str(label) for label in range(num_classes))
    if len(names) < num_classes:
        raise DataError(f"class_names has {len(names)} names for {num_classes} classes; name every class")
    return Stream(name, tuple(tasks), len(names), names, source_of(tasks))


def whole(items: Any, name: str, class_names: Sequence[str] | None, mean: Any, std: Any) -> Dataset:
    """All classes as one data set, to be cut."""
    parts = list(items) if isinstance(items, tuple | list) else [items]
    if len(parts) in (1, 2) and all(is_dataset(part) for part in parts):
        return from_datasets(name, *parts, class_names=class_names, mean=mean, std=std)
    if len(parts) in (2, 4) and all(is_array(part) for part in parts[::2]):
        task = Task.from_arrays(*parts, mean=mean, std=std)
        tests = {"x_test": task.test_x, "y_test": task.test_y} if task.has_test else {}
        arrays = {"x": task.x, "y": task.y, **tests}
        last = {key: (part.permute(0, 2, 3, 1) if part.ndim == 4 else part).numpy() for key, part in arrays.items()}
        return from_arrays(name, name, last, class_names=class_names)
    wanted = "one Dataset, a pair (train, test) of them, or arrays (x, y) or (x, y, test_x, test_y)"
    raise DataError(f"what is cut into tasks is {wanted}, of all classes; got {described(items)}")


def as_task(item: Any, place: int, normalised: dict[str, Any], seed: int) -> Task:
    """One item of a stream as a task."""
    if isinstance(item, Task):
        return item
    if isinstance(item, tuple | list) and len(item) in (2, 4) and is_array(item[0]):
        return Task.from_arrays(*item, id=place, seed=seed, **normalised)
    pair = item if isinstance(item, tuple | list) and len(item) == 2 else (item, None)
    train, test = pair
    if is_dataset(train) and (test is None or is_dataset(test)):
        return Task.from_dataset(train, test, id=place, seed=seed, **normalised)
    if is_loader(train) and (test is None or is_loader(test)):
        return Task.from_loader(train, test, id=place, **normalised)
    if pair is item and all(is_dataset(part) or is_loader(part) for part in pair):
        kinds = " and ".join(type(part).__name__ for part in pair)
        raise DataError(f"item {place} of the stream pairs {kinds}; give two Datasets or two DataLoaders")
    raise DataError(f"item {place} of the stream is {described(item)}; expected {EXPECTED}")


def is_array(part: Any) -> bool:
    return isinstance(part, Tensor | np.ndarray)


def is_dataset(part: Any) -> bool:
    """A torch Dataset, or what is used like one: it has a length, and samples by their number."""
    if isinstance(part, TorchDataset):
        return True
    plain = isinstance(part, tuple | list | str | bytes | Mapping | Stream) or is_array(part)
    return not plain and hasattr(part, "__len__") and hasattr(part, "__getitem__")


def is_loader(part: Any) -> bool:
    """A DataLoader, or what is used like one: batches come by iterating it."""
    plain = isinstance(part, tuple | list | str | bytes | Mapping | Stream | TorchDataset) or is_array(part)
    return isinstance(part, DataLoader) or (not plain and isinstance(part, Iterable) and not is_dataset(part))


def source_of(tasks: Sequence[Task]) -> str:
    """Where the pixels come from: what two runs on the same data share, and what they were tested on."""
    loaders = sum(isinstance(task, LoaderTask) for task in tasks)
    parts = ["own data"]
    if loaders:
        parts.append("batches from data loaders" if loaders == len(tasks) else "some batches from data loaders")
    tested = [task.id for task in tasks if not task.has_test]
    if tested:
        which = f"tasks {', '.join(str(number) for number in tested)}: " if len(tested) < len(tasks) else ""
        parts.append(f"{which}tested on the training images")
    # the order of a shuffling loader, and random transforms, would make the same data look different
    if arrays := list(pixels(tasks)):
        parts.append(f"sha1 {'of the test images ' if loaders == len(tasks) else ''}{short_sha1(*arrays)}")
    return ", ".join(parts)


def pixels(tasks: Sequence[Task]) -> Iterator[np.ndarray]:
    """The images and labels that are the same in every run."""
    for task in tasks:
        if isinstance(task, ArrayTask):
            yield from (task.x.permute(0, 2, 3, 1).numpy(), task.y.numpy())
        if task.has_test:
            yield from (task.test_x.permute(0, 2, 3, 1).numpy(), task.test_y.numpy())


def check_normalisation(stream: Stream, normalisation: Normalisation | None) -> None:
    """Refuse a loader that hands floats to a learner which takes them for something else than they are."""
    for task in stream:
        if isinstance(task, LoaderTask) and task.floats and task.normalisation != normalisation:
            raise ConfigError(
                f"task {task.id}'s loader gives {task.normalisation or 'pixels / 255'}, but the learner takes floats "
                f"for {normalisation or 'pixels / 255'}; give both the same mean= and std=, or load uint8"
            )
