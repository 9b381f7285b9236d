"""The one training loop: every task once, in order, with a test on all tasks before the first and after each."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from samc import metrics
from samc.checkpoints import EVERY, Checkpoints
from samc.clock import Clock
from samc.config import RunConfig, check_setting
from samc.health import ChanceWatch, LossMonitor
from samc.learners.contract import Learner, StepStats
from samc.learners.saving import FILE as LEARNER
from samc.learners.scenario import Scenario
from samc.learners.settings import NetworkSettings
from samc.machine import place
from samc.memory.file import FILE as MEMORY
from samc.record import RunRecord, claimed_folder
from samc.resuming import Going, SoFar, stream_terms
from samc.stopping import Request, signals_noted
from samc.streams.base import Stream, Task
from samc.streams.names import class_names
from samc.streams.own_data import check_normalisation, stream_of
from samc.streams.pixels import Normalisation
from samc.streams.task import ArrayTask

SHARED_HEAD = "one for all classes seen, no task at test"
DEFAULT_BACKBONE = "reduced-resnet18"
# the paper's network, which a fingerprint leaves unsaid


class Watcher:
    """Somebody who looks on: a progress bar, a collector of pictures. Does nothing unless a method is overridden."""

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None: ...
    def before_step(self, task: Task, number: int, x: Tensor, y: Tensor) -> None: ...
    def step(self, task: Task, number: int, x: Tensor, stats: StepStats) -> None: ...
    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        """What it needs to look on from a checkpoint as if it had seen all before; most need nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def run(
    stream: Stream | Iterable[Any],
    learner: Learner,
    *,
    batch_size: int = RunConfig.batch_size,
    n_epochs: int = RunConfig.n_epochs,
    test_every: int = RunConfig.test_every,
    watchers: Sequence[Watcher] = (),
    config: dict[str, Any] | None = None,
    folder: str | Path | None = None,
    checkpoint_every: str = EVERY,
) -> RunRecord:
    """Learn the stream and return the record.

    `stream` is a Stream, or a list with one item per task: Tasks, torch Datasets, DataLoaders, pairs (train, test) of
    those, or tuples of arrays, as in `samc.streams.stream_of`. The batches of a DataLoader keep their own order and
    size, whatever `batch_size` is. Where the learner has a `mean` and a `std`, float images are taken for images that
    were normalised with them; uint8 images are not.
    With `test_every` the tasks so far are also tested after so many steps within each, for `record.stability_gap`.
    `config` is written into the record, with what the run itself shows.
    With a `folder`, the state is saved there as learning goes on (`checkpoint_every` so many steps, as 500, or seconds,
    as 60s): the same call goes on where a run was stopped, and its end leaves record, memory and learner there.
    """
    if folder is None:
        return learn_stream(stream, learner, batch_size, n_epochs, watchers, config, test_every=test_every)
    folder = Path(folder)
    with claimed_folder(folder):
        checkpoints = Checkpoints(folder, checkpoint_every)
        record = learn_stream(
            stream, learner, batch_size, n_epochs, watchers, config, checkpoints, test_every=test_every
        )
        if hasattr(learner, "memory"):
            learner.memory.save(folder / MEMORY, replace=True)
        if hasattr(learner, "save"):
            try:
                learner.save(folder / LEARNER, replace=True)
            except TypeError as error:  # a method of somebody's own: its record is not lost for that
                warnings.warn(f"no learner is left in {folder}: {error}", stacklevel=2)
        record.save(folder)  # last: where there is a record, there is all of it
    checkpoints.clear()
    return record


