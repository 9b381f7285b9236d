"""Live bars, one per run, and a board of them for many runs."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from samc.experiments.jobs import Job
from samc.experiments.perform import Listener
from samc.experiments.progress import ProgressNarrator, format_duration
from samc.protocol import Watcher
from samc.record import RunRecord


def live_progress(console: Console) -> Progress:
    """The place for all bars, since a console has only one; they are shown within its `with` block."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[status]}", markup=False),
    )
    return Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)


def add_bar(progress: Progress, name: str) -> Callable[..., None]:
    """A new bar; returns the function that moves it by what a narrator tells."""
    bar = progress.add_task(name, status="", total=1)

    def tell(acc: float | None = None, **fields: Any) -> None:
        if acc is not None:
            fields["description"] = f"{name}  ACC so far {100 * acc:.1f}"
        progress.update(bar, refresh=True, **fields)

    return tell


def bar_watcher(progress: Progress, name: str) -> Watcher:
    """A watcher that moves a new bar as a run goes on, or does nothing where nobody would see the bar."""
    tell = add_bar(progress, name)
    return Watcher() if progress.disable else ProgressNarrator(tell)


def describe(job: Job) -> str:
    return f"{job.config.model} on {job.config.dataset}, seed {job.config.seed},"


class ProgressBoard(Listener):
    """What runs, what is done, and when it will end; without a terminal a line for each run that has ended."""

    def __init__(self, console: Console, progress: Progress, jobs: Sequence[Job], at_once: int):
        self.console, self.progress, self.at_once = console, progress, at_once
        self.left = dict.fromkeys(jobs)
        self.bars: dict[Job, TaskID] = {}
        self.printed = ""
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.all, self.began_at = progress.add_task("all runs", status="", total=len(jobs)), dict[Job, float]()

    def began(self, job: Job) -> None:
        self.began_at[job] = time.monotonic()
        name = f"{job.config.model}, {job.config.dataset}, seed {job.config.seed}"
        self.bars[job] = self.progress.add_task(name, status="starting", total=1)
        self.refresh()

    def progressed(self, job: Job, fields: dict[str, Any]) -> None:
        acc = fields.pop("acc", None)
        if acc is not None:
            fields["status"] = f"ACC so far {100 * acc:.1f}"
        if job in self.bars:
            self.progress.update(self.bars[job], refresh=True, **fields)

    def ended(self, job: Job, record: RunRecord) -> None:
        took = time.monotonic() - self.began_at[job]
        self.seconds.setdefault((job.config.model, job.config.dataset), []).append(took)
        self.close(job, f"ACC {100 * record.acc:.1f} %, {took:.0f} s")

    def failed(self, job: Job, error: Exception) -> None:
        self.close(job, f"failed: {' '.join(str(error).split())}")

    def elsewhere(self, jobs: list[Job]) -> None:
        self.left = dict.fromkeys(jobs)  # what else was left, the other command has ended meanwhile
        status = f"another command is at {len(jobs)} runs; waiting for it"
        self.refresh(status)
        if status != self.printed and not self.console.is_terminal:
            self.console.print(status)
        self.printed = status

    def close(self, job: Job, result: str) -> None:
        self.left.pop(job, None)
        self.progress.remove_task(self.bars.pop(job))
        self.refresh()
        done = int(self.progress.tasks[0].total or 0) - len(self.left)
        self.console.print(f"{done}/{done + len(self.left)}  {describe(job)} {result}", soft_wrap=True)

    def refresh(self, status: str = "") -> None:
        total = int(self.progress.tasks[0].total or 0)
        status = status or f"{total - len(self.left)} of {total} done{self.time_left()}"
        self.progress.update(self.all, completed=total - len(self.left), refresh=True, status=status)

    def time_left(self) -> str:
        """Estimated by what runs of the same method and stream took; where there are none yet, by what all took."""
        known = [duration for durations in self.seconds.values() for duration in durations]
        if not known:
            return ""
        mean, now, ahead = sum(known) / len(known), time.monotonic(), 0.0
        for job in self.left:
            alike = self.seconds.get((job.config.model, job.config.dataset))
            expected = sum(alike) / len(alike) if alike else mean
            ahead += max(0.0, expected - (now - self.began_at.get(job, now)))
        return f", about {format_duration(ahead / self.at_once)} left"
