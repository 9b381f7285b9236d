"""Live bars, one per run."""

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from samc.experiments.progress import ProgressNarrator
from samc.protocol import Watcher


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
