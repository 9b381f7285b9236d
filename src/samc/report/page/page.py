"""The page of some runs: one self-contained HTML file, made from records and memory files alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from samc.experiments.progress_log import Progress
from samc.report.found import Run
from samc.report.page.browser import browsers
from samc.report.page.charts import MOST_CURVES, SHAPES, accuracy_chart, first_task_chart, forgetting_chart
from samc.report.page.frontier import frontier_chart
from samc.report.page.groups import Group, grouped
from samc.report.page.learning import learning_charts, progress_panel
from samc.report.page.panels import bytes_charts, matrices, origin, tasks_table, theory_table, time_chart
from samc.report.page.render import render
from samc.report.page.verdict import figures, sentence, verdict_table

PANELS = {
    "verdict": "Verdict",
    "accuracy": "Accuracy",
    "learning": "How it was learnt",
    "costs": "Bytes and time",
    "memory": "What is remembered",
    "theory": "Claims",
    "again": "Run again",
}


def page_of(runs: Sequence[Run], going: Mapping[str, Progress] | None = None, *, live: str | None = None) -> str:
    """All panels of these runs; `going` are some that go on, by name, and `live` says which state of them this is."""
    groups = grouped(runs)
    panels, memories = [panels_of(group) for group in groups], browsers(groups)
    progress = [progress_panel(number, name, told) for number, (name, told) in enumerate((going or {}).items())]
    context = {
        "title": title_of(groups) if groups else ", ".join(panel["name"] for panel in progress) or "Nothing yet",
        "groups": panels,
        "memories": len(memories),
        "contents": [(f"progress-{panel['number']}", panel["name"]) for panel in progress]
        + contents(panels, bool(memories)),
        "progress": progress,
        "most_curves": MOST_CURVES,
        "shapes": SHAPES,
    }
    return render(context, {"matrices": [panel["matrices"] for panel in panels], "memories": memories}, live=live)


def panels_of(group: Group) -> dict[str, Any]:
    charts = [accuracy_chart(group), first_task_chart(group), forgetting_chart(group), frontier_chart(group)]
    theory = [(method.name, theory_table(record)) for method in group.methods for record in method.records]
    return {
        "group": group,
        "sentence": sentence(group),
        "figures": figures(group.methods[0]),
        "verdict": verdict_table(group),
        "notes": notes(group),
        "matrices": matrices(group),
        "tasks": tasks_table(group),
        "accuracy": [chart for chart in charts if chart],
        "learning": learning_charts(group),
        "costs": [*bytes_charts(group), time_chart(group)],
        "theory": [(name, table) for name, table in theory if table],
        "origins": [origin(method) for method in group.methods],
    }


def notes(group: Group) -> list[str]:
    """What runs themselves have to say of their figures, by method."""
    return [f"{method.name}: {note}" for method in group.methods for note in origin(method).notes]


def title_of(groups: Sequence[Group]) -> str:
    methods = sum(len(group.methods) for group in groups)
    if methods == 1:
        return f"{groups[0].methods[0].name} on {groups[0].title.partition(':')[0]}"
    if len(groups) == 1:
        return f"{methods} methods on {groups[0].title.partition(':')[0]}"
    return f"{methods} methods on {len(groups)} sets of terms"


def contents(panels: Sequence[dict[str, Any]], remembers: bool) -> list[tuple[str, str]]:
    """What the page's list of contents names: the panels of a single group, or the groups; by their ids."""
    memory = [("memory", PANELS["memory"])] if remembers else []
    if len(panels) > 1:
        return [*((f"group-{panel['group'].number}", panel["group"].title) for panel in panels), *memory]
    if not panels:
        return []
    optional = {"theory": panels[0]["theory"], "learning": panels[0]["learning"], "memory": remembers}
    left_out = {name for name, there in optional.items() if not there}
    ids = {name: name if name == "memory" else f"{name}-0" for name in PANELS if name not in left_out}
    return [(ids[name], PANELS[name]) for name in ids]
