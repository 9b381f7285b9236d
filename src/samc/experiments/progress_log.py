"""How far a run has come, for somebody who looks on from outside: one line now and then in a file in its folder."""

import json
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samc.errors import DataError
from samc.files import read_regular
from samc.learners.contract import Learner, StepStats
from samc.protocol import Watcher
from samc.streams.base import Stream, Task
from samc.streams.names import class_names, name_of, names_without_data
from samc.values import are, is_amount, is_count, is_fraction, is_number, is_order, is_text, perhaps

FILE = "progress.jsonl"
EVERY = 1.0
SHARE = 500
# a line each second, or less often once a run has lasted so many times as long: the file stays small
MOST_BYTES = 2**25


class ProgressLog(Watcher):
    """Writes the lines. Nothing of the run depends on them: where they cannot be written, they are left out."""

    def __init__(self, folder: Path, *, fresh: bool):
        self.path = folder / FILE
        self.fresh = fresh  # a run that goes on adds to what is there
        self.began = self.written = time.monotonic()
        self.learner: Any = None
        self.places: dict[int, int] = {}  # of tasks in the stream, by their number

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None:
        self.learner, self.places = learner, {task.id: place for place, task in enumerate(stream)}
        names = class_names(stream)
        if self.fresh:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
        self.write(
            model=type(learner).__name__.lower(),
            stream=stream.name,
            classes=[list(classes) for classes in stream.task_classes],
            names=None if names is None else list(names),
            steps=list(steps),
        )

    def step(self, task: Task, number: int, x: object, stats: StepStats) -> None:
        now = time.monotonic()
        if now - self.written >= max(EVERY, (now - self.began) / SHARE):
            self.written = now
            loss = float(stats.loss)
            loss_told = loss if math.isfinite(loss) else None
            # its place and not its number: a run that goes on from another may begin with task 5
            self.write(task=self.places[task.id], step=number + 1, loss=loss_told, **self.remembered())

    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None:
        self.write(tasks_learnt=tasks_learnt, accuracies=accuracies, **self.remembered())

    def remembered(self) -> dict[str, int]:
        """Images and what they cost, as the memory counts them anyway; what is still on its way is not waited for."""
        memory = getattr(self.learner, "stored", None)
        tasks = [] if memory is None else list(memory.by_task.values())
        return {"images": sum(len(held.images) for held in tasks), "bytes": sum(held.cost for held in tasks)}

    def write(self, **fields: Any) -> None:
        # appended and not replaced whole: a reader leaves out a line that is not all there yet
        with suppress(OSError), self.path.open("a") as file:
            file.write(json.dumps({"at": round(time.time(), 1), **fields}) + "\n")


@dataclass(frozen=True)
class Point:
    """A moment of a run: steps since its beginning, the loss where it was a number, what is remembered by then."""

    step: int
    loss: float | None
    images: int
    bytes: int


@dataclass
class Progress:
    """What the lines say: what is learnt, the accuracies after each task so far, and moments in between."""

    model: str
    stream: str
    classes: list[list[int]]
    names: list[str] | None
    steps: list[int]
    began: float
    at: float = 0.0
    task: int = 0
    step: int = 0
    rows: dict[int, list[float]] = field(default_factory=dict)
    points: dict[int, Point] = field(default_factory=dict)

    def class_name(self, label: int) -> str:
        return name_of(label, self.names or names_without_data(self.stream))

    @property
    def matrix(self) -> list[list[float]]:
        """The rows that there are: from the untrained network's on, or from where another run has ended."""
        return [self.rows[learnt] for learnt in sorted(self.rows)]


RULES = {
    "at": is_amount,
    "model": is_text,
    "stream": is_text,
    "classes": is_order,
    "names": perhaps(are(is_text)),
    "steps": are(is_count),
    "task": is_count,
    "step": is_count,
    "loss": perhaps(is_number),
    "images": is_count,
    "bytes": is_count,
    "tasks_learnt": is_count,
    "accuracies": are(is_fraction),
}


def read_progress(path: Path) -> Progress | None:
    """What a run has told so far; None where it has told nothing yet."""
    lines = read_regular(path, MOST_BYTES, "give the folder of a run").split(b"\n")[:-1]  # the last is not all there
    found: Progress | None = None
    try:
        for line in lines:
            fields = json.loads(line)
            if not isinstance(fields, dict) or not all(RULES[name](value) for name, value in fields.items()):
                raise ValueError("a line of it makes no sense")
            found = add(found, fields)
    except (ValueError, KeyError, IndexError, RecursionError) as error:
        raise DataError(f"{path} does not say how far a run has come ({error}); remove it") from None
    return found


def add(found: Progress | None, fields: dict[str, Any]) -> Progress:
    """One line more. What was done again after an interruption takes the place of what it was."""
    if found is None or "model" in fields:
        began = float(fields["at"]) if found is None else found.began
        made = Progress(
            **{name: fields[name] for name in ("model", "stream", "classes", "names", "steps")}, began=began
        )
        if found is not None and found.classes == made.classes:
            made.rows, made.points = found.rows, found.points
        found = made
    found.at = float(fields["at"])
    if "tasks_learnt" in fields:
        found.task, found.step = fields["tasks_learnt"], 0
        found.rows[found.task] = list(map(float, fields["accuracies"]))
        if len(fields["accuracies"]) != len(found.classes):
            raise ValueError("it tests other tasks than it learns")
    elif "task" in fields:
        found.task, found.step = fields["task"], fields["step"]
    if "images" in fields:
        place = sum(found.steps[: found.task]) + found.step
        earlier = found.points.get(place)
        loss = fields.get("loss", earlier.loss if earlier else None)
        found.points[place] = Point(place, None if loss is None else float(loss), fields["images"], fields["bytes"])
    return found
