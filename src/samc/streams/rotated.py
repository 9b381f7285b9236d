"""Rotated streams: every task has all classes of a data set, its own share of the images, and an angle of its own."""

from dataclasses import replace

import cv2
import numpy as np
from jaxtyping import UInt8

from samc.errors import DataError
from samc.streams.base import Dataset, check

HALF_TURN = 180


def rotated(dataset: Dataset, tasks: int) -> Dataset:
    """The images shared out over so many domains, of which number k is turned by k/tasks of a half turn.

    Each class is shared out evenly, image by image in the order in which they come, test images likewise. What a
    turned image does not cover is black.
    """
    check(dataset)
    domain, test_domain = (shares(dataset, y, tasks, part) for y, part in dataset_parts(dataset))
    return replace(
        dataset,
        x=turned(dataset.x, domain, tasks),
        test_x=turned(dataset.test_x, test_domain, tasks),
        source=f"{dataset.source}, shared out over {tasks} tasks and turned by k/{tasks} of 180 degrees in task k",
        domain=domain,
        test_domain=test_domain,
    )


def dataset_parts(dataset: Dataset) -> tuple[tuple[np.ndarray, str], ...]:
    return (dataset.y, "training"), (dataset.test_y, "test")


def shares(dataset: Dataset, y: np.ndarray, tasks: int, part: str) -> np.ndarray:
    """The domain of each image: its place among those of its class, round and round."""
    domain = np.zeros(len(y), np.int64)
    for label, name in enumerate(dataset.class_names):
        rows = np.flatnonzero(y == label)
        if len(rows) < tasks:
            found = f"class {name!r} has {len(rows)} {part} images, too few for {tasks} tasks"
            raise DataError(f"{dataset.name}: {found}; take fewer with --n-tasks, or add images")
        domain[rows] = np.arange(len(rows)) % tasks
    return domain


def turned(x: UInt8[np.ndarray, "n h w c"], domain: np.ndarray, tasks: int) -> UInt8[np.ndarray, "n h w c"]:
    """Each image turned about its middle, counter-clockwise, by its domain's angle."""
    found, (height, width) = np.empty_like(x), x.shape[1:3]
    middle = ((width - 1) / 2, (height - 1) / 2)
    for number in range(tasks):
        turn = cv2.getRotationMatrix2D(middle, HALF_TURN * number / tasks, 1.0)
        for row in np.flatnonzero(domain == number):
            found[row] = cv2.warpAffine(x[row], turn, (width, height)).reshape(x.shape[1:])
    return found
