"""How many images go into the room of ten, by threshold, next to the numbers of the paper's appendix."""

from typing import Any

from samc.experiments.specification import Item
from samc.report.measures import images_per_task
from samc.report.paper import published
from samc.report.runs import Results, Runs, by_stream, format_seeds
from samc.report.tables import Column, Table, TableRow

COLUMNS = (
    Column("threshold μ", lambda values: f"{values['threshold']:g}", align="left"),
    Column("seeds", format_seeds),
    Column("images per task", "images_per_task_mean", digits=1, sd="images_per_task_sd"),
    Column("paper", "paper_images_per_task", digits=1),
    Column("difference %", "difference_percent", digits=1, sign="+"),
)
NOTE = (
    "Images in a task's memory at the end of the run, mean over tasks; then mean ± standard deviation over seeds. "
    "Counted as the paper does: colours of kept pixels against those of ten whole images."
)


def stored_tables(item: Item, results: Results) -> list[Table]:
    """One table per stream, thresholds ascending."""
    tables = []
    for stream, all_runs in by_stream(results, axis=()).items():
        ascending = sorted(all_runs, key=lambda runs: runs.variant.at or 0)
        paper = published(item.name, stream)
        rows = [TableRow(row_values(stream, runs, paper.get(runs.variant.at))) for runs in ascending]
        tables.append(Table(f"{item.name}, {stream}", COLUMNS, rows, (NOTE,)))
    return tables


def row_values(stream: str, runs: Runs, paper: float | int | None) -> dict[str, Any]:
    mean, sd = runs.mean_and_sd(images_per_task)
    return {
        "stream": stream,
        "threshold": runs.variant.at,
        **runs.counts,
        "images_per_task_mean": mean,
        "images_per_task_sd": sd,
        "paper_images_per_task": paper,
        "difference_percent": 100 * (mean / paper - 1) if mean is not None and paper else None,
    }
