"""A task whose batches come from a DataLoader: what it learns from is never held in memory as a whole.

The loader's own order, batch size and transforms are kept, epoch after epoch. Three things read a loader besides
learning: one pass over the training loader finds the classes (unless they are given), one over the test loader collects
the test images as bytes, and where a method asks for a task's images (`x`, `y`), one more collects them as bytes.
None of these passes changes what the loader gives afterwards: the random generators that it draws from are put back.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from samc.errors import DataError
from samc.streams.pixels import Normalisation, PixelReader, by_sides, described
from samc.streams.samples import read_pair
from samc.streams.task import Labelled, Task, check_test_labels, known_classes


@dataclass(frozen=True, eq=False, repr=False)
class LoaderTask(Task):
    """A task of a training loader and perhaps a test loader; any iterable of batches that can be iterated again.

    Batches are handed on as they come, normalised floats too: a learner that is given the same mean and std takes them.
    """

    id: int
    classes: tuple[int, ...]
    train: Iterable[Any]
    test: Iterable[Any] | None
    shape: tuple[int, int, int]
    batches_per_epoch: int
    floats: bool
    # whether its images are floats; uint8 images are never normalised
    normalisation: Normalisation | None

    own_batch_size: ClassVar[bool] = True
    seed: ClassVar[int] = 0  # type: ignore[misc]  # the loader shuffles for itself

    @classmethod
    def of(
        cls, id: int, train: Any, test: Any, classes: Sequence[int] | None, normalisation: Normalisation | None
    ) -> "LoaderTask":
        """A task from its loaders, after one pass over the first; over one batch where the classes are given."""
        for part, loader in (("training", train), ("test", test)):
            if loader is not None and (isinstance(loader, Iterator) or not isinstance(loader, Iterable)):
                raise DataError(
                    f"task {id}'s {part} images come from {described(loader)}, which cannot be gone through again for "
                    "the next epoch or test; give a DataLoader"
                )
        reader = PixelReader(f"task {id}'s training images", normalisation)
        labels: set[int] = set()
        length = length_of(train)
        count = 0
        with undisturbed(train):
            for batch in train:
                _, y = read_pair(batch, reader)
                labels.update(y.tolist())
                count += 1
                if classes is not None and length is not None:
                    break
            else:
                reader.finish()
        if reader.shape is None:
            raise DataError(f"task {id}'s training images are none: its {type(train).__name__} gave no batch")
        found = known_classes(id, labels, classes)
        return cls(id, found, train, test, reader.shape, length or count, reader.floats, normalisation)

    @property
    def has_test(self) -> bool:
        return self.test is not None

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return self.shape

    def batches(self, batch_size: int, epochs: int = 1) -> Iterator[tuple[Tensor, Int64[Tensor, "b"]]]:
        """The loader's batches, as they come; `batch_size` is the loader's own affair."""
        for _ in range(epochs):
            yield from self.read()

    def steps(self, batch_size: int, epochs: int = 1) -> int:
        return epochs * self.batches_per_epoch

    def test_batches(self) -> Iterator[tuple[Tensor, Int64[Tensor, "b"]]]:
        """The test images; without any, the loader's batches one by one, as they may be more than memory holds."""
        if self.has_test:
            yield self.test_x, self.test_y
        else:
            with undisturbed(self.train):
                yield from self.read()

    def read(self) -> Iterator[tuple[Tensor, Int64[Tensor, "b"]]]:
        """One epoch of the training loader."""
        reader = PixelReader(f"task {self.id}'s training images", self.normalisation)
        reader.shape = self.shape
        for batch in self.train:
            yield read_pair(batch, reader)

    @cached_property
    def collected(self) -> Labelled:
        """One epoch's images, as bytes."""
        return self.collect(self.train, "training")

    @cached_property
    def x(self) -> UInt8[Tensor, "n c h w"]:  # type: ignore[override]
        return self.collected[0]

    @cached_property
    def y(self) -> Int64[Tensor, "n"]:  # type: ignore[override]
        return self.collected[1]

    def release(self) -> None:
        for name in ("collected", "x", "y"):
            self.__dict__.pop(name, None)

    @cached_property
    def collected_test(self) -> Labelled:
        """All test images, as bytes."""
        if self.test is None:
            return self.collected
        images, labels = self.collect(self.test, "test")
        check_test_labels(self.id, labels, self.classes)
        return images, labels

    @cached_property
    def test_x(self) -> UInt8[Tensor, "m c h w"]:  # type: ignore[override]
        return self.collected_test[0]

    @cached_property
    def test_y(self) -> Int64[Tensor, "m"]:  # type: ignore[override]
        return self.collected_test[1]

    def collect(self, loader: Iterable[Any], part: str) -> Labelled:
        """Everything that a loader gives in one epoch, as bytes."""
        reader = PixelReader(f"task {self.id}'s {part} images", self.normalisation)
        reader.shape = self.shape
        parts = []
        with undisturbed(loader):
            for batch in loader:
                images, labels = read_pair(batch, reader)
                parts.append((reader.to_bytes(images), labels))
        if not parts:
            raise DataError(f"task {self.id}'s {part} images are none: its {type(loader).__name__} gave no batch")
        reader.finish()
        return torch.cat([images for images, _ in parts]), torch.cat([labels for _, labels in parts])

    def contents(self) -> str:
        tested = "test images from another" if self.has_test else "tested on them too"
        return f"images of {by_sides(self.shape)} from a {type(self.train).__name__}, {tested}"


def length_of(loader: Any) -> int | None:
    """How many batches a loader says it has, if it says so."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


@contextmanager
def undisturbed(loader: Any) -> Iterator[None]:
    """Go through a loader without changing the order and the random transforms of its next epoch."""
    states = random_states([loader])
    try:
        yield
    finally:
        set_random_states([loader], states)


def loaders_of(tasks: Iterable[Task]) -> list[Any]:
    """The loaders that tasks learn from."""
    return [task.train for task in tasks if isinstance(task, LoaderTask)]


def random_states(loaders: Iterable[Any]) -> dict[str, Any]:
    """Of everything that loaders draw from: their own generators, and those that all of a process share."""
    return {
        "generators": [part.get_state() for part in generators_of(loaders)],
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),
        "python": random.getstate(),
    }


def set_random_states(loaders: Iterable[Any], states: dict[str, Any]) -> None:
    for part, state in zip(generators_of(loaders), states["generators"], strict=True):
        part.set_state(state)
    torch.set_rng_state(states["torch"])
    np.random.set_state(states["numpy"])
    random.setstate(states["python"])


def generators_of(loaders: Iterable[Any]) -> list[torch.Generator]:
    """Each once, in a fixed order."""
    found = []
    for loader in loaders:
        holders = [loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler", "dataset"))]
        holders.append(getattr(holders[2], "sampler", None))
        found += [getattr(holder, "generator", None) for holder in holders]
    return list({id(part): part for part in found if isinstance(part, torch.Generator)}.values())
