"""Curves drawn from records: the first task's accuracy, ACC by threshold, by memory size and by bytes."""

import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from samc.files import write_whole
from samc.report.measures import percent
from samc.report.paper import paper, published
from samc.report.runs import Runs
from samc.report.spread import Spread

Streams = Mapping[str, Sequence[Runs]]

RED = "#d62027"
SAMC: dict[str, Any] = {"color": RED, "marker": "o", "linewidth": 2.4, "zorder": 10}
STYLES: dict[str, dict[str, Any]] = {
    "samc": SAMC,
    "samc, from the stream alone": SAMC,
    "samc, our default": {
        "color": RED,
        "marker": "o",
        "markerfacecolor": "white",
        "linestyle": (0, (4, 1.5)),
        "zorder": 9,
    },
    "gem": {"color": "#0072b2", "marker": "s"},
    "er": {"color": "#009e73", "marker": "^"},
    "finetune": {"color": "#999999", "marker": "x"},
    "ewc": {"color": "#e69f00", "marker": "v", "linestyle": "--"},
    "lwf": {"color": "#56b4e9", "marker": "D", "linestyle": "--"},
    "icarl": {"color": "#cc79a7", "marker": "P"},
    "mer": {"color": "#000000", "marker": "<", "linestyle": "-."},
    "ebm": {"color": "#8c6d00", "marker": ">", "linestyle": ":"},
    "eec": {"color": "#5e3c99", "marker": "*", "linestyle": ":"},
    "SAMC, best": {"color": RED, "marker": "o", "linewidth": 2.8, "markersize": 6, "zorder": 10},
    # thin, and over the thick line that it may lie on
    "ER, small JPEGs, with the parts": {"color": "#009e73", "marker": "^", "linewidth": 1.3, "zorder": 11},
    "ER, small JPEGs": {"color": "#009e73", "marker": "^", "markerfacecolor": "white", "linestyle": "--"},
    "ER, raw images, with the parts": {"color": "#e69f00", "marker": "v"},
    "ER, raw images": {"color": "#e69f00", "marker": "v", "markerfacecolor": "white", "linestyle": "--"},
    "GEM, raw images": {"color": "#0072b2", "marker": "s", "linestyle": "-."},
    "SAMC from the stream alone, in true bytes": {"color": "#000000", "marker": "D", "linestyle": ":"},
}
# Okabe and Ito's colours and two darker ones, each with a marker of its own: lines differ without their colours too
NAMES = {
    "gem": "GEM",
    "agem": "A-GEM",
    "er": "ER",
    "der": "DER++",
    "ewc": "EWC",
    "lwf": "LwF",
    "icarl": "iCaRL",
    "mer": "MER",
    "ebm": "EBM",
    "eec": "EEC",
}
TABLES_SIZE = 10
# images per task in the paper's tables
PANEL_HEIGHT = 3.5
# inches
STYLE: Any = {"svg.hashsalt": "samc", "font.family": "DejaVu Sans", "font.size": 9}
# the same records give the same file, byte for byte


def display_name(label: str) -> str:
    """A label as the field writes it."""
    return NAMES.get(label, label.replace("samc", "SAMC", 1))


def draw_first_task(streams: Streams) -> Figure:
    """One panel per stream, as wide as it has tasks; the band is a standard deviation to either side."""
    tasks = {
        stream: max(len(record.first_task_curve) for runs in all_runs for record in runs.records.values())
        for stream, all_runs in streams.items()
    }
    figure, panels = empty_panels(streams, [2.4 + 0.13 * count for count in tasks.values()], legend=1.7)
    for axes, (stream, all_runs) in zip(panels, streams.items(), strict=True):
        for runs in sorted(all_runs, key=lambda runs: runs.variant.model != "samc"):
            if runs.records:
                draw_curve(axes, runs)
        axes.set_xlabel("tasks learnt")
        axes.set_xlim(1 - 0.02 * tasks[stream], tasks[stream] * 1.02)
        axes.set_xticks([1, *range(5, tasks[stream] + 1, 5)] if tasks[stream] > 8 else range(1, tasks[stream] + 1))
    panels[0].set_ylabel("accuracy on the first task, %")
    draw_legend(panels)
    return figure


