"""The verdict of a group of runs: what they reached, in how many bytes and seconds, and what the paper says."""

from typing import Any

from samc.report.accuracy_table import ACC, BWT, BWT_BY_T, Compared, compare_with_paper, interval_text, our_values
from samc.report.measures import extra_bytes, images, memory_bytes, percent, total_seconds
from samc.report.numbers import format_mean, format_number, format_p
from samc.report.page.frontier import paper_rows
from samc.report.page.groups import Group, Method, acc
from samc.report.spread import LEAST_SEEDS, Spread
from samc.report.student import CONFIDENCE, welch_p
from samc.report.tables import Column, Table, TableRow

NOTE = "ACC in %, BWT in points: mean ± standard deviation over seeds"
INTERVAL = f", and Student's 95 % interval of the mean where there are {LEAST_SEEDS} seeds or more"
BESIDE_PAPER = (
    "Paper: mean ± standard deviation over its five runs, with ten raw images' bytes per task; BWT is divided by the "
    "number of tasks, as there. p: Welch's two-sided test of our ACC against the paper's, of three seeds or more."
)
FIGURES = {
    "ACC": "mean accuracy over all tasks at the end",
    "BWT": "what later tasks did to earlier ones, in points",
    "bytes": "that the memory takes, all of it",
    "images": "remembered at the end",
    "seconds": "from the first step to the last test",
}


def figures(method: Method) -> list[tuple[str, str, str]]:
    """The five numbers of one method: a name, a value and what it means."""
    values = {
        "ACC": format_mean(acc(method).mean, acc(method).sd) + " %",
        "BWT": format_mean(*mean_and_sd(method, "bwt"), sign="+"),
        "bytes": f"{memory_bytes(method.first):,}",
        "images": f"{images(method.first):,}",
        "seconds": format_number(method.over_seeds(total_seconds).mean, 1),
    }
    return [(name, values[name], meaning) for name, meaning in FIGURES.items()]


def mean_and_sd(method: Method, name: str) -> tuple[float, float | None]:
    spread = method.over_seeds(percent(name))
    return spread.mean, spread.sd


def sentence(group: Group) -> str:
    """Who has the highest mean, and whether that sets it apart from the next."""
    best = group.methods[0]
    seeds = len(best.records)
    over = f" over {seeds} seeds" if seeds > 1 else ""
    reached = f"{best.name} reaches {format_mean(acc(best).mean, acc(best).sd)} %{over}"
    kept = f" with {memory_bytes(best.first):,} bytes of memory" if memory_bytes(best.first) else " without a memory"
    if len(group.methods) == 1:
        return f"{reached}{kept}."
    return f"{reached}{kept}, {beside(acc(best), acc(group.methods[1]), group.methods[1].name)}."


def beside(best: Spread, second: Spread, name: str) -> str:
    """How far one mean is from the next, in words that a test carries."""
    gap = f"{best.mean - second.mean:.1f} points"
    p = welch_p(best.values, second.values) if best.testable and second.testable else None
    if p is None:
        return f"{gap} above {name}, which so few seeds cannot tell from chance"
    test = f"Welch's p {format_p(p)}"
    return f"{gap} above {name} ({test})" if p < 1 - CONFIDENCE else f"level with {name} ({gap}, {test})"


def verdict_table(group: Group) -> Table:
    paper = paper_rows(group)
    measures = (ACC, BWT_BY_T if paper else BWT)
    rows = [TableRow(row_values(method, measures, paper)) for method in group.methods]
    notes = [NOTE + INTERVAL + ".", *([BESIDE_PAPER] if paper else [])]
    return Table("", columns(measures, bool(paper)), rows, notes)


def columns(measures: tuple[Compared, Compared], paper: bool) -> list[Column]:
    shown = [Column("method", align="left"), Column("seeds")]
    for measure in measures:
        name, group, sign = measure.name, measure.group, measure.sign
        shown.append(Column("mean", f"{name}_mean", group, digits=1, sign=sign, sd=f"{name}_sd"))
        if measure is ACC:
            shown.append(Column("95 % interval", interval_text(name, sign), group))
        if paper:
            theirs = f"paper_{measure.paper}"
            shown.append(Column("paper", f"{theirs}_mean", group, digits=1, sign=sign, sd=f"{theirs}_sd"))
        if paper and measure is ACC:
            shown.append(Column("p", lambda values: format_p(values["acc_p"]), group))
    return [
        *shown,
        Column("images", "images", "memory"),
        Column("bytes", "memory_bytes", "memory"),
        Column("extra bytes", "extra_bytes", "memory"),
        Column("seconds", "seconds", digits=1),
    ]


def row_values(method: Method, measures: tuple[Compared, Compared], paper: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {"method": method.name, "seeds": method.seeds, "colour": method.colour}
    for measure in measures:
        ours = method.over_seeds(percent(measure.name))
        values |= our_values(measure, ours)
        if paper:
            values |= compare_with_paper(measure, ours, paper.get(method.first.config["model"], {}))
    first = method.first
    return values | {
        "images": images(first),
        "memory_bytes": memory_bytes(first),
        "extra_bytes": extra_bytes(first),
        "seconds": method.over_seeds(total_seconds).mean,
    }
