"""How a run goes on, in words and numbers: task, step, loss, images remembered, bytes used, time left."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from samc.learners.base import Learner, StepStats
from samc.protocol import Watcher
from samc.streams.base import Stream, Task

REFRESH_SECONDS = 0.5


class ProgressNarrator(Watcher):
    """Calls `tell` with some of these at a time, by name: total and completed steps, a line of status, ACC so far.

    Reads the learner only when it tells: reading a loss makes the host wait for the device.
    """

    def __init__(self, tell: Callable[..., None]):
        self.tell = tell
        self.learner: Any = None
        self.steps: Sequence[int] = ()
        self.step_seconds: list[float] = []
        self.task_started = self.told_at = 0.0
        self.first: tuple[int, int] | None = None  # the task that is learnt, and its first step that was seen

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None:
        self.learner, self.steps = learner, steps
        self.tell(total=sum(steps), status="testing the untrained network")

    def step(self, task: Task, number: int, x: object, stats: StepStats) -> None:
        now = time.perf_counter()
        if self.first is None or self.first[0] != task.id:
            # the first step also completes memories and is left out of the estimate
            self.first, self.task_started = (task.id, number), now
            return
        done, steps = number + 1, self.steps[task.id]
        if now - self.told_at < REFRESH_SECONDS and done < steps:
            return
        self.told_at = now
        self.step_seconds[task.id :] = [(now - self.task_started) / (number - self.first[1])]
        memory = self.learner.memory_report()
        status = (
            f"task {task.id + 1}/{len(self.steps)}  step {done}/{steps}  loss {float(stats.loss):.2f}  "
            f"{sum(memory['images_per_task'])} images in {memory['memory_bytes']:,} bytes  "
            f"{format_duration(self.seconds_left(task.id, done))} left"
        )
        self.tell(completed=sum(self.steps[: task.id]) + done, status=status)

    def seconds_left(self, task: int, done: int) -> float:
        """By what steps took so far; for methods that replay, a step takes more by about as much with every task."""
        measured = self.step_seconds
        growth = max(0.0, (measured[-1] - measured[0]) / task) if task else 0.0
        ahead = enumerate(self.steps[task + 1 :], start=1)
        return (self.steps[task] - done) * measured[-1] + sum(n * (measured[-1] + k * growth) for k, n in ahead)

    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None:
        if tasks_learnt:
            self.tell(acc=sum(accuracies[:tasks_learnt]) / tasks_learnt)


def format_duration(seconds: float) -> str:
    """Minutes and seconds, and hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