def draw_curve(axes: Axes, runs: Runs) -> None:
    curves = 100 * np.array([record.first_task_curve for record in runs.records.values()])
    x, mean = np.arange(1, curves.shape[1] + 1), curves.mean(0)
    style = {"linewidth": 1.3, "markersize": 3.5, "zorder": 4, **STYLES.get(runs.variant.label, {})}
    if len(curves) > 1:
        sd = curves.std(0, ddof=1)
        alpha = 0.16 if runs.variant.model == "samc" else 0.07
        axes.fill_between(x, mean - sd, mean + sd, color=style["color"], alpha=alpha, linewidth=0, zorder=2)
    axes.plot(x, mean, label=display_name(runs.variant.label), **style)


def draw_by_threshold(streams: Streams) -> Figure:
    """ACC by threshold, with the one that the paper found best, and the paper's ACC there."""
    figure, panels = empty_panels(streams, [3.4] * len(streams), legend=1.75)
    for axes, (stream, all_runs) in zip(panels, streams.items(), strict=True):
        best = paper()["best-threshold"].get(stream)
        draw_points(axes, all_runs, "samc", "SAMC, mean ± sd")
        if best is not None:
            axes.axvline(best, color="#555555", linestyle=":", linewidth=1.2, zorder=1, label="the paper's best μ")
            draw_published(axes, best + 0.015, published("threshold", stream)["samc"], "samc", "paper, mean ± sd")
        axes.set_xlabel("threshold μ")
        axes.set_xlim(-0.04, 0.94)
        axes.set_xticks(np.arange(10) / 10)
    panels[0].set_ylabel("ACC, %")
    draw_legend(panels)
    return figure


def draw_by_size(streams: Streams) -> Figure:
    """ACC by memory size of GEM and SAMC, with the paper's ACC at the size that its tables give."""
    figure, panels = empty_panels(streams, [3.4] * len(streams), legend=1.75)
    for axes, (stream, all_runs) in zip(panels, streams.items(), strict=True):
        for model in dict.fromkeys(runs.variant.model for runs in all_runs):
            of_model = [runs for runs in all_runs if runs.variant.model == model]
            draw_points(axes, of_model, model, f"{display_name(model)}, mean ± sd")
            if model in published("memory-size", stream):
                numbers = published("memory-size", stream)[model]
                draw_published(axes, TABLES_SIZE + 0.8, numbers, model, f"{display_name(model)}, paper")
        axes.set_xlabel("memory per task, in whole images")
        sizes = sorted({runs.variant.at or 0 for runs in all_runs})
        axes.set_xticks(sizes)
        axes.set_xlim(sizes[0] - 2, sizes[-1] + 2)
    panels[0].set_ylabel("ACC, %")
    draw_legend(panels)
    return figure


def draw_frontier(streams: Streams) -> Figure:
    """ACC by bytes per task, one line for each method; levels are methods that have no budget."""
    figure, panels = empty_panels(streams, [5.6] * len(streams), legend=2.75, height=4.4)
    for axes, all_runs in zip(panels, streams.values(), strict=True):
        axes.set_xscale("log")
        for line in dict.fromkeys(runs.variant.line for runs in all_runs):
            of_line = [runs for runs in all_runs if runs.variant.line == line]
            if of_line[0].variant.at is None:
                draw_level(axes, of_line[0])
            else:
                draw_points(axes, of_line, line, line)
        budgets = sorted({runs.variant.at for runs in all_runs if runs.variant.at is not None})
        axes.set_xticks(budgets, [f"{at:,.0f}" for at in budgets])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(budgets[0] / 1.25, budgets[-1] * 1.25)
        axes.set_xlabel("memory per task, in bytes")
    panels[0].set_ylabel("ACC, %, mean ± sd")
    draw_legend(panels)
    return figure


def draw_level(axes: Axes, runs: Runs) -> None:
    """A mean that holds at every place of the axis, with its name on it."""
    mean = runs.mean(percent("acc"))
    if mean is not None:
        axes.axhline(mean, color="#555555", linestyle=(0, (1, 2)), linewidth=1.2, zorder=1)
        axes.annotate(
            runs.variant.line, (0.01, mean), xycoords=axes.get_yaxis_transform(), xytext=(0, 2),
            textcoords="offset points", fontsize=8, color="#555555", va="bottom",
        )  # fmt: skip


