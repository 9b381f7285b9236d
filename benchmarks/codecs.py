"""What images take in memory: bytes per image and images in the room of ten, by threshold and codec, on real CIFAR-100.

SAMC learns the first tasks; then every image of the last one is offered to an empty memory, once for each codec and
threshold. Needs the data set: samc data fetch cifar100.
"""

import copy
import sys
from pathlib import Path

import numpy as np
import torch

from samc.device import choose
from samc.engine import Batch
from samc.learners.inputs import as_labels
from samc.learners.samc import SAMC
from samc.machine import describe_device, versions
from samc.memory import Codec, EpisodicMemory, Selection, budget_of, parse_codec, select
from samc.saliency import as_bytes, saliency_map
from samc.streams import open_stream

THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PAPER = (10, 11.4, 12.9, 15.8, 18.6, 22.2, 30.2, 43.5, 71.2, 112.5)
MASKED = (
    "coo",
    "bitmask",
    "bitmask+deflate",
    "cam",
    "cam+deflate",
    "gist:thumb:4+cam",
    "gist:jpeg:10+cam+deflate",
    "focus:jpeg:40",
)
WHOLE = ("raw", "jpeg:5", "jpeg:20", "jpeg:75", "webp:5", "webp:20", "webp:75")
TASKS, SHAPE = 3, (3, 32, 32)


def images_held(
    codec: Codec, accounting: str, images: np.ndarray, selection: Selection, labels: np.ndarray
) -> tuple[int, float]:
    """How many images the memory ends with, and how many bytes each of them takes."""
    memory = EpisodicMemory(codec, 100, budget_of(SHAPE, 100, 10, accounting), accounting)
    memory.add(0, images, selection, labels)
    count = memory.images_per_task[0]
    return count, memory.nbytes / count


def values_only(costs: np.ndarray, batches: bool) -> float:
    """How many images are held, counting colours alone, on the mean over the task's second half.

    A full memory drops its oldest images, one at a time or in batches of ten.
    """
    held: list[int] = []
    counts = []
    for first in range(0, len(costs), 10):
        held += costs[first : first + 10].tolist()
        while sum(held) > 10 * 3072:
            del held[: 10 if batches else 1]
        if first >= len(costs) // 2:
            counts.append(len(held))
    return float(np.mean(counts))


def released_maps(learner: SAMC, batches: list[Batch]) -> np.ndarray:
    """Maps as the authors' code makes them: of the predicted class, with batch norm on the batch's own statistics."""
    model, maps = copy.deepcopy(learner.model), []
    for batch in batches:
        for x, y in zip(batch.x.split(10), batch.y.split(10), strict=True):
            maps.append(as_bytes(saliency_map(model, x, y, batch.task, "predicted", "train")).cpu().numpy())
    return np.concatenate(maps)


def main(data_dir: Path | None) -> None:
    stream = open_stream("split-cifar100", data_dir=data_dir, n_tasks=TASKS, seed=0)
    settings = {"replay": "gem", "codec": "coo", "threshold": 0.7, "completion": "telea"}
    learner = SAMC(100, SHAPE, task_classes=stream.task_classes, device=choose("auto"), **settings)
    for task in stream:
        for x, y in task.batches(10):
            learner.observe(x, y, task.id)
    last = stream.tasks[-1]
    parts = list(last.batches(500))
    batches = [learner.as_batch(x, y, last.id) for x, y in parts]
    maps = np.concatenate(
        [as_bytes(saliency_map(learner.model, batch.x, batch.y, batch.task)).cpu().numpy() for batch in batches]
    )
    images = np.concatenate([learner.as_bytes(x) for x, _ in parts])
    labels = np.concatenate([as_labels(y) for _, y in parts])
    empty = float((maps.reshape(len(maps), -1).max(1) == 0).mean())
    print(f"{len(images)} images of task {TASKS}, {empty:.1%} with a map of zeros\n")
    print("| codec | " + " | ".join(f"{t:.1f}" for t in THRESHOLDS) + " |\n|---" * 1 + "|---" * len(THRESHOLDS) + "|")
    print("| the paper, images | " + " | ".join(map(str, PAPER)) + " |")
    ours = {t: select(maps, t, 32, 32, 1024)[0] for t in THRESHOLDS}
    with_gist = {t: select(maps, t, 32, 32, 1024, gist=True)[0] for t in THRESHOLDS}
    released = released_maps(learner, batches)
    theirs = {t: select(released, t, 32, 32, 1024)[0] for t in THRESHOLDS}
    for name, selections in (("label, eval mode", ours), ("predicted class, train mode", theirs)):
        for in_batches in (False, True):
            counts = [values_only(3 * selections[t].masks.sum((1, 2)), in_batches) for t in THRESHOLDS]
            how = "batches make room" if in_batches else "images make room"
            print(f"| values only, {name}, {how} | " + " | ".join(f"{count:.1f}" for count in counts) + " |")
    for spec, accounting in [("coo", "values"), *((spec, "bytes") for spec in MASKED)]:
        codec = parse_codec(spec, SHAPE, maps.shape[1:])
        selections = with_gist if codec.gist else ours
        results = [images_held(codec, accounting, images, selections[t], labels) for t in THRESHOLDS]
        name = "values only, images" if accounting == "values" else f"{spec}, images (bytes each)"
        cells = (str(count) if accounting == "values" else f"{count} ({size:.0f})" for count, size in results)
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("\n| whole images | images | bytes each |\n|---|---|---|")
    for spec in WHOLE:
        count, size = images_held(parse_codec(spec, SHAPE), "bytes", images, ours[0.7], labels)
        print(f"| {spec} | {count} | {size:.0f} |")
    print(f"\n{describe_device(learner.device)}, {versions()}, threads {torch.get_num_threads()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
