"""MNIST from its four official files, gzipped or not, and the stream of permuted pixels that is made of it."""

import gzip
import hashlib
import io
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from samc.errors import DataError
from samc.files import read_regular
from samc.streams.base import Dataset
from samc.streams.task import generator

FOLDERS = ("mnist", "MNIST/raw")
# ours, and torchvision's
SIDE, CLASSES = 28, 10
TRAIN, TEST = "train", "t10k"
COUNTS = {TRAIN: 60_000, TEST: 10_000}
PARTS = {"images-idx3-ubyte": (0x0803, SIDE * SIDE), "labels-idx1-ubyte": (0x0801, 1)}
# what stands at the beginning of a file, and bytes per image
DIGESTS = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
# md5 as in torchvision; for unpacked files none is published, and their structure alone is checked
MOST_BYTES = 2**26
# of one file; the largest, unpacked, has 47,040,016
PERMUTATIONS = 10
# tasks of the permuted stream, where nobody says how many


def find_folder(data_dir: Path) -> Path | None:
    """The folder from which MNIST would be read, or None where there is none."""
    first = next(iter(DIGESTS))
    folders = (data_dir / folder for folder in FOLDERS)
    return next((folder for folder in folders if any((folder / name).exists() for name in (first, first[:-3]))), None)


def load_mnist(data_dir: Path) -> Dataset:
    """All 70,000 images, grey."""
    folder = find_folder(data_dir)
    if folder is None:
        raise DataError(
            f"mnist is not in {data_dir}: expected mnist/{next(iter(DIGESTS))} and three files more there; "
            "run `samc data fetch mnist`, or point --data-dir at the folder that holds it"
        )
    (x, y, checked), (test_x, test_y, test_checked) = (read_part(folder, part) for part in (TRAIN, TEST))
    verified = "checksums verified" if checked and test_checked else "unpacked, structure checked"
    names = tuple(str(digit) for digit in range(CLASSES))
    return Dataset("mnist", x, y, test_x, test_y, names, f"MNIST, official files, {verified}")


def read_part(folder: Path, part: str) -> tuple[UInt8[np.ndarray, "n 28 28 1"], np.ndarray, bool]:
    """Images and labels of the training or the test files, and whether both have their published digest."""
    (pixels, one), (labels, other) = (read_file(folder, part, name) for name in PARTS)
    if labels.max() >= CLASSES:
        raise DataError(f"{folder}: {part} has the label {labels.max()}, and MNIST has ten digits; fetch it again")
    return pixels.reshape(-1, SIDE, SIDE, 1), labels.astype(np.int64), one and other


def read_file(folder: Path, part: str, name: str) -> tuple[UInt8[np.ndarray, "bytes"], bool]:
    """The bytes behind a file's header, once header and size are right; and whether its digest is known to be."""
    remedy = "run `samc data fetch mnist` to get it again"
    path = folder / f"{part}-{name}.gz"
    checked = path.exists()
    if checked:
        packed = read_regular(path, MOST_BYTES, remedy)
        found = hashlib.md5(packed, usedforsecurity=False).hexdigest()
        if found != DIGESTS[path.name]:
            raise DataError(f"{path} is damaged: md5 {found} instead of {DIGESTS[path.name]}; {remedy}")
        content = unzipped(packed, path, remedy)
    else:
        path = path.with_suffix("")
        content = read_regular(path, MOST_BYTES, remedy)
    magic, row_bytes = PARTS[name]
    dimensions = (COUNTS[part], SIDE, SIDE)[: magic & 0xFF]
    header = struct.pack(f">I{len(dimensions)}I", magic, *dimensions)
    if content[: len(header)] != header or len(content) != len(header) + COUNTS[part] * row_bytes:
        raise DataError(f"{path} is no {name} of {COUNTS[part]:,} images; {remedy}")
    return np.frombuffer(content, np.uint8, offset=len(header)), checked


def unzipped(packed: bytes, path: Path, remedy: str) -> bytes:
    try:
        return gzip.GzipFile(fileobj=io.BytesIO(packed)).read(MOST_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error}); {remedy}") from None


def permuted(dataset: Dataset, tasks: int, seed: int) -> Dataset:
    """All images once for every task, with pixels in an order of its own that the seed draws."""
    count, pixels = len(dataset.y), int(np.prod(dataset.x.shape[1:3]))
    orders = [torch.randperm(pixels, generator=generator(seed, task)).numpy() for task in range(tasks)]

    def in_order(x: np.ndarray) -> np.ndarray:
        flat = x.reshape(len(x), pixels, -1)
        return np.concatenate([flat[:, order] for order in orders]).reshape(-1, *x.shape[1:])

    return replace(
        dataset,
        x=in_order(dataset.x),
        y=np.tile(dataset.y, tasks),
        test_x=in_order(dataset.test_x),
        test_y=np.tile(dataset.test_y, tasks),
        source=f"{dataset.source}, pixels of each of {tasks} tasks in a random order of its own, seed {seed}",
        domain=np.repeat(np.arange(tasks), count),
        test_domain=np.repeat(np.arange(tasks), len(dataset.test_y)),
    )