def learn_stream(
    stream: Stream | Iterable[Any],
    learner: Learner,
    batch_size: int,
    n_epochs: int,
    watchers: Sequence[Watcher] = (),
    config: dict[str, Any] | None = None,
    checkpoints: Checkpoints | None = None,
    so_far: SoFar | None = None,
    test_every: int = RunConfig.test_every,
) -> RunRecord:
    """The loop itself; with checkpoints it goes on from the last of them, and leaves them where they are.

    `so_far` is what another run has learnt and measured of the stream's first tasks.
    """
    normalised: dict[str, Any] = {name: getattr(learner, name, None) for name in ("mean", "std")}
    stream = stream_of(stream, seed=getattr(learner, "seed", None) or 0, **normalised)
    check_normalisation(stream, Normalisation.of(**normalised))
    clock = Clock(getattr(learner, "device", torch.device("cpu")))
    so_far = so_far or SoFar()
    left = stream.tasks[so_far.task :]
    steps = [0] * so_far.task + [task.steps(batch_size, n_epochs) for task in left]
    config = config or described(learner)
    for watcher in watchers:
        watcher.begin(stream, learner, steps)
    check_setting(RunConfig, "test_every", test_every)
    terms = {"config": config, "stream": stream_terms(stream, steps), "batch_size": batch_size, "epochs": n_epochs}
    terms |= {"test_every": test_every} if test_every else {}
    with signals_noted() if checkpoints else nullcontext(Request()) as request:
        going = Going(stream, learner, clock, watchers, terms, checkpoints, request, so_far)
        monitor = LossMonitor(learner)
        if not going.resume():
            for number, classes in scenario_of(learner).declared((task.id, task.classes) for task in left):
                learner.declare(number, classes)  # the untrained row needs to know what there is to choose from
            if hasattr(learner, "expect"):  # a learner of one's own need not have it
                learner.expect(task.x.numpy() for task in left if isinstance(task, ArrayTask))
            first, counts = evaluate(stream, learner, so_far.task, clock, watchers, going.stop_if_told)
            so_far.matrix, so_far.test_images = [*so_far.matrix, [*first]], counts
        for number, task in enumerate(stream):
            if number < so_far.task:
                continue
            if not so_far.ended:
                learn_task(task, learner, batch_size, n_epochs, steps[number], watchers, going, monitor, test_every)
            accuracies, _ = evaluate(stream, learner, number + 1, clock, watchers, going.stop_if_told)
            so_far.evaluated(accuracies)
            going.task_ended()
    memory = learner.memory_report()
    seconds = going.seconds()  # waits for the device, so that the total is a true one
    matrix, batch_sizes = so_far.matrix, so_far.batch_sizes
    shown = {
        "training_images": so_far.training_images,
        "test_images": so_far.test_images,
        "batch_size": batch_sizes[0] if len(set(batch_sizes)) == 1 else batch_sizes,
    }
    return RunRecord(
        acc=metrics.average_accuracy(matrix),
        bwt=metrics.backward_transfer(matrix),
        fwt=metrics.forward_transfer(matrix),
        forgetting=metrics.forgetting(matrix),
        accuracy_matrix=matrix,
        first_task_curve=metrics.as_matrix(matrix)[1:, 0].tolist(),
        memory=memory,
        seconds=seconds,
        config=config,
        fingerprint=fingerprint(stream, learner, n_epochs, shown, config, memory),
        **place(getattr(learner, "device", torch.device("cpu"))),
        notes=chance_notes(left, learner, so_far) or None,
        class_names=list(names) if (names := class_names(stream)) else None,
        between=so_far.between + [[]] * (len(stream) - len(so_far.between)) if test_every else None,
        began_on=going.began_on or None,
    )


def chance_notes(tasks: Sequence[Task], learner: Learner, so_far: SoFar) -> list[str]:
    """On those of the last tasks that were known no better than by chance when they had just been learnt."""
    chance = ChanceWatch(learner)
    tested = metrics.just_learnt(so_far.matrix)[-len(tasks) :], so_far.test_images[-len(tasks) :]
    for task, accuracy, count in zip(tasks, *tested, strict=True):
        chance.tested(task, float(accuracy), count)
    return chance.notes()


