"""Live bars, one a run: task, step, loss, images remembered, bytes used, time left."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from samc.learners.base import Learner, StepStats
from samc.protocol import Watcher
from samc.streams.base import Stream, Task

REFRESH_SECONDS = 0.25


def live(console: Console) -> Progress:
    """The place for all bars, since a console has but one; they are shown within its `with` block."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[shown]}"),
    )
    return Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)


class Bar(Watcher):
    """Looks at the learner only when it redraws: reading a loss makes the host wait for the device."""

    def __init__(self, progress: Progress, name: str):
        self.progress = progress
        self.name = name
        self.row = self.progress.add_task(name, shown="", total=1)
        self.learner: Any = None
        self.steps: Sequence[int] = ()
        self.step_seconds: list[float] = []
        self.task_started = self.drawn = 0.0

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None:
        self.learner, self.steps = learner, steps
        self.progress.update(self.row, total=sum(steps), shown="testing the untrained network", refresh=True)

    def step(self, task: Task, number: int, x: object, stats: StepStats) -> None:
        if self.progress.disable:
            return
        now = time.perf_counter()
        if number == 0:
            self.task_started = now  # the first step also completes memories and is left out of the estimate
            return
        done, steps = number + 1, self.steps[task.id]
        if now - self.drawn < REFRESH_SECONDS and done < steps:
            return
        self.drawn = now
        self.step_seconds[task.id :] = [(now - self.task_started) / number]
        memory = self.learner.memory_report()
        shown = (
            f"task {task.id + 1}/{len(self.steps)}  step {done}/{steps}  loss {float(stats.loss):.2f}  "
            f"{sum(memory['images_per_task'])} images in {memory['memory_bytes']:,} bytes  "
            f"{self.left(task.id, done)} left"
        )
        self.progress.update(self.row, completed=sum(self.steps[: task.id]) + done, shown=shown, refresh=True)

    def left(self, task: int, done: int) -> str:
        """Time left. Steps grow dearer by about the same with every task, for methods that replay."""
        measured = self.step_seconds
        growth = max(0.0, (measured[-1] - measured[0]) / task) if task else 0.0
        ahead = enumerate(self.steps[task + 1 :], start=1)
        seconds = (self.steps[task] - done) * measured[-1] + sum(n * (measured[-1] + k * growth) for k, n in ahead)
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"

    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None:
        if tasks_learnt:
            seen = sum(accuracies[:tasks_learnt]) / tasks_learnt
            self.progress.update(self.row, description=f"{self.name}  ACC so far {100 * seen:.1f}", refresh=True)
