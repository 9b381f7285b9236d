"""Data of your own as one data set: arrays in an npz file (`npz:PATH`), images in folders (`folder:PATH`), Datasets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from samc.errors import DataError
from samc.streams.base import Dataset, check
from samc.streams.images import read_arrays, read_folders, resized, short_sha1
from samc.streams.pixels import Normalisation, described
from samc.streams.samples import image_and_label, read_dataset

HELD_OUT = 5
# of data without test images, one image in so many is held out for the test

MOST_CLASSES = 65_536
# a memory's labels take two bytes where it does not know how many classes will come

Part = tuple[np.ndarray, np.ndarray]
# images and their labels


def load_npz(path: Path, image_size: int | None = None) -> Dataset:
    """A file with x, y and perhaps x_test, y_test; or a folder with train.npz and test.npz, each with x and y.

    x is uint8, (n, height, width, 3) or (n, height, width) for grey; y holds whole numbers or strings.
    """
    if path.is_dir():
        arrays = read_arrays(path / "train.npz", needed=("x", "y"))
        tests = read_arrays(path / "test.npz", needed=("x", "y"))
        arrays |= {"x_test": tests["x"], "y_test": tests["y"]}
    else:
        arrays = read_arrays(path, needed=("x", "y"), optional=("x_test", "y_test"))
    return from_arrays(f"npz:{path.name}", str(path), arrays, image_size)


def from_arrays(
    name: str,
    where: str,
    arrays: dict[str, np.ndarray],
    image_size: int | None = None,
    class_names: Sequence[str] | None = None,
) -> Dataset:
    """A data set of x, y and perhaps x_test, y_test; `where` they come from is what errors say.

    Labels are numbered anew in their order; `class_names` are by the labels as they came.
    """
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise DataError(f"{where} has only one of x_test and y_test; give both, or neither to hold out some of x")
    classes = np.unique(arrays["y"])
    if not len(classes):
        raise DataError(f"{where} has no class; it needs at least one image and its label")
    if len(classes) > MOST_CLASSES:
        raise DataError(f"{where} has {len(classes):,} different labels, at most {MOST_CLASSES:,} are classes; check y")
    train = x, y = images_and_labels(where, arrays, "", classes, image_size)
    has_test = "x_test" in arrays
    test = images_and_labels(where, arrays, "_test", classes, image_size) if has_test else (x[:0], y[:0])
    named = [str(label) for label in classes]
    if class_names is not None:
        if len(class_names) <= int(classes[-1]):
            raise DataError(f"class_names has {len(class_names)} names, and label {classes[-1]} none; name every class")
        named = [str(class_names[label]) for label in classes]
    return checked_dataset(name, train, test, tuple(named))


def from_datasets(
    name: str,
    train: Any,
    test: Any = None,
    *,
    image_size: int | None = None,
    class_names: Sequence[str] | None = None,
    mean: Any = None,
    std: Any = None,
) -> Dataset:
    """A data set of a torch Dataset of all classes, or of one to learn from and one to test on, read into memory.

    Classes are named as they are told, or as the Dataset's own `classes` are, as torchvision's have them.
    """
    arrays: dict[str, np.ndarray] = {}
    for end, part, dataset in (("", "training", train), ("_test", "test", test)):
        if dataset is not None:
            sized = dataset if image_size is None else Resized(dataset, image_size, f"{name}'s {part} images")
            x, y = read_dataset(sized, f"{name}'s {part} images", Normalisation.of(mean, std))
            arrays |= {f"x{end}": x.permute(0, 2, 3, 1).numpy(), f"y{end}": y.numpy()}
    known = getattr(train, "classes", None) if class_names is None else class_names
    fits = isinstance(known, Sequence) and len(known) > arrays["y"].max()
    return from_arrays(name, name, arrays, class_names=known if fits or class_names is not None else None)


class Resized:
    """The pictures of a Dataset at one size."""

    def __init__(self, dataset: Any, image_size: int, where: str):
        self.dataset, self.image_size, self.where = dataset, image_size, where

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        image, label = image_and_label(self.dataset[place], self.where)
        if not isinstance(image, Image.Image):
            raise DataError(f"{self.where} are {described(image)}, no pictures of Pillow's; resize them yourself")
        return resized(image, self.image_size), label


def load_folder(path: Path, image_size: int | None = None) -> Dataset:
    """Images in train/<class>/ and test/<class>/ (or val/<class>/); any depth below the class, read as RGB."""
    test = next((path / part for part in ("test", "val") if (path / part).is_dir()), None)
    x, y, test_x, test_y, class_names = read_folders(path / "train", test, image_size)
    return checked_dataset(f"folder:{path.name}", (x, y), (test_x, test_y), class_names)


def images_and_labels(
    path: str, arrays: dict[str, np.ndarray], end: str, classes: np.ndarray, image_size: int | None
) -> Part:
    """x and y of one part, with a label's place in classes as its number; `check` refuses what is no image."""
    x, y = np.atleast_1d(arrays[f"x{end}"]), np.atleast_1d(arrays[f"y{end}"])
    if y.dtype.kind not in "iuU":
        raise DataError(f"{path}: y{end} holds whole numbers or strings, got {y.dtype}; convert the labels first")
    if (y.dtype.kind == "U") != (classes.dtype.kind == "U"):
        raise DataError(f"{path}: one of y and y_test holds strings and the other numbers; convert one of them")
    strange = np.setdiff1d(y, classes)
    if len(strange):
        raise DataError(f"{path}: class {str(strange[0])!r} is in y_test but not in y; add training images or drop it")
    if x.ndim == 3:
        x = x[..., None]
    if image_size is not None and x.size and x.dtype == np.uint8 and x.ndim == 4 and x.shape[3] in (1, 3):
        # Pillow knows a grey image by having no channel at all
        images = [resized(Image.fromarray(image.squeeze(-1) if x.shape[3] == 1 else image), image_size) for image in x]
        x = np.stack([np.asarray(image) for image in images]).reshape(len(x), image_size, image_size, x.shape[3])
    return x, np.searchsorted(classes, y)


def checked_dataset(name: str, train: Part, test: Part, class_names: tuple[str, ...]) -> Dataset:
    """The checked data set; where no test image came with it, some of the training images become test images."""
    (x, y), (test_x, test_y), origin = train, test, "own data"
    if len(test_y) == 0:
        check(Dataset(name, x, y, x, y, class_names, origin))  # by their labels the held-out images are chosen
        rows = held_out_rows(name, y, class_names)
        x, y, test_x, test_y = x[~rows], y[~rows], x[rows], y[rows]
        origin = f"own data, every {HELD_OUT}th image of each class held out for test"
    dataset = Dataset(name, x, y, test_x, test_y, class_names, f"{origin}, sha1 {short_sha1(x, y, test_x, test_y)}")
    check(dataset)
    return dataset


def held_out_rows(name: str, y: np.ndarray, class_names: tuple[str, ...]) -> np.ndarray:
    """True for every fifth image of each class, in the order in which they came."""
    held = np.zeros(len(y), dtype=bool)
    for label, class_name in enumerate(class_names):
        members = np.flatnonzero(y == label)
        if len(members) < HELD_OUT:
            raise DataError(
                f"{name}: class {class_name!r} has {len(members)} images, too few to hold out one in {HELD_OUT} "
                f"for test; add images, or test images of your own"
            )
        held[members[HELD_OUT - 1 :: HELD_OUT]] = True
    return held
