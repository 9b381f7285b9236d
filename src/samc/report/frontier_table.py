"""ACC by bytes per task, as a table: a row for each line of the figure, a column for each budget."""

from collections.abc import Sequence
from typing import Any

from samc.experiments.specification import Item
from samc.report.measures import percent
from samc.report.numbers import format_mean
from samc.report.runs import BUDGET, Results, Runs, by_stream, format_seeds
from samc.report.tables import Column, Table, TableRow

NOTE = (
    "ACC in %: mean ± standard deviation over seeds; in brackets how many there are where some are missing. Bytes are "
    "the memory's, all of them; a network that a method keeps besides, such as the average, is not among them. A line "
    "begins at the first budget that holds an image; those with GEM's projection end at 100,000 bytes, beyond which a "
    "step costs too much."
)


def frontier_tables(item: Item, results: Results) -> list[Table]:
    """One table per stream."""
    return [frontier_table(item, stream, runs) for stream, runs in by_stream(results, axis=BUDGET).items()]


def frontier_table(item: Item, stream: str, all_runs: Sequence[Runs]) -> Table:
    budgets = sorted({runs.variant.at for runs in all_runs if runs.variant.at is not None})
    rows: dict[str, dict[str, Any]] = {}
    for runs in all_runs:
        row = rows.setdefault(runs.variant.line, {"stream": stream, "line": runs.variant.line})
        row[place(runs.variant.at)] = point_text(runs)
    columns = [Column("", "line", align="left"), *(Column(place(at)) for at in (*budgets, None))]
    return Table(f"{item.name}, {stream}", columns, [TableRow(row) for row in rows.values()], (NOTE,))


def place(at: float | None) -> str:
    return "no budget" if at is None else f"{at:,.0f} bytes"


def point_text(runs: Runs) -> str:
    if not runs.records:
        return "not run"
    text = format_mean(*runs.mean_and_sd(percent("acc")), digits=2)
    return f"{text} ({format_seeds(runs.counts)})" if runs.missing else text
