"""`samc models`, `samc report`, `samc results`, `samc compare`: what there is to run, and what has been run."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from samc.cli.drawing import draw
from samc.cli.seeds import parse
from samc.errors import OutputError
from samc.experiments.shelf import Shelf
from samc.learners import LEARNERS, described
from samc.record import RunRecord
from samc.report.compare import compare as compared
from samc.report.comparison import HEADER, find, markdown, tables
from samc.report.results_page import write

NARROW: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0), "show_edge": False}
WRAPPED = ("method", "seeds", "ACC %", "BWT")
# in 80 columns settings and deviations go onto more lines; a number cut short would be another number


def models() -> None:
    """List every method, one line each.

    Examples:

      samc models

      samc run --model icarl --regularization 0.5
    """
    width = max(map(len, LEARNERS))
    for name in LEARNERS:
        print(f"{name:{width}}  {described(name)}")


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
    for title, rows in tables(find(folder)).items():
        if as_markdown:
            print(f"{title}\n\n{markdown(rows)}\n")
            continue
        table = Table(title=title, title_justify="left", title_style="bold", **NARROW)
        for name in HEADER:
            table.add_column(
                name if name in WRAPPED else name.replace(" ", "\n"),
                justify="left" if name == "method" else "right",
                no_wrap=name not in WRAPPED,
                overflow="fold",
                min_width=max(map(len, LEARNERS)) if name == "method" else None,
            )
        for row in rows:
            table.add_row(*row.cells())
        draw(table)


def results(
    folder: Annotated[Path, typer.Argument(help="where `samc reproduce` has put its runs")],
    page: Annotated[Path, typer.Option(help="the page to write")] = Path("docs/results.md"),
    quick: Annotated[bool, typer.Option("--quick", help="of quick runs")] = False,
    seeds: Annotated[str | None, typer.Option(help="those that were asked for, such as 0-9  [default: 0-4]")] = None,
) -> None:
    """Write one page with every table and figure that there are runs for, and what has not been run yet.

    Examples:

      samc results results/paper --page docs/results.md

      samc results runs/reproduce --quick --page runs/reproduce/README.md

      samc results runs/reproduce --seeds 0-9 --page runs/reproduce/README.md
    """
    if page.is_dir():
        raise OutputError(f"--page is the file to write, and {page} is a folder; give a name such as docs/results.md")
    for path in write(Shelf(folder), page, quick=quick, seeds=None if seeds is None else parse(seeds)):
        print(path)


def compare(
    first: Annotated[Path, typer.Argument(help="a run's folder, or its record.json")],
    second: Annotated[Path, typer.Argument(help="another one's")],
) -> None:
    """Put two runs side by side: figures, memory, seconds, and every setting that differs.

    Runs on different terms (stream, classes, images, budget, epochs) are refused, with what differs.

    Examples:

      samc compare runs/demo/gem runs/demo/samc
    """
    print(compared(RunRecord.load(first), RunRecord.load(second)))
