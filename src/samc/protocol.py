"""The one training loop: every task once, in order, with a test on all tasks before the first and after each."""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from samc import metrics
from samc.clock import Clock
from samc.learners.base import Learner, StepStats
from samc.record import RunRecord, describe_device, versions
from samc.streams.base import Stream, Task


class Watcher:
    """Somebody who looks on: a progress bar, a collector of pictures. Does nothing unless a method is overridden."""

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None: ...
    def before_step(self, task: Task, number: int, x: Tensor, y: Tensor) -> None: ...
    def step(self, task: Task, number: int, x: Tensor, stats: StepStats) -> None: ...
    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None: ...


def run(
    stream: Stream,
    learner: Learner,
    *,
    batch_size: int = 10,
    n_epochs: int = 1,
    watchers: Sequence[Watcher] = (),
    config: dict[str, Any] | None = None,
) -> RunRecord:
    """Learn the stream and return the record. `config` is written into the record beside what the run itself shows."""
    device = getattr(learner, "device", torch.device("cpu"))
    clock = Clock(device)
    started = time.perf_counter()
    steps = [task.steps(batch_size, n_epochs) for task in stream]
    for watcher in watchers:
        watcher.begin(stream, learner, steps)
    for task in stream:
        learner.declare(task.id, task.classes)  # the untrained row needs to know what there is to choose from
    matrix = [evaluate(stream, learner, 0, clock, watchers)]
    for task in stream:
        learner.begin_task(task)
        for number, (x, y) in enumerate(task.batches(batch_size, n_epochs)):
            for watcher in watchers:
                watcher.before_step(task, number, x, y)
            stats = learner.observe(x, y, task.id)
            for watcher in watchers:
                watcher.step(task, number, x, stats)
        learner.end_task(task)
        matrix.append(evaluate(stream, learner, task.id + 1, clock, watchers))
    memory = learner.memory_report()
    config = config or {
        "model": type(learner).__name__.lower(),
        "seed": getattr(learner, "seed", None),
        "buffer_size": memory.get("budget_images"),
    }
    seconds = learner.seconds() | clock.seconds()  # waits for the device, so that the total below is a true one
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
        fingerprint=fingerprint(stream, batch_size, n_epochs, config, memory),
        versions=versions(),
        device=describe_device(device),
    )


def evaluate(
    stream: Stream, learner: Learner, tasks_learnt: int, clock: Clock, watchers: Sequence[Watcher]
) -> list[float]:
    """Accuracy on every task's test images, as fractions."""
    with clock("evaluation"):
        accuracies = [float((learner.predict(t.test_x, t.id) == t.test_y).double().mean()) for t in stream]
    for watcher in watchers:
        watcher.evaluated(tasks_learnt, accuracies)
    return accuracies


def fingerprint(
    stream: Stream, batch_size: int, n_epochs: int, config: dict[str, Any], memory: dict[str, Any]
) -> dict[str, Any]:
    """The terms of the comparison. Two records may stand in one column only if all of this is equal."""
    in_bytes = config.get("memory_bytes")
    return {
        "stream": stream.name,
        "source": stream.source,
        "class_order": [list(classes) for classes in stream.task_classes],
        "training_images": [len(task.x) for task in stream],
        "test_images": [len(task.test_x) for task in stream],
        "image_shape": list(stream.image_shape),
        "normalisation": "pixels / 255",
        "heads": "one per task, task given at test",
        "epochs": n_epochs,
        "batch_size": batch_size,
        "budget_images": None if in_bytes else config.get("buffer_size"),
        "accounting": config.get("accounting", memory["accounting"]),
        **({"memory_bytes": in_bytes} if in_bytes else {}),
    }
