"""Records as a table for the terminal."""

from collections.abc import Mapping

from rich.table import Table

from samc.record import RunRecord

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
            f"{100 * record.acc:.1f}",
            f"{100 * record.bwt:+.1f}",
            f"{100 * record.fwt:+.1f}",
            f"{record.memory['memory_bytes']:,}",
            str(sum(record.memory["images_per_task"])),
            f"{record.memory['bytes'] - record.memory['memory_bytes']:,}",
            f"{record.seconds['total']:.1f}",
        )
    return table
