"""How runs went while they were learnt: the loss, the memory filling, and of one that goes on how far it has come."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samc.errors import DataError, printable
from samc.experiments.progress import format_duration
from samc.experiments.progress_log import FILE, Progress, read_progress
from samc.report.numbers import format_number
from samc.report.page.charts import MOST_CURVES, Chart, Curve, curve_chart, empty_figure
from samc.report.page.groups import STREAMS, Group, display_name
from samc.report.page.svg import GRID, colour, styled, to_svg

MOST_ROWS = 200
# of a table of values; the chart has all points


@dataclass(frozen=True)
class Line:
    """One run's line of a chart over its steps."""

    name: str
    colour: int
    steps: Sequence[int]
    values: Sequence[float]


def learning_charts(group: Group) -> list[Chart]:
    """Of the first seed of each method that has left its progress."""
    found = []
    for method in group.methods[:MOST_CURVES]:
        path = method.runs[0].folder / FILE
        try:
            progress = read_progress(path) if path.is_file() else None
        except DataError:
            continue  # it is of use for these charts only
        if progress is not None and progress.points:
            found.append((method.name, method.colour, progress))
    return charts_of(f"{group.number}", found) if found else []


def charts_of(number: str, runs: Sequence[tuple[str, int, Progress]]) -> list[Chart]:
    """Loss and memory over the steps; thin lines are the ends of tasks."""
    losses, sizes = [], []
    for name, tint, progress in runs:
        points = [progress.points[step] for step in sorted(progress.points)]
        known = [(point.step, point.loss) for point in points if point.loss is not None]
        losses.append(Line(name, tint, [step for step, _ in known], [loss for _, loss in known]))
        sizes.append(Line(name, tint, [point.step for point in points], [float(point.bytes) for point in points]))
    ends = np.cumsum(runs[0][2].steps).tolist()
    charts = []
    if any(line.steps for line in losses):
        caption = "Loss of single steps, replay included where a method replays; thin lines are the ends of tasks."
        charts.append(line_chart(f"loss-{number}", "Loss", caption, losses, ends, digits=3))
    if any(any(line.values) for line in sizes):
        caption = "Bytes that the memory counts against its budget."
        charts.append(line_chart(f"filling-{number}", "The memory filling", caption, sizes, ends, digits=0))
    return charts


def line_chart(name: str, title: str, caption: str, lines: Sequence[Line], ends: Sequence[int], digits: int) -> Chart:
    with styled():
        figure, axes = empty_figure()
        for end in ends[:-1]:
            axes.axvline(end, color=GRID, linewidth=0.7)
        for line in lines:
            alone = len(line.steps) == 1  # a line of one point is none
            axes.plot(line.steps, line.values, color=colour(line.colour), linewidth=1.4, marker="o" if alone else "")
        axes.set_xlabel("steps")
        axes.set_xlim(0, max(1, ends[-1]))
        axes.set_ylim(bottom=min(0.0, *(min(line.values, default=0.0) for line in lines)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        svg = to_svg(figure, name, f"{title}. {caption}", {})
    rows = [
        [line.name, f"{step:,}", format_number(value, digits)]
        for line in lines
        for step, value in zip(line.steps[-MOST_ROWS:], line.values[-MOST_ROWS:], strict=True)
    ]
    return Chart(title, caption, svg, ["method", "step", title.lower()], rows)


def progress_panel(number: int, name: str, progress: Progress) -> dict[str, Any]:
    """A run that goes on: where it is, what it knows so far, and how that came about."""
    matrix, tasks = progress.matrix, len(progress.classes)
    known_rows = {learnt: row for learnt, row in sorted(progress.rows.items()) if learnt}
    so_far = [100 * float(np.mean(row[:learnt])) for learnt, row in known_rows.items()]
    last = progress.points[max(progress.points)] if progress.points else None
    losses = [progress.points[step].loss for step in sorted(progress.points)]
    known = [loss for loss in losses if loss is not None]
    steps = progress.steps[progress.task] if progress.task < tasks else 0
    where = f"step {progress.step:,} of {steps:,}" if steps else "all steps done"
    charts = charts_of(f"live-{number}", [(name, 0, progress)])
    if so_far:
        curve = Curve(name, 0, np.array([so_far]))
        caption = "Mean test accuracy on all tasks learnt so far, after each task."
        charts.insert(0, curve_chart(f"so-far-{number}", "Accuracy so far", caption, [curve]))
    figures = [
        ("task", f"{min(progress.task + 1, tasks)} of {tasks}", where),
        ("ACC so far", f"{so_far[-1]:.1f} %" if so_far else "–", f"on {max(known_rows, default=0)} learnt"),
        ("loss", format_number(known[-1] if known else None, 3), "of the last step that was told"),
        ("images", f"{last.images:,}" if last else "–", "remembered"),
        ("bytes", f"{last.bytes:,}" if last else "–", "against the budget"),
        ("time", format_duration(max(0.0, progress.at - progress.began)), "since it began"),
    ]
    return {
        "number": number,
        "name": name,
        "figures": figures,
        "rows": [[round(100 * value, 1) for value in row] for row in matrix],
        "first": min(progress.rows, default=0),
        "tasks": [", ".join(printable(progress.class_name(label)) for label in task) for task in progress.classes],
        "charts": charts,
    }


def progress_name(progress: Progress) -> str:
    return f"{display_name(progress.model)} on {STREAMS.get(progress.stream, printable(progress.stream))}"
