"""Records as a table for the terminal."""

from collections.abc import Mapping

from rich.table import Table

from samc.record import RunRecord
from samc.report.runs import bytes_beside, memory_bytes
from samc.report.sheet import number

COLUMNS = ("ACC %", "BWT", "FWT", "bytes of memory", "images", "bytes beside", "seconds")


def summary(records: Mapping[str, RunRecord], title: str, differing: str = "method") -> Table:
    """One row a run, by what the runs differ in: accuracies in percent, transfers in points.

    Beside memory stands what else is kept.
    """
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(differing)
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for name, record in records.items():
        table.add_row(
            name,
            number(100 * record.acc, 1),
            number(100 * record.bwt, 1, "+"),
            number(100 * record.fwt, 1, "+"),
            number(memory_bytes(record)),
            number(sum(record.memory["images_per_task"])),
            number(bytes_beside(record)),
            number(record.seconds["total"], 1),
        )
    return table
