"""Tiny ImageNet: 200 classes at 64x64, from the official archive or its folder; its validation images are the test.

The labels of its own test images were never published.
"""

import re
from pathlib import Path

import numpy as np

from samc.errors import DataError
from samc.streams.base import Dataset, check
from samc.streams.images import read_images
from samc.streams.trees import Tree, open_tree

NAME = "tiny-imagenet"
FOLDERS = ("tiny-imagenet/tiny-imagenet-200", "tiny-imagenet-200")
ARCHIVE = "tiny-imagenet/tiny-imagenet-200.zip"
CLASSES, PER_CLASS, TEST_PER_CLASS = 200, 500, 50
IMAGE_SIZE = 64
ANNOTATIONS = "val/val_annotations.txt"
MOST_TEXT = 2**24


def load_tiny_imagenet(data_dir: Path) -> Dataset:
    """100,000 training and 10,000 validation images, classes in the order of wnids.txt."""
    with open_tree(data_dir, FOLDERS, ARCHIVE, NAME) as tree:
        wnids = read_wnids(tree)
        train, test = training_files(tree, wnids), validation_files(tree, wnids)
        for files, count, part in ((train, PER_CLASS, "training"), (test, TEST_PER_CLASS, "validation")):
            counts = np.bincount([label for label, _ in files], minlength=CLASSES)
            if (counts != count).any():
                wrong = int(np.argmax(counts != count))
                has = f"{counts[wrong]} {part} images of {wnids[wrong]} instead of {count}"
                raise DataError(f"{tree.where} has {has}; run `samc data fetch {NAME}` to get it again")
        x, test_x = (read_images([name for _, name in files], IMAGE_SIZE, tree.open) for files in (train, test))
    y, test_y = (np.array([label for label, _ in files], np.int64) for files in (train, test))
    source = "Tiny ImageNet, official files, tested on its validation images"
    dataset = Dataset(NAME, x, y, test_x, test_y, wnids, source)
    check(dataset)
    return dataset


def read_wnids(tree: Tree) -> tuple[str, ...]:
    """The classes by their WordNet id, in the order in which they are numbered."""
    wnids = tuple(read_text(tree, "wnids.txt").split())
    if len(set(wnids)) != CLASSES or not all(re.fullmatch("n[0-9]{8}", wnid) for wnid in wnids):
        found = f"wnids.txt names {len(set(wnids))} classes, and there are {CLASSES}"
        raise DataError(f"{tree.where}: {found}; fetch it again")
    return wnids


def training_files(tree: Tree, wnids: tuple[str, ...]) -> list[tuple[int, str]]:
    """Label and name of each."""
    number = {wnid: label for label, wnid in enumerate(wnids)}
    found = (re.fullmatch(r"train/(n[0-9]{8})/images/[^/]+\.JPEG", name) for name in tree.names)
    return sorted((number[match[1]], match[0]) for match in found if match and match[1] in number)


def validation_files(tree: Tree, wnids: tuple[str, ...]) -> list[tuple[int, str]]:
    """The same, as val_annotations.txt says it."""
    number, files = {wnid: label for label, wnid in enumerate(wnids)}, []
    for line in read_text(tree, ANNOTATIONS).splitlines():
        file, wnid = (*line.split("\t"), "", "")[:2]
        if f"val/images/{file}" not in tree.names or wnid not in number:
            found = f"{ANNOTATIONS} names {file!r} of {wnid!r}, which is not there"
            raise DataError(f"{tree.where}: {found}; fetch it again")
        files.append((number[wnid], f"val/images/{file}"))
    return files


def read_text(tree: Tree, name: str) -> str:
    if name not in tree.names:
        raise DataError(f"{tree.where} has no {name}; run `samc data fetch {NAME}` to get it again")
    with tree.open(name) as file:
        return file.read(MOST_TEXT).decode("utf-8", "replace")
