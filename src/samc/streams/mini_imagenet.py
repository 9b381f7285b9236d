"""mini-ImageNet: 100 classes at 84x84 from npz files or image folders; a digest tells its many versions apart."""

from pathlib import Path

import numpy as np

from samc.errors import DataError
from samc.streams.base import Dataset, check
from samc.streams.images import read_arrays, read_folders, short_sha1

FOLDER = "mini-imagenet"
IMAGE_SIZE = 84

WANTED = f"train.npz and test.npz, or train/<wnid>/*.jpg and test/<wnid>/*.jpg, in {FOLDER}/"


def find_folder(data_dir: Path) -> Path | None:
    """The folder from which mini-ImageNet would be read, or None where there is none."""
    folder = data_dir / FOLDER
    return folder if any((folder / part).exists() for part in ("train.npz", "train")) else None


def load_mini_imagenet(data_dir: Path) -> Dataset:
    """mini-ImageNet from data_dir/mini-imagenet/, as npz files (which go first) or as image folders."""
    folder = find_folder(data_dir)
    if folder is None:
        raise DataError(f"mini-imagenet is not in {data_dir}: put {WANTED} there, or say where it is with --data-dir")
    if (folder / "train.npz").exists():
        x, y, class_names = read_part(folder / "train.npz")
        test_x, test_y, test_names = read_part(folder / "test.npz")
        if class_names != test_names:
            raise DataError(f"{folder}: train.npz and test.npz name different classes; take both from one source")
        layout = "npz files"
    else:
        tests = [folder / part for part in ("test", "val") if (folder / part).is_dir()]
        if not tests:
            raise DataError(f"{folder} has train/ but neither test/ nor val/; put {WANTED} in {data_dir}")
        x, y, test_x, test_y, class_names = read_folders(folder / "train", tests[0], IMAGE_SIZE)
        layout = f"image files from train/ and {tests[0].name}/, bilinear to 84x84 where they had another size"
    source = f"mini-ImageNet, {layout}, sha1 of the test images {short_sha1(test_x, test_y)}"
    dataset = Dataset(FOLDER, x, y, test_x, test_y, class_names, source)
    check(dataset)
    return dataset


def read_part(path: Path) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Images, labels and class names of one npz file; classes without a name are numbered."""
    arrays = read_arrays(path, needed=("x", "y"), optional=("classes",))
    x, y = arrays["x"], arrays["y"]
    if x.shape[1:] != (IMAGE_SIZE, IMAGE_SIZE, 3):
        raise DataError(f"{path}: x is (n, 84, 84, 3), got {x.shape}; resize the images before saving them")
    if not np.issubdtype(y.dtype, np.integer) or y.size == 0:
        raise DataError(f"{path}: y holds one whole number per image, got {y.dtype} {y.shape}; save it anew")
    names = arrays["classes"].ravel() if "classes" in arrays else range(len(np.unique(y)))
    return x, y.astype(np.int64), tuple(str(name) for name in names)
