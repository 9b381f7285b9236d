"""The one training loop: every task once, in order, with a test on all tasks before the first and after each."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from samc import metrics
from samc.clock import Clock
from samc.config import RunConfig
from samc.health import ChanceWatch, LossMonitor
from samc.learners.base import Learner, StepStats
from samc.record import RunRecord, describe_device, versions
from samc.streams.base import Stream, Task
from samc.streams.own_data import check_normalisation, stream_of
from samc.streams.pixels import Normalisation
from samc.streams.task import ArrayTask

DEFAULT_BACKBONE = "reduced-resnet18"
# the paper's network, which a fingerprint leaves unsaid


class Watcher:
    """Somebody who looks on: a progress bar, a collector of pictures. Does nothing unless a method is overridden."""

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None: ...
    def before_step(self, task: Task, number: int, x: Tensor, y: Tensor) -> None: ...
    def step(self, task: Task, number: int, x: Tensor, stats: StepStats) -> None: ...
    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None: ...


def run(
    stream: Stream | Iterable[Any],
    learner: Learner,
    *,
    batch_size: int = RunConfig.batch_size,
    n_epochs: int = RunConfig.n_epochs,
    watchers: Sequence[Watcher] = (),
    config: dict[str, Any] | None = None,
) -> RunRecord:
    """Learn the stream and return the record.

    `stream` is a Stream, or a list with one item per task: Tasks, torch Datasets, DataLoaders, pairs (train, test) of
    those, or tuples of arrays, as in `samc.streams.stream_of`. The batches of a DataLoader keep their own order and
    size, whatever `batch_size` is. Where the learner has a `mean` and a `std`, float images are taken for images that
    were normalised with them; uint8 images are not.
    `config` is written into the record, with what the run itself shows.
    """
    normalised: dict[str, Any] = {name: getattr(learner, name, None) for name in ("mean", "std")}
    stream = stream_of(stream, seed=getattr(learner, "seed", None) or 0, **normalised)
    check_normalisation(stream, Normalisation.of(**normalised))
    device = getattr(learner, "device", torch.device("cpu"))
    clock = Clock(device)
    started = time.perf_counter()
    steps = [task.steps(batch_size, n_epochs) for task in stream]
    for watcher in watchers:
        watcher.begin(stream, learner, steps)
    for task in stream:
        learner.declare(task.id, task.classes)  # the untrained row needs to know what there is to choose from
    if hasattr(learner, "expect"):  # a learner of one's own need not have it
        learner.expect(task.x.numpy() for task in stream if isinstance(task, ArrayTask))
    untrained, test_images = evaluate(stream, learner, 0, clock, watchers)
    matrix = [untrained]
    training_images, batch_sizes = [], []
    monitor, chance = LossMonitor(learner), ChanceWatch(learner)
    for tasks_learnt, task in enumerate(stream, start=1):
        learner.begin_task(task)
        images, largest = 0, 0
        for number, (x, y) in enumerate(task.batches(batch_size, n_epochs)):
            for watcher in watchers:
                watcher.before_step(task, number, x, y)
            stats = learner.observe(x, y, task.id)
            monitor.step(task.id, stats.loss)
            for watcher in watchers:
                watcher.step(task, number, x, stats)
            images, largest = images + len(y), max(largest, len(y))
        monitor.end_task(task.id)
        learner.end_task(task)
        task.release()
        training_images.append(images // max(n_epochs, 1))
        batch_sizes.append(largest if task.own_batch_size else batch_size)
        accuracies, _ = evaluate(stream, learner, tasks_learnt, clock, watchers)
        matrix.append(accuracies)
        chance.tested(task, accuracies[tasks_learnt - 1], test_images[tasks_learnt - 1])
    memory = learner.memory_report()
    config = config or {
        "model": type(learner).__name__.lower(),
        "seed": getattr(learner, "seed", None),
        "buffer_size": memory.get("budget_images"),
        **(learner.settings.as_dict() if hasattr(learner, "settings") else {}),
    }
    seconds = learner.seconds() | clock.seconds()  # waits for the device, so that the total below is a true one
    counts = {
        "training_images": training_images,
        "test_images": test_images,
        "batch_size": batch_sizes[0] if len(set(batch_sizes)) == 1 else batch_sizes,
    }
    return RunRecord(
        acc=metrics.average_accuracy(matrix),
        bwt=metrics.backward_transfer(matrix),
        fwt=metrics.forward_transfer(matrix),
        forgetting=metrics.forgetting(matrix),
        accuracy_matrix=matrix,
        first_task_curve=[row[0] for row in matrix[1:]],
        memory=memory,
        seconds=seconds | {"total": time.perf_counter() - started},
        config=config,
        fingerprint=fingerprint(stream, learner, n_epochs, counts, config, memory),
        versions=versions(),
        device=describe_device(device),
        notes=chance.notes() or None,
    )


def evaluate(
    stream: Stream, learner: Learner, tasks_learnt: int, clock: Clock, watchers: Sequence[Watcher]
) -> tuple[list[float], list[int]]:
    """Accuracy on every task's test images, as fractions, and how many images these are."""
    accuracies, counts = [], []
    with clock("evaluation"):
        for task in stream:
            right, count = 0, 0
            for x, y in task.test_batches():
                right += int((learner.predict(x, task.id) == y.to(x.device)).sum())
                count += len(y)
            accuracies.append(right / count)
            counts.append(count)
    for watcher in watchers:
        watcher.evaluated(tasks_learnt, accuracies)
    return accuracies, counts


def fingerprint(
    stream: Stream,
    learner: Learner,
    n_epochs: int,
    counts: dict[str, Any],
    config: dict[str, Any],
    memory: dict[str, Any],
) -> dict[str, Any]:
    """The terms of the comparison. Two records may stand in one column only if all of this is equal."""
    normalisation = Normalisation.of(getattr(learner, "mean", None), getattr(learner, "std", None))
    backbone = getattr(learner, "backbone_name", DEFAULT_BACKBONE)
    in_bytes = config.get("memory_bytes")
    return {
        "stream": stream.name,
        "source": stream.source,
        "class_order": [list(classes) for classes in stream.task_classes],
        "training_images": counts["training_images"],
        "test_images": counts["test_images"],
        "image_shape": list(stream.image_shape),
        "normalisation": str(normalisation or "pixels / 255"),
        "heads": "one per task, task given at test",
        "epochs": n_epochs,
        "batch_size": counts["batch_size"],
        "budget_images": None if in_bytes else config.get("buffer_size"),
        "accounting": config.get("accounting", memory["accounting"]),
        **({"memory_bytes": in_bytes} if in_bytes else {}),
        **({"backbone": backbone} if backbone != DEFAULT_BACKBONE else {}),
    }
