"""The page's charts, drawn by matplotlib: accuracy over the stream, the first task, forgetting, shares of a whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from samc.report.accuracy_table import ACC, BWT, clip_to_scale
from samc.report.numbers import format_number
from samc.report.page.groups import Group, Method
from samc.report.page.svg import GROUND, INK, colour, styled, to_svg
from samc.report.spread import Spread

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
SHAPES = (
    "M6 1a5 5 0 1 0 .001 0z",
    "M1.5 1.5h9v9h-9z",
    "M6 1l5 9.5H1z",
    "M6 .5L11.5 6 6 11.5.5 6z",
    "M6 11L1 1.5h10z",
    "M4 1h4v3h3v4H8v3H4V8H1V4h3z",
    "M3 .5l3 3 3-3L11.5 3l-3 3 3 3L9 11.5l-3-3-3 3L.5 9l3-3-3-3z",
    "M1 6l9.5-5v10z",
    "M11 6L1.5 1v10z",
    "M6 .5l1.5 3.7 4 .3-3 2.6.9 3.9L6 8.9 2.6 11l.9-3.9-3-2.6 4-.3z",
)
# the same markers on a field of twelve by twelve, for the page's legends
MOST_CURVES = 10
# in one chart, the best of a group; its table has all
MOST_BANDS = 4
# more would lie over each other; the tables have every interval
SIZE = (6.4, 3.7)
# inches of 72 units, which a column of the page is about wide


@dataclass(frozen=True)
class Chart:
    """A drawing, what it shows in a sentence, and its values as a table: headings and rows."""

    title: str
    caption: str
    svg: Markup
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Curve:
    """A line of a chart: a value of every seed at each place."""

    name: str
    colour: int
    values: Float[np.ndarray, "seeds places"]


def curves_of(group: Group, values: Callable[[Method], np.ndarray]) -> list[Curve]:
    return [Curve(method.name, method.colour, values(method)) for method in group.methods[:MOST_CURVES]]


def accuracy_chart(group: Group) -> Chart:
    """After each task, the mean over the tasks learnt so far."""

    def so_far(method: Method) -> np.ndarray:
        tasks = method.matrices.shape[2]
        return np.stack([method.matrices[:, t, :t].mean(1) for t in range(1, tasks + 1)], 1)

    caption = "Mean test accuracy on all tasks learnt so far, after each task. Its last point is ACC."
    return curve_chart(f"accuracy-{group.number}", "Accuracy over the stream", caption, curves_of(group, so_far))


def first_task_chart(group: Group) -> Chart:
    caption = "Test accuracy on the first task while later tasks are learnt."
    curves = curves_of(group, lambda method: method.matrices[:, 1:, 0])
    return curve_chart(f"first-{group.number}", "The first task", caption, curves)


def forgetting_chart(group: Group) -> Chart:
    """Of each task but the last: its best accuracy once learnt less its last."""

    def forgotten(method: Method) -> np.ndarray:
        rows = method.matrices[:, 1:]
        last = rows.shape[1] - 1
        return np.stack([rows[:, task:, task].max(1) - rows[:, last, task] for task in range(max(1, last))], 1)

    caption = (
        "The best accuracy that a task ever had, less its last, in points: what was forgotten of it. 0 is nothing."
    )
    chart = f"forgetting-{group.number}"
    return curve_chart(chart, "Forgetting by task", caption, curves_of(group, forgotten), "task", "points")


def curve_chart(
    name: str, title: str, caption: str, curves: Sequence[Curve], across: str = "tasks learnt", unit: str = "%"
) -> Chart:
    """Means over seeds, with Student's 95 % interval as a band where there are seeds enough."""
    with styled():
        figure, axes = empty_figure()
        places, texts = np.arange(1, curves[0].values.shape[1] + 1), {}
        for number, curve in reversed(list(enumerate(curves))):  # the best lies above the others
            spreads = [Spread(tuple(column)) for column in curve.values.T.tolist()]
            if len(curves) <= MOST_BANDS:
                draw_band(axes, curve, spreads, places)
            texts[f"points-{number}"] = draw_curve(axes, number, curve, spreads, places, (across, unit))
        axes.set_xlabel(across)
        axes.set_ylabel("accuracy, %" if unit == "%" else unit)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
        axes.set_xlim(places[0] - 0.03 * len(places) - 0.05, places[-1] + 0.03 * len(places) + 0.05)
        svg = to_svg(figure, name, f"{title}. {caption}", texts)
    rows = [[curve.name, *(format_number(mean, 1) for mean in curve.values.mean(0))] for curve in curves]
    return Chart(title, caption, svg, ["method", *map(str, places)], rows)


