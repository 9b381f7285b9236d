"""The points of a search, the best first, and how far each of the others is behind it, seed by seed."""

from collections.abc import Sequence

from samc.report.measures import percent
from samc.report.numbers import format_p
from samc.report.paired_table import row_values
from samc.report.runs import Results, Runs, by_stream, format_seeds
from samc.report.tables import Column, Table, TableRow

COLUMNS = (
    Column("point", "row", align="left", wraps=True),
    Column("seeds", format_seeds),
    Column("ACC", "acc_mean", digits=2, sd="acc_sd"),
    Column("from best", "difference_mean", digits=2, sign="+"),
    Column("p", lambda values: format_p(values["p"])),
    Column("seconds", "seconds_mean"),
)
NOTE = (
    "ACC in %: mean ± standard deviation over seeds, on a tenth of the training images that was held out: test images "
    "choose nothing. The best of several points owes a part of its lead to chance. Differences are between runs of the "
    "same seed; p: the paired two-sided t test, from three seeds on, not corrected for the number of points."
)


def ranked(results: Results) -> list[Runs]:
    """The points that have been run, the best first."""
    (all_runs,) = by_stream(results).values()
    return sorted((runs for runs in all_runs if runs.records), key=acc, reverse=True)


def acc(runs: Runs) -> float:
    mean = runs.mean(percent("acc"))
    assert mean is not None, "a point that has not been run has no accuracy"
    return mean


def search_table(title: str, points: Sequence[Runs]) -> Table:
    stream = points[0].first.fingerprint["stream"]
    best, *others = points
    rows = [row_values(stream, best, None), *(row_values(stream, runs, best) for runs in others)]
    return Table(title, COLUMNS, [TableRow(row) for row in rows], (NOTE,))
