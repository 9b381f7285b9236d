"""How a run goes on, in numbers: task, step, loss, ACC so far, images remembered, bytes used, time left."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from samc.learners.contract import Learner, StepStats
from samc.protocol import Watcher
from samc.streams.base import Stream, Task

REFRESH_SECONDS = 0.5


class ProgressNarrator(Watcher):
    """Calls `tell` with some of these at a time, by name; whoever shows them chooses.

    total, completed     steps of the whole run
    status               what is being done, in words, while no step has been made
    task, tasks          the number of the task, from 1, and how many there are
    step, steps          within the task
    loss, images, bytes  the last loss, and what the memory holds
    seconds_left         for the whole run
    ended, acc           a task that has ended, from 1, and ACC so far

    Reads the learner only when it tells: reading a loss makes the host wait for the device.
    """

    def __init__(self, tell: Callable[..., None]):
        self.tell = tell
        self.learner: Any = None
        self.steps: Sequence[int] = ()
        self.places: dict[int, int] = {}  # of tasks in the stream, by their number
        self.step_seconds: dict[int, float] = {}  # by place
        self.task_started = self.told_at = 0.0
        self.first: tuple[int, int] | None = None  # the task that is learnt, and its first step that was seen
        self.last: StepStats | None = None

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None:
        self.learner, self.steps = learner, steps
        self.places = {task.id: place for place, task in enumerate(stream)}
        self.tell(total=sum(steps), status="testing before the first task")

    def step(self, task: Task, number: int, x: object, stats: StepStats) -> None:
        now, self.last = time.perf_counter(), stats
        if self.first is None or self.first[0] != task.id:
            # the first step also completes memories and is left out of the estimate
            self.first, self.task_started = (task.id, number), now
            return
        place = self.places[task.id]
        done, steps = number + 1, self.steps[place]
        if now - self.told_at < REFRESH_SECONDS and done < steps:
            return
        self.told_at = now
        self.step_seconds[place] = (now - self.task_started) / (number - self.first[1])
        where = {"task": place + 1, "tasks": len(self.steps), "step": done, "steps": steps}
        left = self.seconds_left(place, done)
        self.tell(completed=sum(self.steps[:place]) + done, **where, **self.state(), seconds_left=left)

    def state(self) -> dict[str, Any]:
        """The last loss, where a step has been seen, and what the memory holds."""
        memory = self.learner.memory_report()
        held = {"images": sum(memory["images_per_task"]), "bytes": memory["memory_bytes"]}
        return held | ({"loss": float(self.last.loss)} if self.last else {})

    def seconds_left(self, place: int, done: int) -> float:
        """By what steps took so far; for methods that replay, a step takes more by about as much with every task."""
        first, now = min(self.step_seconds), self.step_seconds[place]
        growth = max(0.0, (now - self.step_seconds[first]) / (place - first)) if place > first else 0.0
        ahead = enumerate(self.steps[place + 1 :], start=1)
        return (self.steps[place] - done) * now + sum(n * (now + k * growth) for k, n in ahead)

    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None:
        place = tasks_learnt - 1
        if not sum(self.steps[:tasks_learnt]):  # nothing has been learnt yet, or by another run
            return
        fields: dict[str, Any] = {"ended": tasks_learnt, "tasks": len(self.steps)}
        if place in self.step_seconds:  # a task of a single step leaves nothing to estimate from
            fields["seconds_left"] = self.seconds_left(place, self.steps[place])
        acc = sum(accuracies[:tasks_learnt]) / tasks_learnt
        self.tell(completed=sum(self.steps[:tasks_learnt]), acc=acc, **fields, **self.state())


def format_duration(seconds: float) -> str:
    """Minutes and seconds, and hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
