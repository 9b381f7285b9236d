"""Runs that have just ended, for the terminal: one row each, and the mean over their seeds."""

from collections.abc import Mapping, Sequence

from samc.record import RunRecord
from samc.report.measures import extra_bytes, images, memory_bytes, percent, total_seconds
from samc.report.numbers import format_mean
from samc.report.spread import Spread
from samc.report.tables import Column, Table, TableRow

COLUMNS = (
    Column("ACC %", "acc", digits=1),
    Column("BWT", "bwt", digits=1, sign="+"),
    Column("FWT", "fwt", digits=1, sign="+"),
    Column("bytes of memory", "memory_bytes"),
    Column("images"),
    Column("extra bytes", "extra_bytes"),
    Column("seconds", digits=1),
)


def summary_table(records: Mapping[str, RunRecord], title: str, differing: str = "method") -> Table:
    """One row per run, named by what the runs differ in: accuracies in percent, transfers in points."""
    rows = [
        TableRow(
            {
                "name": name,
                **{measure: percent(measure)(record) for measure in ("acc", "bwt", "fwt")},
                "memory_bytes": memory_bytes(record),
                "images": images(record),
                "extra_bytes": extra_bytes(record),
                "seconds": total_seconds(record),
            }
        )
        for name, record in records.items()
    ]
    return Table(title, (Column(differing, "name", align="left", wraps=True), *COLUMNS), rows)


def mean_over_seeds(records: Sequence[RunRecord]) -> str:
    """A sentence with the mean ACC and BWT of a method's runs."""
    acc, bwt = (Spread(tuple(percent(name)(record) for record in records)) for name in ("acc", "bwt"))
    means = f"ACC {format_mean(acc.mean, acc.sd)} %, BWT {format_mean(bwt.mean, bwt.sd, sign='+')}"
    return f"mean ± standard deviation over seeds: {means}"
