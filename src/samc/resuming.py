"""How far a run has come, and how that is saved, stopped at and taken up again, bit for bit."""

import hashlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from samc.checkpoints import Checkpoints
from samc.clock import Clock
from samc.errors import DataError, UserError
from samc.learners.contract import Learner
from samc.learners.fitting import check_kept
from samc.machine import is_part, place
from samc.stopping import Request, Stopped
from samc.streams.base import Stream, Task
from samc.streams.loader import LoaderTask, loaders_of, random_states, set_random_states
from samc.values import is_amount, is_count, is_matrix

SHOWN = 3
# differences that a message names
MOST_IMAGES = 2**31
# of a task: beyond it a count was not counted


@dataclass
class SoFar:
    """What has been measured, and the place in the stream: so many batches of a task, or the task's end.

    A round is what a task gives its batches in: an epoch of a loader, all epochs of arrays.
    """

    matrix: list[list[float | None]] = field(default_factory=list)
    between: list[list[list[float]]] = field(default_factory=list)
    test_images: list[int] = field(default_factory=list)
    training_images: list[int] = field(default_factory=list)
    batch_sizes: list[int] = field(default_factory=list)
    task: int = 0
    batch: int = 0
    round: int = 0
    in_round: int = 0
    ended: bool = False
    images: int = 0
    largest: int = 0
    last_batch: tuple[Task, Tensor, Tensor] | None = None

    def stepped(self, task: Task, x: Tensor, y: Tensor) -> None:
        self.batch, self.last_batch = self.batch + 1, (task, x, y)
        self.images, self.largest = self.images + len(y), max(self.largest, len(y))

    def learnt(self, n_epochs: int, batch_size: int | None) -> None:
        """A task has ended; `batch_size` is what its batches were asked to be, if they were."""
        self.training_images.append(self.images // max(n_epochs, 1))
        self.batch_sizes.append(self.largest if batch_size is None else batch_size)
        self.ended, self.last_batch = True, None

    def tested(self, accuracies: list[float]) -> None:
        """The tasks up to the current one, in the middle of it."""
        self.between += [[] for _ in range(self.task + 1 - len(self.between))]
        self.between[self.task].append(accuracies)

    @property
    def begun(self) -> bool:
        """Whether all tasks have been tested before the first that is learnt here."""
        return len(self.matrix) > self.task

    def evaluated(self, accuracies: Sequence[float]) -> None:
        """All tasks have been tested; the next one is to come."""
        self.matrix.append([*accuracies])
        self.task, self.ended = self.task + 1, False
        self.batch = self.round = self.in_round = self.images = self.largest = 0

    def check(self, tasks: int) -> None:
        """Refuse what no run of so many tasks has measured: a ValueError says so."""
        counts = (self.task, self.batch, self.round, self.in_round, self.images, self.largest)
        if not all(type(count) is int and count >= 0 for count in counts) or type(self.ended) is not bool:
            raise ValueError("its place in the stream is none")
        learnt = self.task + self.ended
        counted = [len(self.test_images), len(self.training_images), len(self.batch_sizes)] == [tasks, learnt, learnt]
        right = is_matrix(self.matrix) and [len(row) for row in self.matrix] == [tasks] * (self.task + 1)
        if not right or not counted or self.task + self.ended > tasks:
            raise ValueError("it has measured other tasks than there are")
        images = (*self.test_images, *self.training_images, *self.batch_sizes)
        if not all(is_count(count) and count <= MOST_IMAGES for count in images):
            raise ValueError("its numbers of images are none")

    def state_dict(self) -> dict[str, Any]:
        # of the last batch its digest: whoever goes on shall find the same one in its place
        state = {item.name: getattr(self, item.name) for item in fields(self)}
        return state | {"last_batch": digest(*self.last_batch) if self.last_batch else None}

    def __str__(self) -> str:
        place = f"step {self.batch}" if self.batch and not self.ended else "its end" if self.ended else "its beginning"
        return f"task {self.task + 1}, {place}"


class Going:
    """A run that goes on: its state, when it is saved, and where it stops if it is told to."""

    def __init__(
        self,
        stream: Stream,
        learner: Learner,
        clock: Clock,
        watchers: Sequence[Any],
        terms: dict[str, Any],
        checkpoints: Checkpoints | None,
        request: Request,
        so_far: SoFar,
    ):
        self.stream, self.learner, self.clock, self.watchers = stream, learner, clock, watchers
        self.terms, self.checkpoints, self.request = terms, checkpoints, request
        self.so_far, self.expected = so_far, None
        self.loaders = loaders_of(stream)
        self.started, self.before = time.perf_counter(), dict[str, float]()
        self.at_start: dict[str, Any] = {}
        self.at_checkpoint: dict[str, Any] = {}
        self.began_on: list[dict[str, Any]] = []

    # What it draws its batches from

    def batches(self, task: Task, batch_size: int, n_epochs: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Those of a task that are left, in the order that they always had."""
        # a loader draws the order of an epoch when that begins, so that each is taken up by itself
        rounds, epochs = (n_epochs, 1) if isinstance(task, LoaderTask) else (1, n_epochs)
        so_far, done = self.so_far, self.so_far.in_round
        for number in range(so_far.round, rounds):
            so_far.round = number
            if self.checkpoints and not done:
                self.at_start = random_states(self.loaders)
            if done:
                set_random_states(self.loaders, self.at_start)
            batches = iter(task.batches(batch_size, epochs))
            if done:
                skipped = list(itertools.islice(batches, done - 1, done))
                if not skipped or digest(task, *skipped[0]) != self.expected:
                    raise DataError(f"task {task.id} gives other images than before, or in another order; begin again")
                set_random_states(self.loaders, self.at_checkpoint)
            for so_far.in_round, batch in enumerate(batches, start=done + 1):
                yield batch
            done = so_far.in_round = 0

    # When it is saved, and when it stops

    def stepped(self) -> None:
        """Between two steps."""
        if self.checkpoints and self.checkpoints.due():
            self.save()
        self.stop_if_told()

    def task_ended(self) -> None:
        """A task has been learnt and all have been tested."""
        if self.checkpoints and self.checkpoints.affordable():
            self.save()
        self.stop_if_told()

    def stop_if_told(self) -> None:
        if self.request.number is None or self.checkpoints is None:
            return
        kept = self.so_far.begun and self.save()
        unsaved = "it could not be saved" if self.so_far.begun else "nothing has been learnt yet"
        raise Stopped(self.request.number, f"saved at {self.so_far}" if kept else unsaved)

    def save(self) -> bool:
        assert self.checkpoints is not None
        with self.clock.on_host("checkpoints"):
            return self.checkpoints.save(self.state_dict)

    def seconds(self) -> dict[str, float]:
        """By phase, and in total, of everything before the last checkpoint too."""
        now = self.learner.seconds() | self.clock.seconds() | {"total": time.perf_counter() - self.started}
        return {name: self.before.get(name, 0.0) + now.get(name, 0.0) for name in {**self.before, **now}}

    def part_learnt(self) -> dict[str, Any]:
        return place(getattr(self.learner, "device", torch.device("cpu"))) | {"until": str(self.so_far)}

    def state_dict(self) -> dict[str, Any]:
        watching = {type(watcher).__name__: watcher.state_dict() for watcher in self.watchers}
        return {
            "terms": self.terms,
            "learner": self.learner.state_dict(),
            "so_far": self.so_far.state_dict(),
            "seconds": self.seconds(),
            "watchers": {name: state for name, state in watching.items() if state},
            "parts": [*self.began_on, self.part_learnt()],
            "at_start": self.at_start,
            "random": random_states(self.loaders),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        }

    # How it goes on

    def resume(self) -> bool:
        """Take up the last checkpoint, where there is one; the learner and everybody who looks on with it."""
        if self.checkpoints is None:
            return False
        try:
            return self.take_up(self.checkpoints)
        except UserError:
            raise
        # a stranger's file may hold anything under a checksum that fits, and each part then fails in its own way
        except Exception as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            folder = self.checkpoints.folder
            raise DataError(
                f"{folder} holds no whole checkpoint ({reason}); remove those in it to begin again"
            ) from None

    def take_up(self, checkpoints: Checkpoints) -> bool:
        try:
            state = checkpoints.last()
            if state is None:
                return False
            self.check(state["terms"])
            self.learner.load_state_dict(state["learner"])
            if hasattr(self.learner, "kept_labels"):  # a learner of one's own need not have it
                check_kept(self.learner)
        except UserError:
            if not checkpoints.discard_others:
                raise
            checkpoints.clear()
            return False
        for watcher in self.watchers:
            if type(watcher).__name__ in state["watchers"]:
                watcher.load_state_dict(state["watchers"][type(watcher).__name__])
        self.expected = state["so_far"]["last_batch"]
        for name, value in (state["so_far"] | {"last_batch": None}).items():
            setattr(self.so_far, name, value)
        self.so_far.check(len(self.stream))
        self.before, self.at_start, self.at_checkpoint = state["seconds"], state["at_start"], state["random"]
        self.began_on = elsewhere(state["parts"], self.part_learnt())
        if self.began_on:
            until = self.began_on[-1]["until"]
            where = "on another device or with other versions"
            checkpoints.notes.append(f"learnt until {until} {where}; its record says so")
        if not all(map(is_amount, self.before.values())):
            raise ValueError("its seconds are no numbers")
        if self.so_far.in_round and not self.at_start:
            raise ValueError("it does not say what its batches were drawn from")
        for states in (self.at_start, self.at_checkpoint) if self.at_start else (self.at_checkpoint,):
            set_random_states(self.loaders, states)  # the first of them only to see that it can be done
        if state["cuda"] and torch.cuda.is_initialized():
            torch.cuda.set_rng_state_all(state["cuda"])
        return True

    def check(self, theirs: dict[str, Any]) -> None:
        """Refuse to go on with another run than the one that was saved."""
        mine, theirs = flattened(self.terms), flattened(theirs)
        unlike = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        if unlike:
            found = ", ".join(f"{name}: {theirs.get(name)} there, {mine.get(name)} here" for name in unlike[:SHOWN])
            assert self.checkpoints is not None
            folder = self.checkpoints.folder
            raise DataError(f"{folder} holds checkpoints of another run ({found}); choose another folder or remove it")


def elsewhere(parts: list[dict[str, Any]], here: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts that another device or other versions learnt; the last is this one's where they are alike."""
    if not isinstance(parts, list) or not parts or not all(map(is_part, parts)):
        raise ValueError("it does not say on what it was learnt")
    alike = all(parts[-1][name] == here[name] for name in ("device", "versions"))
    return parts[:-1] if alike else parts


def flattened(terms: dict[str, Any]) -> dict[str, Any]:
    inner = {name: value for part in terms.values() if isinstance(part, dict) for name, value in part.items()}
    return inner | {name: value for name, value in terms.items() if not isinstance(value, dict)}


def stream_terms(stream: Stream, steps: Sequence[int]) -> dict[str, Any]:
    """What two runs on the same data share, and how many batches it makes."""
    return {
        "stream": stream.name,
        "source": stream.source,
        "classes": [list(classes) for classes in stream.task_classes],
        "steps": list(steps),
    }


def digest(task: Task, x: Tensor, y: Tensor) -> str:
    """Of a batch; of a loader's only the labels, since its transforms may be drawn anew each time."""
    parts = (y,) if isinstance(task, LoaderTask) else (x, y)
    return hashlib.sha256(b"".join(part.detach().cpu().numpy().tobytes() for part in parts)).hexdigest()
