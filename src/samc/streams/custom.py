"""Your own files: arrays in an npz file (`npz:PATH`) or images in folders (`folder:PATH`)."""

from pathlib import Path

import numpy as np
from PIL import Image

from samc.errors import DataError
from samc.streams.base import Dataset, check
from samc.streams.images import read_arrays, read_folders, resized, short_sha1

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
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise DataError(f"{path} has only one of x_test and y_test; give both, or neither to hold out some of x")
    classes = np.unique(arrays["y"])
    if not len(classes):
        raise DataError(f"{path} has no class; it needs at least one image and its label")
    if len(classes) > MOST_CLASSES:
        raise DataError(f"{path} has {len(classes):,} different labels, at most {MOST_CLASSES:,} are classes; check y")
    train = x, y = images_and_labels(path, arrays, "", classes, image_size)
    has_test = "x_test" in arrays
    test = images_and_labels(path, arrays, "_test", classes, image_size) if has_test else (x[:0], y[:0])
    return checked_dataset(f"npz:{path.name}", train, test, tuple(str(name) for name in classes))


def load_folder(path: Path, image_size: int | None = None) -> Dataset:
    """Images in train/<class>/ and test/<class>/ (or val/<class>/); any depth below the class, read as RGB."""
    test = next((path / part for part in ("test", "val") if (path / part).is_dir()), None)
    x, y, test_x, test_y, class_names = read_folders(path / "train", test, image_size)
    return checked_dataset(f"folder:{path.name}", (x, y), (test_x, test_y), class_names)


def images_and_labels(
    path: Path, arrays: dict[str, np.ndarray], end: str, classes: np.ndarray, image_size: int | None
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
