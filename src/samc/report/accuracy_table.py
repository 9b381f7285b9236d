"""Tables 1 and 2 and the one at equal bytes: ACC and BWT over seeds, the paper's next to them, and the memory used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from samc.experiments.items import BEST
from samc.experiments.specification import Item
from samc.report.measures import extra_bytes, images_per_task, memory_bytes, percent
from samc.report.numbers import DASH, format_number, format_p
from samc.report.paper import RUNS, published
from samc.report.runs import Results, Runs, by_stream, format_seeds
from samc.report.spread import Spread
from samc.report.student import moments, welch_p, welch_p_of_moments
from samc.report.tables import Column, Table, TableRow, Values


@dataclass(frozen=True)
class Compared:
    """A measure of a record, the paper's name for it, the ends of its scale, and whether it shows a plus."""

    name: str
    paper: str
    scale: tuple[float, float]
    sign: str = ""

    @property
    def group(self) -> str:
        return self.paper.upper()


ACC = Compared("acc", "acc", (0.0, 100.0))
BWT = Compared("bwt", "bwt", (-100.0, 100.0), "+")
BWT_BY_T = replace(BWT, name="bwt_by_t")
# divided as the paper's code divides: only this one stands beside the paper's

AIA = Compared("average_incremental_accuracy", "aia", (0.0, 100.0))

OVER_SEEDS = (
    "ACC in %, BWT in points: mean ± standard deviation over seeds, and Student's 95 % interval of the mean where "
    "there are three seeds or more. The highest mean ACC in bold, whatever its p."
)
SO_FAR = "AIA: average incremental accuracy in %, the mean over tasks of the accuracy over all tasks so far."
BESIDE_THE_PAPER = (
    "Paper: mean ± standard deviation over its five runs. p: Welch's two-sided test of our mean against the paper's "
    "where there are three seeds or more, not corrected for the number of rows. BWT is divided by the number of tasks "
    "T here, ours (`bwt_by_t` of a record) as the paper's; in tables without the paper's it is divided by T − 1."
)
MIXED = (
    "Not all rows count their memory alike, as in the paper: in `values` a budget is for colours only, and positions "
    "and labels come on top; in `bytes` it is for everything. The bytes shown are true ones throughout."
)


def measure_columns(measure: Compared, beside_paper: bool) -> tuple[Column, ...]:
    """Of one measure: ours, the paper's where it has any, and how far apart they are."""
    name, group, sign = measure.name, measure.group, measure.sign
    ours = (
        Column("ours" if beside_paper else "mean", f"{name}_mean", group, digits=2, sign=sign, sd=f"{name}_sd"),
        Column("95 % interval", interval_text(name, sign), group),
    )
    if not beside_paper:
        return ours
    paper = f"paper_{measure.paper}"
    return (
        *ours,
        Column("paper", f"{paper}_mean", group, digits=2, sign=sign, sd=f"{paper}_sd"),
        Column("difference", f"{name}_difference", group, digits=2, sign="+"),
        Column("p", lambda values: format_p(values[f"{name}_p"]), group),
    )


def interval_text(name: str, sign: str) -> Callable[[Values], str]:
    def text(values: Values) -> str:
        low, high = (values[f"{name}_interval_{end}"] for end in ("low", "high"))
        return DASH if low is None else f"{format_number(low, 2, sign)} to {format_number(high, 2, sign)}"

    return text


