"""Live bars, one a run."""

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from samc.experiments.watching import Narrator
from samc.protocol import Watcher


def live(console: Console) -> Progress:
    """The place for all bars, since a console has but one; they are shown within its `with` block."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[shown]}", markup=False),
    )
    return Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)


def row(progress: Progress, name: str) -> Callable[..., None]:
    """A bar of its own, and the function that moves it by what a narrator tells."""
    bar = progress.add_task(name, shown="", total=1)

    def tell(acc: float | None = None, **fields: Any) -> None:
        if acc is not None:
            fields["description"] = f"{name}  ACC so far {100 * acc:.1f}"
        progress.update(bar, refresh=True, **fields)

    return tell


def bar(progress: Progress, name: str) -> Watcher:
    """Somebody who moves a bar as a run goes on; nobody, where nobody would see it."""
    tell = row(progress, name)
    return Watcher() if progress.disable else Narrator(tell)
