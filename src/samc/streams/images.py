"""Arrays and image files on disk, read into uint8 arrays: what mini-ImageNet and your own data have in common."""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from samc.config import LARGEST_IMAGE, RunConfig, check_setting
from samc.errors import DataError
from samc.files import open_regular
from samc.streams.npz import read_npz

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".ppm")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "PPM")
# whatever a file is called, Pillow tries these and no other: some of the others start programs
MOST_PIXELS = 2**26
# of a picture that is made smaller, those of the largest cameras; one that says it has more is not decoded
warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
# Pillow's own limit is somewhat above it, and a warning would be a second line
Opened = Callable[[Any], BinaryIO]


def silent(done: int, total: int) -> None:
    """A progress that nobody watches."""


PROGRESS: ContextVar[Callable[[int, int], None]] = ContextVar("images that have been read", default=silent)
# who is told how many of how many images have been read: it takes minutes where there are a hundred thousand


def read_arrays(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The named arrays of an npz file; never unpickles."""
    remedy = f"save it with numpy.savez(path, {', '.join(f'{name}=...' for name in needed)})"
    with open_regular(path, remedy) as file:
        return read_npz(file, str(path), needed, optional)


def read_classes(folder: Path) -> dict[str, list[Path]]:
    """The image files of each class below folder/<class>/, classes and files in sorted order."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not there; put images in {folder / '<class>'}/")
    classes = {}
    for child in sorted(folder.iterdir()):
        if not child.is_dir() or child.name.startswith("."):
            continue
        files = sorted(
            path for path in child.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
        )
        if not files:
            raise DataError(f"{child} has no image ({', '.join(SUFFIXES)}); add some or delete the folder")
        classes[child.name] = files
    if not classes:
        raise DataError(f"{folder} has no class; put images in {folder / '<class>'}/")
    return classes


def plain_file(path: Path | str) -> BinaryIO:
    """A file of this machine, opened."""
    return open_regular(Path(path), "replace it or delete it")


def read_images(
    files: Sequence[Path | str], image_size: int | None, opened: Opened = plain_file
) -> UInt8[np.ndarray, "n h w 3"]:
    """All files as RGB, resized to image_size x image_size; without it they must have one size already.

    `opened` gives the content behind a file's name.
    """
    pool, said = ThreadPoolExecutor(), PROGRESS.get()  # decoding runs outside the interpreter lock
    try:
        images = pool.map(lambda file: read_image(file, image_size, opened), files)
        first = next(images)
        x = np.empty((len(files), *first.shape), dtype=np.uint8)
        x[0] = first
        for row, image in enumerate(images, start=1):
            if image.shape != first.shape:
                pair = ((files[0], first), (files[row], image))
                sizes = " and ".join(f"{file} is {pixels.shape[1]}x{pixels.shape[0]}" for file, pixels in pair)
                raise DataError(f"images differ in size: {sizes}; resize all with --image-size N")
            x[row] = image
            said(row + 1, len(files))
        return x
    finally:
        pool.shutdown(cancel_futures=True)  # a mistake in the second file is told before the last one is read


def read_image(path: Path | str, image_size: int | None, opened: Opened = plain_file) -> UInt8[np.ndarray, "h w 3"]:
    """One image file as RGB."""
    try:
        with opened(path) as file, Image.open(file, formats=FORMATS) as image:
            check_size(path, image.size, image_size)
            if image.mode.startswith(("I", "F")):
                raise DataError(
                    f"{path} has more than 8 bits per pixel, which would be cut off at 255; save it as 8-bit"
                )
            rgb = image.convert("RGB")
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:  # it comes before our own check
        raise DataError(f"{path} is too large to read ({error}); make it smaller") from None
    except Exception as error:  # each of Pillow's decoders fails in its own way
        raise DataError(f"cannot read {path} as an image ({type(error).__name__}); replace it or delete it") from None
    return np.asarray(rgb if image_size is None else resized(rgb, image_size))


def read_fitted(path: Path, image_shape: tuple[int, int, int]) -> UInt8[np.ndarray, "c h w"]:
    """An image file with the channels and the size that a learner knows; squares are resized, as all images are."""
    channels, height, width = image_shape
    if channels not in (1, 3):
        raise DataError(f"image files have one channel or three, this learner's images {channels}; use Python")
    image = Image.fromarray(read_image(path, height if height == width else None))
    if image.size != (width, height):
        raise DataError(
            f"{path} is {image.width}x{image.height}, this learner's images are {width}x{height}; resize it"
        )
    pixels = np.array(image.convert("L") if channels == 1 else image)  # a copy: Pillow's own cannot be written to
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def check_size(path: Path | str, size: tuple[int, int], image_size: int | None) -> None:
    """Refuse a picture by what it says of its size, before it is decoded."""
    width, height = size
    if width * height > MOST_PIXELS:
        raise DataError(f"{path} says it has {width:,}x{height:,} pixels, too many to read; make it smaller")
    if image_size is None and max(size) > LARGEST_IMAGE:
        raise DataError(
            f"{path} has {width:,}x{height:,} pixels, and images that are learnt from at most {LARGEST_IMAGE:,} per "
            "side; resize all with --image-size N"
        )


def resized(image: Image.Image, image_size: int) -> Image.Image:
    """The image at image_size x image_size, bilinear; untouched where it has that size."""
    check_setting(RunConfig, "image_size", image_size)
    return image.resize((image_size, image_size), Image.Resampling.BILINEAR)


def read_folders(
    train: Path, test: Path | None, image_size: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """x, y, test_x, test_y and class names of train/<class>/ and test/<class>/; without test, no test images."""
    classes = read_classes(train)
    tests = {} if test is None else read_classes(test)
    strange = sorted(set(tests) - set(classes))
    if strange:
        raise DataError(f"class {strange[0]!r} is in {test} but not in {train}; add training images or delete it")
    names = tuple(classes)
    files = [
        (file, label) for part in (classes, tests) for label, name in enumerate(names) for file in part.get(name, ())
    ]
    x = read_images([file for file, _ in files], image_size)
    y = np.array([label for _, label in files], dtype=np.int64)
    count = sum(map(len, classes.values()))
    return x[:count], y[:count], x[count:], y[count:], names


def short_sha1(*arrays: np.ndarray) -> str:
    """Ten digits that tell two sets of arrays apart."""
    digest = hashlib.sha1(usedforsecurity=False)
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:10]
