"""`samc view`: the page of a run, served to this machine while the run goes on."""

import hashlib
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from samc.cli.serving import Latest, PageServer
from samc.cli.terminal import say
from samc.errors import DataError
from samc.experiments.progress_log import FILE as PROGRESS
from samc.experiments.progress_log import Progress, read_progress
from samc.memory.file import FILE as MEMORY
from samc.record import FILE as RECORD
from samc.report.found import find_runs

PORT = 8420


def view(
    run: Annotated[Path, typer.Argument(help="a run's folder, or one that holds some; they may still be learnt")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="where to listen; 0 takes any that is free")] = PORT,
) -> None:
    """Serve the page of a run to this machine's browser while the run goes on; Ctrl-C ends it.

    The page brings itself up to date: loss, accuracy so far, the memory filling; at the end it is the run's report.

    Examples:

      samc view runs/first

      samc view runs/first --port 9000
    """
    if not run.is_dir():
        raise DataError(f"{run} is not there; give the folder of a run, or the --out of one that has just been begun")
    from samc.report.page.page import page_of  # noqa: PLC0415  (matplotlib takes long to import)

    def page(state: str) -> str:
        records = sorted(run.rglob(RECORD))
        return page_of(find_runs(records) if records else [], going(run), live=state)

    with PageServer(Latest(lambda: state_of(run), page), port) as server:
        say(f"page: {server.url} (Ctrl-C ends it)")
        sys.stdout.flush()  # whoever reads it through a pipe waits for it
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def going(folder: Path) -> dict[str, Progress]:
    """What runs without a record say of themselves, by name."""
    from samc.report.page.learning import progress_name  # noqa: PLC0415  (matplotlib takes long to import)

    found = {}
    for path in sorted(folder.rglob(PROGRESS)):
        if not (path.parent / RECORD).exists() and (progress := read_progress(path)):
            where = "" if path.parent == folder else f", {path.parent.relative_to(folder)}"
            found[f"{progress_name(progress)}{where}"] = progress
    return found


def state_of(folder: Path) -> str:
    """Another text whenever a run has told or written something."""
    digest = hashlib.sha256(b"samc")
    for name in (RECORD, PROGRESS, MEMORY):
        for path in sorted(folder.rglob(name)):
            facts = path.stat()
            digest.update(f"{str(path)!a} {facts.st_mtime_ns} {facts.st_size}\n".encode())
    return digest.hexdigest()[:20]
