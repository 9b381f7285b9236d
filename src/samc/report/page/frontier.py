"""ACC by bytes, and the paper's figures beside ours where the stream is one of its own."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import Locator, LogLocator, MaxNLocator, NullLocator

from samc.report.measures import memory_bytes
from samc.report.numbers import format_number
from samc.report.page.charts import MARKERS, Chart, empty_figure, on_scale
from samc.report.page.groups import Group, Method, acc
from samc.report.page.svg import MUTED, colour, styled, to_svg
from samc.report.paper import published


def frontier_chart(group: Group) -> Chart | None:
    """ACC by bytes of memory, with the paper's methods where the stream is one of its own; None of a single point."""
    paper = paper_points(group)
    methods = [method for method in group.methods if memory_bytes(method.first)]
    if len(methods) + len(paper) < 2 or not methods:
        return None
    with styled():
        figure, axes = empty_figure()
        texts: dict[str, list[str]] = {}
        draw_frontier_line(axes, methods)
        for method in reversed(methods):
            spread, size = acc(method), memory_bytes(method.first)
            low, high = on_scale(spread) or (spread.mean, spread.mean)
            tint, marker = colour(method.colour), MARKERS[method.colour % len(MARKERS)]
            axes.plot([size, size], [low, high], color=tint, linewidth=1.2)
            axes.plot([size], [spread.mean], color=tint, marker=marker, markersize=7, gid=f"point-{method.colour}")
            texts[f"point-{method.colour}"] = [f"{method.name}: {spread.mean:.1f} % in {size:,} bytes"]
        if paper:
            _, places, means = zip(*paper, strict=True)
            axes.plot(places, means, color=MUTED, linestyle="none", marker="x", markersize=5, gid="paper")
            texts["paper"] = [f"the paper's {name}: {mean:.1f} % in {size:,} bytes" for name, size, mean in paper]
        for method in group.methods:
            if method not in methods:
                axes.axhline(acc(method).mean, color=colour(method.colour), linewidth=1, linestyle=(0, (5, 3)))
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        sizes = [memory_bytes(method.first) for method in methods] + [size for _, size, _ in paper]
        axes.xaxis.set_major_locator(ticks_within(min(sizes), max(sizes)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlim(min(sizes) / 1.5, max(sizes) * 1.5)
        axes.set_xlabel("bytes of memory, all tasks together")
        axes.set_ylabel("ACC, %")
        caption = "ACC by the bytes that the memory takes; further up and further to the left is better."
        svg = to_svg(figure, f"frontier-{group.number}", f"Frontier. {caption}", texts)
    if len(methods) < len(group.methods):
        caption += " Dashed: methods without a memory."
    if paper:
        caption += " Crosses: the paper's methods with ten raw images' bytes per task."
    rows = [[m.name, f"{memory_bytes(m.first):,}", format_number(acc(m).mean, 1)] for m in group.methods]
    rows += [[f"the paper's {name}", f"{size:,}", format_number(mean, 1)] for name, size, mean in paper]
    return Chart("Accuracy by bytes", caption, svg, ["method", "bytes", "ACC %"], rows)


def ticks_within(least: int, most: int) -> Locator:
    """Few enough that their labels stand apart; less than a decade holds too few round powers."""
    if most < 5 * least:
        return MaxNLocator(4)
    return LogLocator(subs=(1.0, 2.0, 5.0) if most < 50 * least else (1.0,))


def draw_frontier_line(axes: Axes, methods: Sequence[Method]) -> None:
    """Through what nothing beats in both ACC and bytes."""
    best, steps = -1.0, []
    for size, mean in sorted((memory_bytes(method.first), -acc(method).mean) for method in methods):
        if -mean > best:
            best = -mean
            steps.append((size, best))
    if len(steps) > 1:
        axes.plot(*zip(*steps, strict=True), color=MUTED, linewidth=1, linestyle=(0, (1, 2)))


def paper_points(group: Group) -> list[tuple[str, int, float]]:
    """Name, bytes and ACC of the paper's methods that have a memory, on its own stream in full."""
    channels, height, width = group.record.fingerprint["image_shape"]
    size = 10 * channels * height * width * len(group.classes)
    without = ("finetune", "ewc", "lwf")
    return [(name, size, row["acc"]) for name, row in paper_rows(group).items() if name not in without]


def paper_rows(group: Group) -> dict[str, dict[str, float]]:
    """What the paper prints for this stream; nothing where it has been cut."""
    rows = published("table1", group.stream)
    tasks = {"split-cifar10": 5}.get(group.stream, 20)
    whole = len(group.classes) == tasks and group.record.config.get("tested_on", "test") == "test"
    return rows if whole else {}
