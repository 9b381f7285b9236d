"""The page's other panels: the accuracy matrix, the tasks, where bytes and time went, the claims, how to run again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from samc.errors import printable
from samc.record import RunRecord
from samc.report.claims_table import COLUMNS, NOTES, over_all
from samc.report.measures import memory_bytes, total_seconds
from samc.report.numbers import format_number
from samc.report.page.again import command
from samc.report.page.charts import MOST_CURVES, Chart, Share, share_chart
from samc.report.page.groups import Group, Method
from samc.report.tables import Column, Table, TableRow

OTHER = "everything else"
LEAST_SHARE = 0.005
# of a run's seconds, that a phase needs for a colour of its own
HEAT_LEVELS = 20


def matrices(group: Group) -> list[dict[str, Any]]:
    """Each method's accuracies in percent, mean over its seeds."""
    return [{"name": method.name, "rows": tenths(method.matrices.mean(0))} for method in group.methods]


def tenths(rows: Float[np.ndarray, "rows tasks"]) -> list[list[float | None]]:
    """Percentages to a tenth; None where there is none."""
    return [[None if np.isnan(value) else round(value, 1) for value in row] for row in rows.tolist()]


def whole(value: float) -> int:
    """The nearest whole number, of two the larger: what the page's script makes of a percentage too."""
    return math.floor(value + 0.5)


def heat(value: float) -> int:
    """The shade of a percentage."""
    return whole(value / 100 * HEAT_LEVELS)


def tasks_table(group: Group) -> Table:
    counts = {name: group.record.fingerprint.get(name) for name in ("training_images", "test_images")}
    rows = []
    for task in range(len(group.classes)):
        images = {name: values[task] if isinstance(values, list) and task < len(values) else None
                  for name, values in counts.items()}  # fmt: skip
        rows.append(TableRow({"task": str(task + 1), "classes": ", ".join(group.task_names(task)), **images}))
    columns = (
        Column("task"),
        Column("classes", align="left"),
        Column("training images", "training_images"),
        Column("test images", "test_images"),
    )
    return Table("", columns, rows)


def bytes_charts(group: Group) -> list[Chart]:
    """What the memory consists of; and, apart, what a method keeps besides, which may be far more."""
    memory, extra = [], []
    for method in group.methods[:MOST_CURVES]:
        parts, beside = split_parts(method.first)
        memory += [Share(f"{method.name}", parts)] if parts else []
        extra += [Share(f"{method.name}", beside)] if beside else []
    charts = []
    if memory:
        caption = (
            f"The memory under the budget, by what its bytes are for, at the end of the first seed. {in_all(memory)}"
        )
        charts.append(share_chart(f"memory-{group.number}", "Bytes of memory", caption, memory, "bytes"))
    if extra:
        caption = f"What a method keeps besides its budget: old networks, averages, decoders. {in_all(extra)}"
        charts.append(share_chart(f"extra-{group.number}", "Extra bytes", caption, extra, "bytes"))
    return charts


def split_parts(record: RunRecord) -> tuple[dict[str, float], dict[str, float]]:
    """The parts under the budget and those besides. A record says their sums: the last parts are the extra ones."""
    memory: dict[str, float] = {}
    extra: dict[str, float] = {}
    left = memory_bytes(record)
    for name, size in record.memory["bytes_by_part"].items():
        if size and left >= size:
            memory[printable(name)], left = float(size), left - size
        elif size:
            extra[printable(name)] = float(size)
    return memory, extra


def time_chart(group: Group) -> Chart:
    bars = [Share(method.name, phases(method)) for method in group.methods[:MOST_CURVES]]
    order = sorted(
        dict.fromkeys(name for bar in bars for name in bar.amounts),
        key=lambda n: (n == OTHER, -sum(b.amounts.get(n, 0) for b in bars)),
    )
    caption = f"Seconds by phase, mean over seeds. {in_all(bars, ' s', digits=1)}"
    return share_chart(f"time-{group.number}", "Time", caption, bars, "s", digits=1, parts=order)


def in_all(bars: Sequence[Share], unit: str = "", digits: int = 0) -> str:
    """What a bar of shares does not show: how much there is to share."""
    totals = (f"{bar.name} {format_number(sum(bar.amounts.values()), digits)}{unit}" for bar in bars)
    return f"In all: {', '.join(totals)}."


def phases(method: Method) -> dict[str, float]:
    """Mean seconds over seeds; what is small, and what no phase counts, is everything else."""
    total = method.over_seeds(total_seconds).mean
    names = dict.fromkeys(name for record in method.records for name in record.seconds if name != "total")
    means = {name: float(np.mean([record.seconds.get(name, 0.0) for record in method.records])) for name in names}
    shown = {printable(name): value for name, value in means.items() if value >= LEAST_SHARE * total}
    rest = max(0.0, total - sum(shown.values()))
    return shown | ({OTHER: rest} if rest >= 0.05 else {})


def theory_table(record: RunRecord) -> Table | None:
    """What a diagnosed run measured of the paper's claims, by task and over all; None where nobody asked."""
    if record.diagnosis is None:
        return None
    try:
        rows = [{**claims, "task": str(claims["task"] + 1)} for claims in record.diagnosis["tasks"]]
        rows.append({"task": "all", **over_all(record.diagnosis)})
        table = Table("", [column for column in COLUMNS if column.heading != "seed"], list(map(TableRow, rows)), NOTES)
        table.cells()
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError):
        return Table("", (), (), ("What the run measured cannot be read; run it again with --diagnose.",))
    return table


@dataclass(frozen=True)
class Origin:
    """Where a method's figures come from: how to make its runs again, their settings and terms, and the machine."""

    name: str
    commands: list[str]
    settings: list[tuple[str, str]]
    terms: list[tuple[str, str]]
    machine: list[tuple[str, str]]
    notes: list[str]


def origin(method: Method) -> Origin:
    first = method.first
    commands = [text for record in method.records if (text := command(record))]
    notes = dict.fromkeys(note for record in method.records for note in record.notes or ())
    return Origin(
        method.name,
        list(map(printable, commands)),
        facts({name: value for name, value in first.config.items() if name != "seed"} | {"seeds": method.seeds}),
        facts(first.fingerprint),
        facts({**first.device, "name": first.machine, **first.versions}),
        [printable(str(note)) for note in notes],
    )


def facts(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values in words; what is None was not set."""
    return [(printable(str(name)), printable(str(value))) for name, value in values.items() if value is not None]