def draw_curve(
    axes: Axes, number: int, curve: Curve, spreads: list[Spread], places: np.ndarray, words: tuple[str, str]
) -> list[str]:
    """One line and its points; returns what each point says."""
    tint, (across, unit) = colour(curve.colour), words
    means, intervals = [spread.mean for spread in spreads], [on_scale(spread) for spread in spreads]
    if len(places) > 1:
        axes.plot(places, means, color=tint, linewidth=2 if number == 0 else 1.4)
    marker: dict[str, Any] = {
        "marker": MARKERS[curve.colour % len(MARKERS)],
        "markersize": 5,
        "markeredgecolor": GROUND,
    }
    axes.plot(places, means, color=tint, linestyle="none", gid=f"points-{number}", **marker, markeredgewidth=0.8)
    return [
        f"{curve.name}, {across} {place}: {format_number(mean, 1)} {unit}{interval_text(interval)}"
        for place, mean, interval in zip(places.tolist(), means, intervals, strict=True)
    ]


def draw_band(axes: Axes, curve: Curve, spreads: list[Spread], places: np.ndarray) -> None:
    """Student's interval at each place, where there are seeds enough."""
    known = [interval for spread in spreads if (interval := on_scale(spread))]
    if len(known) == len(spreads):
        low, high = zip(*known, strict=True)
        axes.fill_between(places, low, high, color=colour(curve.colour), alpha=0.13, linewidth=0)


def on_scale(spread: Spread) -> tuple[float, float] | None:
    """The interval of a mean of percentages or points; few seeds can give one beyond what is possible."""
    return spread.interval and clip_to_scale(BWT if min(spread.values) < 0 else ACC, spread.interval)


def interval_text(interval: tuple[float, float] | None) -> str:
    return (
        ""
        if interval is None
        else f" (95 % interval {format_number(interval[0], 1)} to {format_number(interval[1], 1)})"
    )


@dataclass(frozen=True)
class Share:
    """A bar of a chart of shares: a name, and an amount for each part."""

    name: str
    amounts: dict[str, float]


def share_chart(
    name: str,
    title: str,
    caption: str,
    bars: Sequence[Share],
    unit: str,
    digits: int = 0,
    parts: Sequence[str] = (),
) -> Chart:
    """A bar for each run, cut into its parts; `parts` gives their order and with it their colours."""
    parts = parts or list(dict.fromkeys(part for bar in bars for part in bar.amounts))
    with styled():
        figure, axes = empty_figure(height=0.75 + 0.42 * len(bars))
        texts: dict[str, list[str]] = {}
        for down, bar in enumerate(bars):
            start, total = 0.0, sum(bar.amounts.values()) or 1.0
            for part in filter(bar.amounts.__contains__, parts):
                amount = bar.amounts[part]
                share, gid = 100 * amount / total, f"bar-{down}-{parts.index(part)}"
                drawn = axes.barh(down, share, 0.62, left=start, color=colour(parts.index(part), "p"), edgecolor=GROUND)
                drawn[0].set_gid(gid)
                texts[gid] = [f"{bar.name}, {part}: {format_number(amount, digits)} {unit}, {share:.1f} %"]
                start += share
        axes.set_yticks(range(len(bars)), [shortened(bar.name) for bar in bars])
        axes.tick_params(axis="y", length=0, colors=INK)
        axes.set(xlim=(0, 100), ylim=(len(bars) - 0.45, -0.55), xlabel="share, %")
        axes.grid(visible=False)
        svg = to_svg(figure, name, f"{title}. {caption}", texts)
    rows = [[bar.name, *(format_number(bar.amounts.get(part), digits) for part in parts)] for bar in bars]
    return Chart(title, caption, svg, ["", *parts], rows)


def shortened(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def empty_figure(height: float = SIZE[1]) -> tuple[Figure, Axes]:
    """Axes with a grid and two spines."""
    figure = Figure(figsize=(SIZE[0], height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.grid(axis="y", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
