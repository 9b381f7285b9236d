"""`samc report`, `samc results`, `samc compare`: what there is to run, and what has been run."""

from pathlib import Path
from typing import Annotated

import typer

from samc.cli.drawing import draw, say
from samc.cli.seeds import parse_seeds
from samc.errors import OutputError
from samc.experiments.record_store import RecordStore
from samc.record import RunRecord
from samc.report.comparison import comparison_tables, load_records
from samc.report.pair import pair_tables
from samc.report.results_page import write_results
from samc.report.tables import markdown_grid


def report(
    folder: Annotated[Path, typer.Argument(help="where the runs are; all folders below it are searched")],
    as_markdown: Annotated[bool, typer.Option("--markdown", help="print Markdown instead of a drawn table")] = False,
) -> None:
    """Compare runs: a row for each method, mean and deviation over its seeds.

    Runs on different terms (stream, classes, images, budget, epochs) are never put into one table.

    Examples:

      samc report runs

      samc report results/split-synthetic --markdown
    """
    for table in comparison_tables(load_records(folder)):
        if as_markdown:
            print("\n\n".join([table.title, markdown_grid(table), *table.notes]) + "\n")
        else:
            draw(table)


def results(
    folder: Annotated[Path, typer.Argument(help="where `samc reproduce` has put its runs")],
    page: Annotated[Path, typer.Option(help="the page to write")] = Path("docs/results.md"),
    quick: Annotated[bool, typer.Option("--quick", help="show quick runs")] = False,
    seeds: Annotated[str | None, typer.Option(help="the seeds to show, such as 0-9  [default: 0-4]")] = None,
) -> None:
    """Write one page with every table and figure that there are runs for, and what has not been run yet.

    Examples:

      samc results results/paper --page docs/results.md

      samc results runs/reproduce --quick --page runs/reproduce/README.md

      samc results runs/reproduce --seeds 0-9 --page runs/reproduce/README.md
    """
    if page.is_dir():
        raise OutputError(f"--page is the file to write, and {page} is a folder; give a name such as docs/results.md")
    numbers = None if seeds is None else parse_seeds(seeds)
    for path in write_results(RecordStore(folder), page, quick=quick, seeds=numbers):
        say(str(path))


def compare(
    first: Annotated[Path, typer.Argument(help="a run's folder, or its record.json")],
    second: Annotated[Path, typer.Argument(help="the folder or record.json of another run")],
) -> None:
    """Put two runs side by side: accuracies, memory, seconds, and every setting that differs.

    Runs on different terms (stream, classes, images, budget, epochs) are refused, with what differs.

    Examples:

      samc compare runs/demo/gem runs/demo/samc
    """
    draw(*pair_tables(RunRecord.load(first), RunRecord.load(second)))
