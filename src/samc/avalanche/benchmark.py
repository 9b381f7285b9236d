"""An Avalanche benchmark as a stream: one task per experience, read into memory as bytes."""

from itertools import accumulate
from typing import Any

from torch.utils.data import Subset

from samc.avalanche.experiences import Pairs, task_labels
from samc.errors import DataError
from samc.streams.base import Stream
from samc.streams.own_data import stream_of
from samc.streams.pixels import Normalisation, described
from samc.streams.samples import read_dataset
from samc.streams.task import ArrayTask


def from_avalanche(
    benchmark: Any, *, name: str = "avalanche", mean: Any = None, std: Any = None, seed: int = 0
) -> Stream:
    """The stream of a benchmark's experiences, with its own test images.

    Images are taken as the benchmark's eval transforms give them; `mean` and `std` are what these normalise with.
    Where tasks have labels of their own that start anew (0, 1, ... in each), classes are numbered through.
    A benchmark with one test set for all experiences tests each task on the images of its own classes.
    """
    if not hasattr(benchmark, "train_stream") or not hasattr(benchmark, "test_stream"):
        raise DataError(f"{described(benchmark)} is no Avalanche benchmark with a train_stream and a test_stream")
    trains, tests = list(benchmark.train_stream), list(benchmark.test_stream)
    if not trains or len(tests) not in (1, len(trains)):
        counts = f"{len(trains)} experiences to learn and {len(tests)} to test"
        raise DataError(f"the benchmark has {counts}; a stream needs one test for all, or one for each")
    normalisation, offsets = Normalisation.of(mean, std), class_offsets(trains)
    tasks = []
    for number, train in enumerate(trains):
        x, y = read_dataset(Pairs(train.dataset), f"experience {number}'s training images", normalisation)
        test = tests[number] if len(tests) > 1 else tests[0]
        known = set(y.tolist())
        rows = [row for row, label in enumerate(test.dataset.targets) if int(label) in known or len(tests) > 1]
        some = Subset(Pairs(test.dataset), rows)
        test_x, test_y = read_dataset(some, f"experience {number}'s test images", normalisation)
        offset = offsets[number]
        tasks.append(ArrayTask.of(number, (x, y + offset), (test_x, test_y + offset), None, seed))
    return stream_of(tasks, name=name)


def class_offsets(experiences: list[Any]) -> list[int]:
    """What is added to each experience's labels, so that classes of different task labels are different classes."""
    labels = [task_labels(experience.dataset).unique().tolist() for experience in experiences]
    classes = [{int(label) for label in experience.dataset.targets} for experience in experiences]
    widths: dict[int, int] = {}  # by task label, in the order in which they come
    owners: dict[int, set[int]] = {}  # by class: the task labels under which it comes
    for found, own in zip(labels, classes, strict=True):
        for task in found:
            widths[task] = max(widths.get(task, 0), 1 + max(own))
        for label in own:
            owners.setdefault(label, set()).update(found)
    if all(len(tasks) == 1 for tasks in owners.values()):
        return [0] * len(experiences)
    if any(len(found) > 1 for found in labels):
        raise DataError("an experience has several task labels, each with classes of its own; split it by task")
    starts = dict(zip(widths, accumulate(widths.values(), initial=0), strict=False))
    return [starts[task] for (task,) in labels]
