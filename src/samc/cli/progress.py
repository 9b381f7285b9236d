"""Live bars that fit the terminal, one per run, and a board of them; without a terminal, lines in the log."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from rich.progress import Progress, Task
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from samc.cli.drawing import Terminal
from samc.cli.terminal import say
from samc.errors import printable
from samc.experiments.jobs import Job
from samc.experiments.perform import Listener
from samc.experiments.progress import ProgressNarrator, format_duration
from samc.record import RunRecord
from samc.streams.images import PROGRESS

BAR = 12
GAP = 2
PERCENT = 5
# columns of the terminal
LEAST_NAME = 12
# columns that a name has, however much there is to say
BETWEEN = 1000
# images that are read before a bar is drawn anew
BEFORE_NAME, BEFORE_BAR = 1, 2
# details of this rank or a lower one are shown before a name is shown whole, and before there is a bar


def details(fields: Mapping[str, Any]) -> list[tuple[int, str]]:
    """What a narrator has told, in the order in which it is shown, each with its rank: 0 matters most."""
    known = {name for name, value in fields.items() if value is not None}
    found = []
    if "status" in known:
        found.append((0, printable(fields["status"])))
    if "task" in known:
        found.append((2, f"task {fields['task']}/{fields['tasks']}"))
    if "step" in known:
        found.append((4, f"step {fields['step']}/{fields['steps']}"))
    if "acc" in known:
        found.append((1, f"ACC {100 * fields['acc']:.1f}"))
    if "loss" in known:
        found.append((3, f"loss {fields['loss']:.2f}"))
    if fields.get("images"):
        found.append((5, f"{fields['images']:,} images in {fields['bytes']:,} bytes"))
    if "seconds_left" in known:
        found.append((0, f"{format_duration(fields['seconds_left'])} left"))
    return found


def fitted(parts: list[tuple[int, str]], room: int) -> str:
    """As many of the parts as there is room for; what matters least goes first."""
    while len(joined(parts)) > room and len(parts) > 1:
        least = max(parts, key=lambda part: part[0])
        parts = [part for part in parts if part is not least]
    return shortened(joined(parts), room)


def joined(parts: Iterable[tuple[int, str]]) -> str:
    return (" " * GAP).join(text for _, text in parts)


def shortened(text: str, room: int) -> str:
    """Its beginning and its end, where runs differ."""
    if len(text) <= room:
        return text
    end = max(0, room - 1) // 2
    return text[: max(0, room - 1 - end)] + "…" + text[len(text) - end :]


class FittingProgress(Progress):
    """Each bar on one line, however narrow the terminal is."""

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        rows = [(task, printable(str(task.description)), details(task.fields)) for task in tasks if task.visible]
        if not rows:  # as when it is made, before it has a console
            return Table.grid()
        room = self.console.width - PERCENT - 2 * GAP  # for names and details
        longest = max(len(name) for _, name, _ in rows)
        least, most = (
            max(len(joined(part for part in parts if part[0] <= rank)) for *_, parts in rows)
            for rank in (BEFORE_NAME, BEFORE_BAR)
        )
        with_bar = longest + most + BAR + GAP <= room
        room -= BAR + GAP if with_bar else 0
        name_room = min(longest, max(min(LEAST_NAME, room // 2), room - least))
        table = Table.grid(padding=(0, GAP, 0, 0))
        for task, name, parts in rows:
            done = min(100.0, task.percentage)
            bar = [ProgressBar(total=task.total, completed=task.completed, width=BAR)] if with_bar else []
            texts = f"{done:3.0f} %", fitted(parts, room - name_room)
            table.add_row(Text(shortened(name, name_room).ljust(name_room)), *bar, *map(Text, texts))
        return table


def live_progress(console: Terminal) -> Progress:
    """The place for all bars, since a console has only one; they are shown within its `with` block."""
    return FittingProgress(console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)


class Bar:
    """One run on the display. Without a terminal, a line in the log for each task that has ended, as it happens."""

    def __init__(self, progress: Progress, name: str, status: str | None = None):
        self.progress, self.name = progress, name
        self.task = progress.add_task(name, status=status, total=1)

    def tell(self, **fields: Any) -> None:
        """What a narrator tells."""
        if not self.progress.disable:
            self.progress.update(self.task, refresh=True, **{"status": None, **fields})
        elif "ended" in fields:
            parts = joined(details(fields | {"task": fields["ended"]}))
            with suppress(OSError):  # nobody reads the log any more; the run goes on
                say(f"{self.name}: {parts}", error=True)

    def remove(self) -> None:
        self.progress.remove_task(self.task)


@contextmanager
def reading_bar(progress: Progress, name: str) -> Iterator[None]:
    """While images of a stream are read, a bar of how many have been: where there are few, it is gone at once."""
    bar = None

    def told(done: int, total: int) -> None:
        nonlocal bar
        if done == total and bar is not None:
            progress.remove_task(bar)
            bar = None
        elif done % BETWEEN == 0:
            bar = progress.add_task(f"{name}: images", status="", total=total) if bar is None else bar
            progress.update(bar, completed=done, refresh=True, status=f"{done:,} of {total:,} read")

    before = PROGRESS.set(told)
    try:
        yield
    finally:
        PROGRESS.reset(before)


def bar_watcher(progress: Progress, name: str) -> ProgressNarrator:
    """A watcher that moves a new bar as a run goes on."""
    return ProgressNarrator(Bar(progress, name).tell)


class ProgressBoard(Listener):
    """What runs, by its name, what is done, and when it will end; a line for each run that has ended."""

    def __init__(self, console: Terminal, progress: Progress, names: Mapping[Job, str], at_once: int):
        self.console, self.progress, self.names, self.at_once = console, progress, names, at_once
        self.left, self.total = dict.fromkeys(names), len(names)
        self.bars: dict[Job, Bar] = {}
        self.printed = ""
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.all, self.began_at = progress.add_task("all runs", status="", total=self.total), dict[Job, float]()

    def began(self, job: Job) -> None:
        self.began_at[job] = time.monotonic()
        self.bars[job] = Bar(self.progress, self.names[job], "starting")
        self.refresh()

    def progressed(self, job: Job, fields: dict[str, Any]) -> None:
        if job in self.bars:
            self.bars[job].tell(**fields)

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
        self.bars.pop(job).remove()
        self.refresh()
        line = f"{self.total - len(self.left)}/{self.total}  {self.names[job]}: {result}"
        self.console.print(line, soft_wrap=True)

    def refresh(self, status: str = "") -> None:
        done = self.total - len(self.left)
        status = status or f"{done} of {self.total} done{self.time_left()}"
        self.progress.update(self.all, completed=done, refresh=True, status=status)

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