def learn_task(
    task: Task,
    learner: Learner,
    batch_size: int,
    n_epochs: int,
    steps: int,
    watchers: Sequence[Watcher],
    going: Going,
    monitor: LossMonitor,
    test_every: int,
) -> None:
    """Every batch of a task, or those that are left of it, and its end."""
    so_far, monitor.number = going.so_far, going.so_far.batch
    told = scenario_of(learner).told
    if told and not so_far.batch:
        learner.begin_task(task)
    for number, (x, y) in enumerate(going.batches(task, batch_size, n_epochs), start=so_far.batch):
        for watcher in watchers:
            watcher.before_step(task, number, x, y)
        stats = learner.observe(x, y, task.id if told else None)
        monitor.step(so_far.task + 1, stats.loss)
        for watcher in watchers:
            watcher.step(task, number, x, stats)
        so_far.stepped(task, x, y)
        if number + 1 < steps:  # after a task's last step its end comes first: methods learn there from what they hold
            if test_every and not (number + 1) % test_every:
                begun = going.stream.tasks[: so_far.task + 1]
                so_far.tested(evaluate(begun, learner, len(begun), going.clock, (), lambda: None)[0])
            going.stepped()
    monitor.end_task(so_far.task + 1)
    if told:
        learner.end_task(task)
    task.release()
    so_far.learnt(n_epochs, None if task.own_batch_size else batch_size)


def described(learner: Learner) -> dict[str, Any]:
    """The config of a run that has none: what the learner says of itself."""
    return {
        "model": type(learner).__name__.lower(),
        "seed": getattr(learner, "seed", None),
        "buffer_size": learner.memory_report().get("budget_images"),
        **(learner.settings.as_dict() if hasattr(learner, "settings") else {}),
    }


def evaluate(
    tasks: Iterable[Task],
    learner: Learner,
    tasks_learnt: int,
    clock: Clock,
    watchers: Sequence[Watcher],
    between: Callable[[], None],
) -> tuple[list[float], list[int]]:
    """Accuracy on every task's test images, as fractions, and how many images these are.

    `between` is called before each task. Where no class is known before it comes, none of one to come is ever answered.
    """
    accuracies, counts = [], []
    one_head, answered = scenario_of(learner).one_head, classes_answered(learner, tasks_learnt)
    for task in tasks:
        between()
        right, count = 0, 0
        with clock("evaluation"):
            for x, y in task.test_batches():
                count += len(y)
                if answered is None or not answered.isdisjoint(y.tolist()):
                    answers = learner.predict(x, None if one_head else task.id)
                    right += int((answers == y.to(x.device)).sum())
        accuracies.append(right / count)
        counts.append(count)
    for watcher in watchers:
        watcher.evaluated(tasks_learnt, accuracies)
    return accuracies, counts


def classes_answered(learner: Learner, tasks_learnt: int) -> set[int] | None:
    """The only classes that a learner can name; None where it may name any, as far as is known."""
    if not scenario_of(learner).open:
        return None
    heads = getattr(getattr(learner, "model", None), "heads", None)
    if heads is not None:
        return set(heads.seen)
    return None if tasks_learnt else set()  # a learner of one's own is not asked before it has learnt anything


def scenario_of(learner: Learner) -> Scenario:
    """A learner of one's own that says none is told of tasks, and asked with them."""
    return getattr(learner, "scenario", Scenario(NetworkSettings.scenario, NetworkSettings.boundaries))


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
    in_bytes, scenario = config.get("memory_bytes"), scenario_of(learner)
    return {
        "stream": stream.name,
        "source": stream.source,
        "class_order": [list(classes) for classes in stream.task_classes],
        "training_images": counts["training_images"],
        "test_images": counts["test_images"],
        "image_shape": list(stream.image_shape),
        "normalisation": str(normalisation or "pixels / 255"),
        "heads": SHARED_HEAD if scenario.one_head else "one per task, task given at test",
        "epochs": n_epochs,
        "batch_size": counts["batch_size"],
        "budget_images": None if in_bytes else config.get("buffer_size"),
        "accounting": config.get("accounting", memory["accounting"]),
        **({"memory_bytes": in_bytes} if in_bytes else {}),
        **({"backbone": backbone} if backbone != DEFAULT_BACKBONE else {}),
        **scenario.terms(),
    }
