"""Tables 1 and 2 and the one at equal bytes: ACC and BWT over seeds, the paper's next to them, and the memory used."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from samc.experiments.items import BEST
from samc.experiments.specification import Item
from samc.report.measures import extra_bytes, images_per_task, memory_bytes, percent
from samc.report.numbers import DASH, format_number, format_p
from samc.report.paper import published
from samc.report.runs import Results, Runs, by_stream, format_seeds
from samc.report.spread import Spread
from samc.report.student import welch_p
from samc.report.tables import Column, Table, TableRow, Values

SIGNS = {"acc": "", "bwt": "+"}
# the measures that are compared, and whether they show a plus
SCALES = {"acc": (0.0, 100.0), "bwt": (-100.0, 100.0)}

UNITS = (
    "ACC in %, BWT in points: mean ± standard deviation over seeds, and Student's 95 % interval of the mean. Paper: "
    "mean ± standard deviation over its five runs; within 2 sd: whether our mean lies in the paper's mean ± 2 "
    "standard deviations. Best ACC in bold."
)
MIXED = (
    "Not all rows count their memory alike, as in the paper: in `values` a budget is for colours only, and positions "
    "and labels come on top; in `bytes` it is for everything. The bytes shown are true ones throughout."
)


def measure_columns(name: str, sign: str) -> tuple[Column, ...]:
    """Of one measure: ours, the paper's, and how far apart they are."""
    group = name.upper()
    return (
        Column("ours", f"{name}_mean", group, digits=2, sign=sign, sd=f"{name}_sd"),
        Column("95 % interval", interval_text(name, sign), group),
        Column("paper", f"paper_{name}_mean", group, digits=2, sign=sign, sd=f"paper_{name}_sd"),
        Column("difference", f"{name}_difference", group, digits=2, sign="+"),
        Column("within 2 sd", f"{name}_within_two_sd", group),
    )


def interval_text(name: str, sign: str) -> Callable[[Values], str]:
    def text(values: Values) -> str:
        low, high = (values[f"{name}_interval_{end}"] for end in ("low", "high"))
        return DASH if low is None else f"{format_number(low, 2, sign)} to {format_number(high, 2, sign)}"

    return text


AGAINST_BEST = Column(f"p against {BEST.label}", lambda values: format_p(values["p_against_best"]))
WELCH = "p: Welch's two-sided test on ACC, not corrected for the number of rows."
COLUMNS = (
    Column("method", align="left"),
    Column("seeds", format_seeds),
    *(column for name, sign in SIGNS.items() for column in measure_columns(name, sign)),
    Column("images per task", "images_per_task", "memory", digits=1),
    Column("counted in", "accounting", "memory"),
    Column("bytes", "memory_bytes", "memory"),
    Column("extra bytes", "extra_bytes", "memory"),
)


def accuracy_tables(item: Item, results: Results) -> list[Table]:
    """One table per stream."""
    return [accuracy_table(item, stream, rows) for stream, rows in by_stream(results).items()]


def equal_bytes_tables(item: Item, results: Results) -> list[Table]:
    """The same, with each row's ACC tested against our default's."""
    tables = []
    for stream, all_runs in by_stream(results).items():
        table = accuracy_table(item, stream, all_runs)
        best = next((runs for runs in all_runs if runs.variant == BEST), None)
        rows = [
            replace(row, values={**row.values, "p_against_best": p_against(best, runs)})
            for row, runs in zip(table.rows, all_runs, strict=True)
        ]
        tables.append(replace(table, columns=(*COLUMNS, AGAINST_BEST), rows=rows, notes=(*table.notes, WELCH)))
    return tables


def p_against(best: Runs | None, runs: Runs) -> float | None:
    ours, theirs = (other and other.over_seeds(percent("acc")) for other in (best, runs))
    return welch_p(ours.values, theirs.values) if ours and theirs and best is not runs else None


def accuracy_table(item: Item, stream: str, all_runs: Sequence[Runs]) -> Table:
    paper = published(item.name, stream)
    values = [row_values(stream, runs, paper.get(runs.variant.paper, {})) for runs in all_runs]
    best = max((row["acc_mean"] for row in values if row["acc_mean"] is not None), default=None)
    rows = [
        TableRow(row, frozenset({"acc_mean"}) if best is not None and row["acc_mean"] == best else frozenset())
        for row in values
    ]
    accountings = {runs.accounting for runs in all_runs if runs.records}
    return Table(f"{item.name}, {stream}", COLUMNS, rows, (UNITS, MIXED) if len(accountings) > 1 else (UNITS,))


def row_values(stream: str, runs: Runs, paper: dict[str, float]) -> dict[str, Any]:
    compared: dict[str, Any] = {}
    for name in SIGNS:
        compared |= compare_with_paper(name, runs.over_seeds(percent(name)), paper)
    return {
        "stream": stream,
        "method": runs.variant.label,
        **runs.counts,
        **compared,
        "images_per_task": runs.mean(images_per_task),
        "accounting": runs.accounting,
        "memory_bytes": runs.mean(memory_bytes),
        "extra_bytes": runs.mean(extra_bytes),
    }


def compare_with_paper(name: str, ours: Spread | None, paper: dict[str, float]) -> dict[str, Any]:
    """Our values of a measure, the paper's, and how far apart they are."""
    theirs, their_sd = paper.get(name), paper.get(f"{name}_sd")
    low, high = clip_to_scale(name, ours.interval) if ours and ours.interval else (None, None)
    difference = ours.mean - theirs if ours and theirs is not None else None
    return {
        f"{name}_mean": ours.mean if ours else None,
        f"{name}_sd": ours.sd if ours else None,
        f"{name}_interval_low": low,
        f"{name}_interval_high": high,
        f"paper_{name}_mean": theirs,
        f"paper_{name}_sd": their_sd,
        f"{name}_difference": difference,
        f"{name}_within_two_sd": None if difference is None or their_sd is None else abs(difference) <= 2 * their_sd,
    }


def clip_to_scale(name: str, interval: tuple[float, float]) -> tuple[float, float]:
    """Two seeds can give an interval beyond what a measure can be; its part on the scale covers the mean as often."""
    least, most = SCALES[name]
    return max(interval[0], least), min(interval[1], most)