def draw_points(axes: Axes, all_runs: Sequence[Runs], style: str, label: str) -> None:
    """A line through the means, with a standard deviation to either side where there is one."""
    points = [(runs.variant.at or 0, runs.over_seeds(percent("acc"))) for runs in all_runs]
    known: list[tuple[float, Spread]] = sorted(((at, acc) for at, acc in points if acc), key=lambda pair: pair[0])
    if known:
        x, spreads = zip(*known, strict=True)
        axes.errorbar(
            x,
            [acc.mean for acc in spreads],
            yerr=[math.nan if acc.sd is None else acc.sd for acc in spreads],
            label=label,
            capsize=2.5,
            elinewidth=1,
            **{"linewidth": 1.6, "markersize": 4.5, "zorder": 4, **STYLES[style]},
        )


def draw_published(axes: Axes, at: float, numbers: Mapping[str, float], style: str, label: str) -> None:
    """The paper's mean, hollow, and a little to the right so that it does not lie on ours."""
    colour, marker = STYLES[style]["color"], "D" if style == "samc" else STYLES[style]["marker"]
    axes.errorbar(
        [at], [numbers["acc"]], yerr=[numbers["acc_sd"]], label=label, color=colour, marker=marker, markersize=7,
        markerfacecolor="white", linestyle="none", capsize=4, elinewidth=0.9, alpha=0.75, zorder=3,
    )  # fmt: skip


def seeds_text(all_runs: Sequence[Runs]) -> str:
    """How many runs are behind a point: one number, or the fewest and the most."""
    counts = sorted({len(runs.records) for runs in all_runs if runs.records})
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) + (" seed" if counts[-1] == 1 else " seeds")


def accounting_text(streams: Streams) -> str:
    """Which lines count their memory otherwise than the rest, if any; the paper mixes the two."""
    known = [runs for all_runs in streams.values() for runs in all_runs if runs.records]
    in_values = [runs for runs in known if runs.accounting == "values"]
    if len(in_values) in (0, len(known)):
        return ""
    names = dict.fromkeys(
        display_name(runs.variant.label if runs.variant.at is None else runs.variant.model) for runs in in_values
    )
    said = f"{', '.join(names)}: memory counted in colours only, as in the paper; others: in all bytes"
    return textwrap.fill(said, 22)


def empty_panels(
    streams: Streams, widths: Sequence[float], legend: float, height: float = PANEL_HEIGHT
) -> tuple[Figure, list[Axes]]:
    """Panels side by side under the streams' names, with room for a legend at the right, in inches."""
    size = (sum(widths) + 0.45 * (len(widths) - 1) + 0.75 + legend, height)
    figure = Figure(figsize=size, dpi=150)
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        1, len(widths), width_ratios=widths, left=0.65 / size[0], right=1 - (legend + 0.1) / size[0],
        top=1 - 0.35 / height, bottom=0.5 / height, wspace=0.45 / (sum(widths) / len(widths)),
    )  # fmt: skip
    corner = (1 - (legend - 0.05) / size[0], 0.5 / height)
    figure.text(*corner, accounting_text(streams), fontsize=7.5, color="#555555", va="bottom")
    panels = []
    for place, (stream, all_runs) in enumerate(streams.items()):
        axes = figure.add_subplot(grid[place])
        axes.set_title(stream, fontsize=10, fontweight="bold", loc="left")
        axes.set_title(seeds_text(all_runs), fontsize=8, color="#555555", loc="right")
        axes.grid(axis="y", color="#e3e3e3", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        panels.append(axes)
    return figure, panels


def draw_legend(panels: Sequence[Axes]) -> None:
    """One for all panels, right of the last; each name once."""
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        # curves with their bars before bare lines
        handles = dict(sorted(handles.items(), key=lambda pair: isinstance(pair[1], Line2D)))
        panels[-1].legend(
            list(handles.values()), list(handles), loc="upper left", bbox_to_anchor=(1.02, 1.02), frameon=False,
            fontsize=8.5, handlelength=2.6, borderaxespad=0,
        )  # fmt: skip


def save_figure(draw: Callable[[], Figure], stem: Path) -> list[Path]:
    """As PNG and SVG; equal figures give equal files."""
    paths = []
    with mpl.rc_context(STYLE):
        figure = draw()
        for kind in ("png", "svg"):
            content, path = io.BytesIO(), stem.with_name(f"{stem.name}.{kind}")
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            # tight: as large as what is drawn, so that no long name in a legend is cut off
            figure.savefig(content, format=kind, metadata=metadata, bbox_inches="tight")
            write_whole(path, content.getvalue(), replace=True)
            paths.append(path)
    return paths
