"""Tables 1 and 2 and the one at equal bytes: ACC and BWT over seeds beside the paper's, and what memory they took."""

from collections.abc import Sequence
from typing import Any

from samc.experiments.items import Item
from samc.report.paper import published
from samc.report.runs import Found, Runs, by_stream, bytes_beside, images_a_task, memory_bytes, percent
from samc.report.sheet import NOTHING, Column, Row, Section, number, with_deviation
from samc.report.spread import Spread

FIGURES = ("acc", "bwt")
COLUMNS = (
    Column("method"),
    Column("seeds"),
    *(
        Column(name, figure.upper())
        for figure in FIGURES
        for name in ("ours", "95 % interval", "paper", "difference", "within 2 sd")
    ),
    *(Column(name, "memory") for name in ("images a task", "counted in", "bytes", "bytes beside")),
)
SCALES = {"acc": (0.0, 100.0), "bwt": (-100.0, 100.0)}
ACC_PLACE = 2
# the column in which the best is bold

UNITS = (
    "ACC in %, BWT in points: mean ± standard deviation over seeds, and Student's 95 % interval of the mean. Paper: "
    "mean ± standard deviation over its five runs; within 2 sd: whether our mean lies in the paper's mean ± 2 "
    "standard deviations. Best ACC in bold."
)
MIXED = (
    "Not all rows count their memory alike, as in the paper: in `values` a budget is for colours only, and positions "
    "and labels come on top; in `bytes` it is for everything. The bytes shown are true ones throughout."
)


def sections(item: Item, found: Found) -> list[Section]:
    """One table a stream."""
    return [section(item, stream, rows) for stream, rows in by_stream(found).items()]


def section(item: Item, stream: str, runs: Sequence[Runs]) -> Section:
    figures = published(item.name, stream)
    means = [each.mean(percent("acc")) for each in runs]
    best = max((mean for mean in means if mean is not None), default=None)
    rows = [
        row(stream, each, figures.get(each.variant.paper, {}), best is not None and mean == best)
        for each, mean in zip(runs, means, strict=True)
    ]
    counted = {each.first.fingerprint["accounting"] for each in runs if each.records}
    return Section(f"{item.name}, {stream}", COLUMNS, rows, (UNITS, *((MIXED,) if len(counted) > 1 else ())))


def row(stream: str, runs: Runs, paper: dict[str, float], best: bool) -> Row:
    shown = [runs.variant.label, runs.seeds]
    raw: dict[str, Any] = {
        "stream": stream,
        "method": runs.variant.label,
        "seeds": len(runs.records),
        "seeds_asked": runs.asked,
    }
    for figure in FIGURES:
        texts, values = beside(figure, runs.over_seeds(percent(figure)), paper)
        shown += texts
        raw |= values
    counted = runs.first.fingerprint["accounting"] if runs.records else None
    memory = {
        "images_per_task": runs.mean(images_a_task),
        "accounting": counted,
        "memory_bytes": runs.mean(memory_bytes),
        "bytes_beside": runs.mean(bytes_beside),
    }
    shown += [
        number(memory["images_per_task"], 1),
        counted or NOTHING,
        number(memory["memory_bytes"]),
        number(memory["bytes_beside"]),
    ]
    return Row(shown, raw | memory, frozenset({ACC_PLACE}) if best else frozenset())


def within_scale(figure: str, interval: tuple[float, float]) -> tuple[float, float]:
    """Two seeds can give an interval beyond what the figure can be; its part on the scale covers the mean as often."""
    least, most = SCALES[figure]
    return max(interval[0], least), min(interval[1], most)


def beside(figure: str, ours: Spread | None, paper: dict[str, float]) -> tuple[list[str], dict[str, Any]]:
    """Our figure beside the paper's, shown and raw."""
    sign = "+" if figure == "bwt" else ""
    theirs, their_sd = paper.get(figure), paper.get(f"{figure}_sd")
    low, high = within_scale(figure, ours.interval) if ours and ours.interval else (None, None)
    difference = ours.mean - theirs if ours and theirs is not None else None
    near = None if difference is None or their_sd is None else abs(difference) <= 2 * their_sd
    shown = [
        with_deviation(ours.mean if ours else None, ours.sd if ours else None, 2, sign),
        NOTHING if low is None else f"{number(low, 2, sign)} to {number(high, 2, sign)}",
        with_deviation(theirs, their_sd, 2, sign),
        number(difference, 2, "+"),
        NOTHING if near is None else "yes" if near else "no",
    ]
    raw = {
        f"{figure}_mean": ours.mean if ours else None,
        f"{figure}_sd": ours.sd if ours else None,
        f"{figure}_interval_low": low,
        f"{figure}_interval_high": high,
        f"paper_{figure}_mean": theirs,
        f"paper_{figure}_sd": their_sd,
        f"{figure}_difference": difference,
        f"{figure}_within_two_sd": near,
    }
    return shown, raw
