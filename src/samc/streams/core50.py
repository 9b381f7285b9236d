"""CORe50 (Lomonaco and Maltoni 2017): fifty objects of ten categories, filmed in eleven sessions.

NI, new instances: the same ten categories in every task, each task another session. NC, new classes: fifty objects, ten
in the first task and five in each of eight more. Sessions 3, 7 and 10 are the test images of both.
"""

import re
from pathlib import Path

import numpy as np
import torch

from samc.errors import ConfigError, DataError
from samc.streams.base import Dataset, check
from samc.streams.images import read_images
from samc.streams.task import generator
from samc.streams.trees import Tree, open_tree

NAME = "core50"
FOLDERS = ("core50/core50_128x128", "core50_128x128")
ARCHIVE = "core50/core50_128x128.zip"
SESSIONS, OBJECTS, PER_CATEGORY = 11, 50, 5
TEST_SESSIONS = (3, 7, 10)
CATEGORIES = ("plug adapter", "mobile phone", "scissor", "light bulb", "can", "glass", "ball", "marker", "cup",
              "remote control")  # fmt: skip
IMAGE_SIZE = 32
# pixels per side, where nobody says; the files have 128, and all of them would take six gigabytes
ORDERS = ("natural", "shuffled")


def load_core50(
    data_dir: Path, how: str = "ni", image_size: int | None = None, order: str = "natural", seed: int = 0
) -> Dataset:
    """One of the two ways (`ni`, `nc`), its tasks in the order of its authors' code, or shuffled by the seed.

    The test images are dealt out evenly over the tasks that have their classes, so that ACC is the accuracy on them.
    """
    if order not in ORDERS:
        raise ConfigError(
            "core50's classes have their tasks; class-order is natural, or shuffled for another order of these"
        )
    size = IMAGE_SIZE if image_size is None else image_size
    with open_tree(data_dir, FOLDERS, ARCHIVE, NAME) as tree:
        rows = np.array(sorted(frames(tree)), dtype=object)
        check_complete(tree, rows)
        images = read_images([name for *_, name in rows], size, tree.open)
    session, thing = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64) - 1
    test = np.isin(session, TEST_SESSIONS)
    tasks = task_of(how, session, thing, order, seed)
    y = thing // PER_CATEGORY if how == "ni" else thing
    test_domain = dealt_out(y[test], int(tasks[~test].max()) + 1) if how == "ni" else tasks[test]
    dataset = Dataset(
        NAME, images[~test], y[~test], images[test], y[test], class_names(how),
        f"CORe50 {how.upper()}, official files at {size}x{size}, tested on sessions 3, 7 and 10, {order} order"
        + (f" of seed {seed}" if order == "shuffled" else ""),
        tasks[~test], test_domain,
    )  # fmt: skip
    check(dataset)
    return dataset


def frames(tree: Tree) -> list[tuple[int, int, str]]:
    """Session, object and name of every frame: s1/o1/C_01_01_000.png."""
    pattern = re.compile(r"s([0-9]{1,2})/o([0-9]{1,2})/C_[0-9]{2}_[0-9]{2}_[0-9]{3}\.png")
    return [(int(found[1]), int(found[2]), name) for name in tree.names if (found := pattern.fullmatch(name))]


def check_complete(tree: Tree, rows: np.ndarray) -> None:
    """Refuse files of which a session or an object is missing; how many frames each has differs."""
    wanted = {(session, thing) for session in range(1, SESSIONS + 1) for thing in range(1, OBJECTS + 1)}
    missing = sorted(wanted - {(session, thing) for session, thing, _ in rows})
    if missing:
        session, thing = missing[0]
        raise DataError(
            f"{tree.where} has no frame of s{session}/o{thing}/; run `samc data fetch {NAME}` to get it again"
        )


def task_of(how: str, session: np.ndarray, thing: np.ndarray, order: str, seed: int) -> np.ndarray:
    """The task of each image, by its session (0 where it is tested on) or by its object."""
    if how == "ni":
        trained = [number for number in range(1, SESSIONS + 1) if number not in TEST_SESSIONS]
        places = shuffled(len(trained), order, seed, fixed=0)
        return np.array([dict(zip(trained, places, strict=True)).get(number, 0) for number in range(SESSIONS + 1)])[
            session
        ]
    # the first object of each category; then the second of five categories, of the other five, and so on
    batches = [[category * PER_CATEGORY for category in range(10)]]
    batches += [
        [category * PER_CATEGORY + place for category in half]
        for place in range(1, PER_CATEGORY)
        for half in (range(5), range(5, 10))
    ]
    places = shuffled(len(batches), order, seed, fixed=1)
    table = {number: place for batch, place in zip(batches, places, strict=True) for number in batch}
    return np.array([table[number] for number in range(OBJECTS)])[thing]


def shuffled(count: int, order: str, seed: int, fixed: int) -> list[int]:
    """The place of each task; the first `fixed` stay where they are."""
    if order == "natural":
        return list(range(count))
    return [*range(fixed), *(fixed + torch.randperm(count - fixed, generator=generator(seed))).tolist()]


def dealt_out(y: np.ndarray, tasks: int) -> np.ndarray:
    """A task for each test image, round and round within its class."""
    found = np.zeros(len(y), np.int64)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        found[rows] = np.arange(len(rows)) % tasks
    return found


def class_names(how: str) -> tuple[str, ...]:
    if how == "ni":
        return CATEGORIES
    return tuple(f"{category} {place}" for category in CATEGORIES for place in range(1, PER_CATEGORY + 1))
