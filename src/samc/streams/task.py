"""What a task is: classes, images, and batches of them; here made of images in memory."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from samc.errors import DataError
from samc.streams.pixels import Normalisation, PixelReader, as_labels, by_sides
from samc.streams.samples import read_dataset

Labelled = tuple[Tensor, Tensor]
# images as bytes, and their labels
CLASSES_SHOWN = 6
# of classes that do not follow each other, so many are named


class Task(ABC):
    """What learners and the protocol use of a task. Labels are those of the whole stream.

    Make one of your own data with `from_arrays`, `from_dataset` or `from_loader`.
    """

    id: int
    classes: tuple[int, ...]
    x: UInt8[Tensor, "n c h w"]
    y: Int64[Tensor, "n"]
    test_x: UInt8[Tensor, "m c h w"]
    test_y: Int64[Tensor, "m"]
    seed: int

    own_batch_size: ClassVar[bool] = False
    # whether the task, and not the run, says how large a batch is

    @abstractmethod
    def batches(self, batch_size: int, epochs: int = 1) -> Iterator[tuple[Tensor, Int64[Tensor, "b"]]]:
        """What is learnt from, in order."""

    @abstractmethod
    def steps(self, batch_size: int, epochs: int = 1) -> int:
        """How many batches that makes."""

    @property
    @abstractmethod
    def has_test(self) -> bool:
        """Whether there are test images; without them the task is tested on its own training images."""

    def test_batches(self) -> Iterator[tuple[Tensor, Int64[Tensor, "b"]]]:
        """What is tested on; the learner cuts it into the batches that it likes."""
        yield self.test_x, self.test_y

    @property
    def image_shape(self) -> tuple[int, int, int]:
        _, channels, height, width = self.x.shape
        return channels, height, width

    def release(self) -> None:  # noqa: B027  (most tasks have nothing to free)
        """The task has been learnt: free training images that were collected for it."""

    def numbered(self, id: int) -> "Task":
        """The same task under another id."""
        task = copy(self)
        object.__setattr__(task, "id", id)  # frozen for everybody else
        return task

    def __repr__(self) -> str:
        return f"Task({self.id}: {class_range(self.classes)}, {self.contents()})"

    @abstractmethod
    def contents(self) -> str:
        """Its images in words, for `repr`."""

    @staticmethod
    def from_arrays(
        x: Tensor | np.ndarray,
        y: Any,
        test_x: Tensor | np.ndarray | None = None,
        test_y: Any = None,
        *,
        id: int = 0,
        classes: Sequence[int] | None = None,
        mean: Any = None,
        std: Any = None,
        seed: int = 0,
    ) -> "ArrayTask":
        """A task from numpy arrays or tensors.

        Images are (n, c, h, w), (n, h, w, c) or, for grey ones, (n, h, w); uint8, or floats from 0 to 1, or floats
        that were normalised with `mean` and `std`. Floats are rounded to bytes. Labels are whole numbers from 0.
        Without test images, the task is tested on its training images, and a run's record says so.
        """
        if (test_x is None) != (test_y is None):
            raise DataError(f"task {id}: only one of test_x and test_y is there; give both, or neither")
        normalisation = Normalisation.of(mean, std)

        def read(images: Tensor | np.ndarray, labels: Any, part: str) -> Labelled:
            reader = PixelReader(f"task {id}'s {part} images", normalisation)
            pixels = reader.to_bytes(reader.read(images))
            reader.finish()
            return pixels, as_labels(labels, len(pixels), reader.where)

        train = read(x, y, "training")
        test = None if test_x is None else read(test_x, test_y, "test")
        return ArrayTask.of(id, train, test, classes, seed)

    @staticmethod
    def from_dataset(
        train: Any,
        test: Any = None,
        *,
        id: int = 0,
        classes: Sequence[int] | None = None,
        mean: Any = None,
        std: Any = None,
        seed: int = 0,
    ) -> "ArrayTask":
        """A task from torch Datasets of (image, label), read once into memory, as bytes.

        An image is a tensor or array as in `from_arrays`, or a PIL image; a label is a whole number from 0. With
        `mean` and `std`, images are floats that were normalised with them. A random transform is drawn once per
        image here; to have it drawn in every epoch, use a DataLoader (`from_loader`).
        """
        normalisation = Normalisation.of(mean, std)
        images = read_dataset(train, f"task {id}'s training images", normalisation)
        tests = None if test is None else read_dataset(test, f"task {id}'s test images", normalisation)
        return ArrayTask.of(id, images, tests, classes, seed)

    @staticmethod
    def from_loader(
        train: Any,
        test: Any = None,
        *,
        id: int = 0,
        classes: Sequence[int] | None = None,
        mean: Any = None,
        std: Any = None,
    ) -> "Task":
        """A task whose batches come from a DataLoader, in its own order and size; see `samc.streams.loader`.

        `classes` saves the pass over the loader that finds them. With `mean` and `std`, its images are floats that
        were normalised with them, and the learner needs the same two.
        """
        from samc.streams.loader import LoaderTask  # noqa: PLC0415  (that module is made of this one)

        return LoaderTask.of(id, train, test, classes, Normalisation.of(mean, std))


@dataclass(frozen=True, eq=False, repr=False)
class ArrayTask(Task):
    """A task whose images are in memory; a seed orders them."""

    id: int
    classes: tuple[int, ...]
    x: UInt8[Tensor, "n c h w"]
    y: Int64[Tensor, "n"]
    test_x: UInt8[Tensor, "m c h w"]
    test_y: Int64[Tensor, "m"]
    seed: int = 0

    @classmethod
    def of(
        cls, id: int, train: Labelled, test: Labelled | None, classes: Sequence[int] | None, seed: int
    ) -> "ArrayTask":
        """Training and test images, once they are known to go together."""
        (x, y), (test_x, test_y) = train, test or train
        if test_x.shape[1:] != x.shape[1:]:
            sizes = f"{by_sides(tuple(test_x.shape[1:]))} and {by_sides(tuple(x.shape[1:]))}"
            raise DataError(f"task {id}'s test and training images differ in size: {sizes}; bring them to one size")
        found = known_classes(id, set(y.tolist()), classes)
        check_test_labels(id, test_y, found)
        return cls(id, found, x, y, test_x, test_y, seed)

    @property
    def has_test(self) -> bool:
        return self.test_x is not self.x

    def batches(
        self, batch_size: int, epochs: int = 1
    ) -> Iterator[tuple[UInt8[Tensor, "b c h w"], Int64[Tensor, "b"]]]:
        """The task's images in seeded order: each epoch has its own, and a second call repeats the first."""
        for epoch in range(epochs):
            order = torch.randperm(len(self.x), generator=generator(self.seed, self.id, epoch))
            for rows in order.split(batch_size):
                yield self.x[rows], self.y[rows]

    def steps(self, batch_size: int, epochs: int = 1) -> int:
        return epochs * -(-len(self.x) // batch_size)

    def contents(self) -> str:
        size = by_sides(self.image_shape)
        if not self.has_test:
            return f"{len(self.x):,} training images of {size}, tested on them too"
        return f"{len(self.x):,} training and {len(self.test_x):,} test images of {size}"


def known_classes(id: int, labels: set[int], classes: Sequence[int] | None) -> tuple[int, ...]:
    """A task's classes: those that were given, in their order, or else its labels in theirs."""
    if classes is None:
        return tuple(sorted(labels))
    if strange := labels - set(classes):
        raise DataError(f"task {id} has labels {sorted(strange)}, which are not among its classes {list(classes)}")
    return tuple(int(label) for label in classes)


def check_test_labels(id: int, test_y: Int64[Tensor, "m"], classes: tuple[int, ...]) -> None:
    """Refuse test images of classes that the task does not teach."""
    if strange := set(test_y.tolist()) - set(classes):
        raise DataError(
            f"task {id}: class {min(strange)} is in its test images but not in its training images; "
            "add training images, or leave the class out of the test"
        )


def generator(*seeds: int) -> torch.Generator:
    """A random generator that belongs to these numbers and to no others."""
    # their number counts too: numpy takes trailing zeros for nothing
    state = np.random.SeedSequence((len(seeds), *seeds)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def class_range(classes: tuple[int, ...]) -> str:
    """Classes in words: "class 3", "classes 15-19", "classes 4, 1, 7"."""
    if len(classes) == 1:
        return f"class {classes[0]}"
    if classes and classes == tuple(range(classes[0], classes[0] + len(classes))):
        return f"classes {classes[0]}-{classes[-1]}"
    shown = ", ".join(str(label) for label in classes[:CLASSES_SHOWN])
    return f"classes {shown}" + (f", ... ({len(classes)} of them)" if len(classes) > CLASSES_SHOWN else "")
