"""`samc report`, `samc results`, `samc compare`: what there is to run, and what has been run."""

from pathlib import Path
from typing import Annotated

import typer

from samc.cli.drawing import draw
from samc.cli.naming import check_ending
from samc.cli.page import write_page
from samc.cli.seeds import parse_seeds
from samc.cli.terminal import say
from samc.errors import ConfigError, OutputError
from samc.experiments.record_store import RecordStore
from samc.record import RunRecord
from samc.report.comparison import comparison_tables
from samc.report.found import find_runs
from samc.report.pair import pair_tables
from samc.report.results_page import publish_all, write_results_page
from samc.report.tables import markdown_grid

RESULTS = Path("docs/results.md")


def report(
    run: Annotated[list[Path], typer.Argument(help="runs, or folders of some; all folders below are searched")],
    out: Annotated[
        Path | None, typer.Option(help="write one HTML page instead: figures, curves, what is remembered")
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="print Markdown instead of a drawn table")] = False,
) -> None:
    """Compare runs: a row for each method, mean and deviation over its seeds; or a page that shows all of them.

    Runs on different terms (stream, classes, images, budget, epochs) are never put into one table.

    Examples:

      samc report runs

      samc report runs/gem runs/samc --out report.html

      samc report results/split-synthetic --markdown
    """
    if out is not None and as_markdown:
        raise ConfigError("--out writes a page and --markdown prints a table; give one of them")
    runs = find_runs(run)
    if out is not None:
        write_page(runs, out)
        return
    for table in comparison_tables([found.record for found in runs]):
        if as_markdown:
            for part in (table.title, markdown_grid(table), *table.notes):
                say(*part.splitlines(), "")
        else:
            draw(table)


def results(
    folder: Annotated[Path, typer.Argument(help="where `samc reproduce` has put its runs")],
    page: Annotated[
        Path | None, typer.Option(help="the page to write, and nothing else  [default: docs/results.md]")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="show quick runs")] = False,
    seeds: Annotated[str | None, typer.Option(help="the seeds to show, such as 0-9  [default: 0-4]")] = None,
) -> None:
    """Write one page with every table and figure that there are runs for, and what has not been run yet.

    With --page, that page is all that is written; it shows the figures that lie in the folder. Without it, tables and
    figures are written into the folder again, and the page to docs/results.md.

    Examples:

      samc results results/paper

      samc results runs/reproduce --quick --page runs/reproduce/README.md

      samc results runs/reproduce --seeds 0-9 --page runs/reproduce/README.md
    """
    if page is not None and page.is_dir():
        raise OutputError(f"--page is the file to write, and {page} is a folder; give a name such as docs/results.md")
    if page is not None:
        check_ending("--page", page, "a page", ".md")
    numbers = None if seeds is None else parse_seeds(seeds)
    store, chosen = RecordStore(folder), page or RESULTS
    written = publish_all(store, quick=quick, seeds=numbers) if page is None else []
    write_results_page(store, chosen, quick=quick, seeds=numbers)
    for path in (*written, chosen):
        say(str(path))


def compare(
    first: Annotated[Path, typer.Argument(help="a run's folder, or its record.json")],
    second: Annotated[Path, typer.Argument(help="the folder or record.json of another run")],
) -> None:
    """Put two runs side by side: accuracies, memory, seconds, and every setting that differs.

    Runs on different terms (stream, classes, images, budget, epochs) are refused, with what differs.

    Examples:

      samc compare runs/demo/gem runs/demo/samc-default-preset
    """
    draw(*pair_tables(RunRecord.load(first), RunRecord.load(second)))