def columns(measures: Sequence[Compared], beside_paper: bool) -> tuple[Column, ...]:
    return (
        Column("method", align="left"),
        Column("seeds", format_seeds),
        *(column for measure in measures for column in measure_columns(measure, beside_paper)),
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
        best = next((runs for runs in all_runs if runs.variant == BEST), None)
        tables.append(tested_against(best, BEST.label, accuracy_table(item, stream, all_runs), all_runs))
    return tables


def tested_against(best: Runs | None, label: str, table: Table, all_runs: Sequence[Runs]) -> Table:
    """A table with one more column: how sure it is that a row's ACC is another than the best's."""
    rows = [
        replace(row, values={**row.values, "p_against_best": p_against(best, runs)})
        for row, runs in zip(table.rows, all_runs, strict=True)
    ]
    column = Column(f"p against {label}", lambda values: format_p(values["p_against_best"]))
    note = (
        f"p against {label}: Welch's two-sided test on ACC, where both rows have three seeds or more, not corrected "
        "for the number of rows."
    )
    return replace(table, columns=(*table.columns, column), rows=rows, notes=(*table.notes, note))


def p_against(best: Runs | None, runs: Runs) -> float | None:
    ours, theirs = (other and other.over_seeds(percent("acc")) for other in (best, runs))
    if not ours or not theirs or best is runs or not (ours.testable and theirs.testable):
        return None
    return welch_p(ours.values, theirs.values)


def accuracy_table(item: Item, stream: str, all_runs: Sequence[Runs], more: Sequence[Compared] = ()) -> Table:
    """The paper's columns are there if it has the item on this stream; `more` are measures besides ACC and BWT."""
    paper = published(item.name, stream)
    measures = (ACC, BWT_BY_T if paper else BWT, *more)
    values = [row_values(stream, runs, measures, paper) for runs in all_runs]
    best = max((row["acc_mean"] for row in values if row["acc_mean"] is not None), default=None)
    rows = [
        TableRow(row, frozenset({"acc_mean"}) if best is not None and row["acc_mean"] == best else frozenset())
        for row in values
    ]
    accountings = {runs.accounting for runs in all_runs if runs.records}
    notes = {OVER_SEEDS: True, SO_FAR: AIA in more, BESIDE_THE_PAPER: bool(paper), MIXED: len(accountings) > 1}
    shown = [note for note, applies in notes.items() if applies]
    return Table(f"{item.name}, {stream}", columns(measures, bool(paper)), rows, shown)


def row_values(stream: str, runs: Runs, measures: Sequence[Compared], paper: dict[Any, Any]) -> dict[str, Any]:
    compared: dict[str, Any] = {}
    for measure in measures:
        ours = runs.over_seeds(percent(measure.name))
        compared |= our_values(measure, ours)
        compared |= compare_with_paper(measure, ours, paper.get(runs.variant.paper, {})) if paper else {}
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


def our_values(measure: Compared, ours: Spread | None) -> dict[str, Any]:
    low, high = clip_to_scale(measure, ours.interval) if ours and ours.interval else (None, None)
    return {
        f"{measure.name}_mean": ours.mean if ours else None,
        f"{measure.name}_sd": ours.sd if ours else None,
        f"{measure.name}_interval_low": low,
        f"{measure.name}_interval_high": high,
    }


def compare_with_paper(measure: Compared, ours: Spread | None, paper: dict[str, float]) -> dict[str, Any]:
    """The paper's values of a measure, and how far ours are from them."""
    theirs, their_sd = paper.get(measure.paper), paper.get(f"{measure.paper}_sd")
    values = {f"paper_{measure.paper}_mean": theirs, f"paper_{measure.paper}_sd": their_sd}
    if ours is None or theirs is None:
        return values | {f"{measure.name}_difference": None, f"{measure.name}_p": None}
    difference, p = ours.mean - theirs, p_against_paper(ours, theirs, their_sd)
    return values | {f"{measure.name}_difference": difference, f"{measure.name}_p": p}


def p_against_paper(ours: Spread, mean: float, sd: float | None) -> float | None:
    """None where the paper gives no deviation, and of too few seeds."""
    return welch_p_of_moments(moments(ours.values), (mean, sd, RUNS)) if sd is not None and ours.testable else None


def clip_to_scale(measure: Compared, interval: tuple[float, float]) -> tuple[float, float]:
    """Few seeds can give an interval beyond what a measure can be; its part on the scale covers the mean as often."""
    least, most = measure.scale
    return max(interval[0], least), min(interval[1], most)
