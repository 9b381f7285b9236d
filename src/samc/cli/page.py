"""The page that a command leaves: written where it was asked for, or at a run's end, which it never makes fail."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from samc.cli.drawing import Terminal
from samc.cli.naming import check_ending
from samc.cli.terminal import say
from samc.errors import OutputError
from samc.files import write_output
from samc.report.found import Run, find_runs

FILE = "report.html"


def write_page(runs: Sequence[Run], out: Path) -> None:
    """One page of some runs; an earlier one is replaced."""
    if out.is_dir():
        raise OutputError(f"--out is the page to write, and {out} is a folder; give a name such as {out / FILE}")
    check_ending("--out", out, "a page", ".html", ".htm")
    with Terminal().status("drawing the report"):
        from samc.report.page.page import page_of  # noqa: PLC0415  (matplotlib takes long to import)

        content = page_of(runs).encode()
    write_output(out, content, replace=True, taken="choose another --out")
    say(f"report: {out}")


def leave_page(folder: Path, found: Callable[[], Sequence[Run]] | None = None) -> None:
    """The page of the runs in a folder. They have ended and are written: whatever goes wrong here is one line."""
    try:
        write_page(found() if found else find_runs([folder]), folder / FILE)
    except Exception as error:
        again = f"samc report {shlex.quote(str(folder))} --out {FILE}"
        say(f"no report was written ({type(error).__name__}: {error}); mend that and try: {again}")
