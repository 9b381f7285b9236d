"""Rows next to the row that each is compared with, seed by seed: parts, what a release does otherwise, saliency."""

from collections.abc import Sequence
from typing import Any

from samc.experiments.specification import Item
from samc.report.accuracy_table import interval_text
from samc.report.measures import images_per_task, percent, total_seconds
from samc.report.numbers import format_p
from samc.report.runs import BUDGET, Results, Runs, by_stream, format_seeds
from samc.report.spread import Spread, spread
from samc.report.student import paired_p
from samc.report.tables import Column, Table, TableRow

DIFFERENCE = (
    Column("pairs", group="difference"),
    Column("mean", "difference_mean", "difference", digits=2, sign="+"),
    Column("95 % interval", interval_text("difference", "+"), "difference"),
    Column("p", lambda values: format_p(values["p"]), "difference"),
)
PARTS = (
    Column("parts", "row", align="left"),
    Column("seeds", format_seeds),
    Column("ACC", "acc_mean", digits=2, sd="acc_sd"),
    Column("BWT", "bwt_mean", digits=2, sign="+", sd="bwt_sd"),
    Column("from", "against", "difference"),
    *DIFFERENCE,
    Column("seconds", "seconds_mean"),
)
RELEASED = (Column("method", "row", align="left"), *PARTS[1:])
SALIENCY = (
    Column("use of saliency", "row", align="left"),
    Column("bytes per task", "at"),
    Column("seeds", format_seeds),
    Column("ACC", "acc_mean", digits=2, sd="acc_sd"),
    Column("images per task", "images_per_task", digits=1),
    Column("ACC", "against_acc_mean", "plain JPEG", digits=2, sd="against_acc_sd"),
    Column("images per task", "against_images_per_task", "plain JPEG", digits=1),
    *DIFFERENCE,
)
NOTE = (
    "ACC in %, BWT in points: mean ± standard deviation over seeds. Differences are of ACC, between runs of the same "
    "seed: their mean, Student's 95 % interval of it, and p of the paired two-sided t test, from three pairs on, "
    "not corrected for the number of rows."
)


def parts_tables(item: Item, results: Results, columns: Sequence[Column] = PARTS) -> list[Table]:
    """A row for every variant."""
    return [
        Table(f"{item.name}, {stream}", columns, paired_rows(stream, all_runs), (NOTE,))
        for stream, all_runs in by_stream(results).items()
    ]


def released_tables(item: Item, results: Results) -> list[Table]:
    """The same, of methods."""
    return parts_tables(item, results, RELEASED)


def saliency_tables(item: Item, results: Results) -> list[Table]:
    """A row for every variant that is compared with another; what it is compared with stands in it."""
    return [
        Table(
            f"{item.name}, {stream}",
            SALIENCY,
            [row for row in paired_rows(stream, all_runs) if row.values["against"]],
            (NOTE,),
        )
        for stream, all_runs in by_stream(results, axis=BUDGET).items()
    ]


def paired_rows(stream: str, all_runs: Sequence[Runs]) -> list[TableRow]:
    known = {runs.variant.label: runs for runs in all_runs}
    return [TableRow(row_values(stream, runs, known.get(runs.variant.against or ""))) for runs in all_runs]


def row_values(stream: str, runs: Runs, against: Runs | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "stream": stream,
        "row": runs.variant.line or runs.variant.label,
        "at": runs.variant.at,
        **runs.counts,
        "images_per_task": runs.mean(images_per_task),
        "seconds_mean": runs.mean(total_seconds),
        "against": runs.variant.against,
        "against_images_per_task": against.mean(images_per_task) if against else None,
    }
    for name in ("acc", "bwt"):
        values[f"{name}_mean"], values[f"{name}_sd"] = runs.mean_and_sd(percent(name))
    acc_against = against.mean_and_sd(percent("acc")) if against else (None, None)
    values["against_acc_mean"], values["against_acc_sd"] = acc_against
    differences = paired_differences(runs, against) if against else None
    low, high = (differences and differences.interval) or (None, None)
    return values | {
        "pairs": len(differences.values) if differences else None,
        "difference_mean": differences.mean if differences else None,
        "difference_interval_low": low,
        "difference_interval_high": high,
        "p": paired_p(differences.values) if differences and differences.testable else None,
    }


def paired_differences(runs: Runs, against: Runs) -> Spread | None:
    """Of ACC in points, for the seeds that both have."""
    acc = percent("acc")
    both = [seed for seed in runs.records if seed in against.records]
    return spread([acc(runs.records[seed]) - acc(against.records[seed]) for seed in both])
