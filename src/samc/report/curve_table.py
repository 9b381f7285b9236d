"""The figures behind the curves, every digit of them: one row a point, for those who draw their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from samc.experiments.items import Item
from samc.report.runs import Runs, percent
from samc.report.spread import Spread, spread


def points(item: Item, streams: Mapping[str, Sequence[Runs]]) -> list[dict[str, Any]]:
    """Along tasks for the first task's curve, else along the figure's axis."""
    of = along_tasks if item.name == "first-task" else along_axis
    return [each for stream, variants in streams.items() for runs in variants for each in of(stream, runs)]


def along_tasks(stream: str, runs: Runs) -> list[dict[str, Any]]:
    """The first task's accuracy after each task; a variant that has not been run has no points."""
    curves = zip(*(record.first_task_curve for record in runs.records.values()), strict=True)
    return [
        point(stream, runs, {"tasks_learnt": number}, "first_task_accuracy", spread([100 * each for each in values]))
        for number, values in enumerate(curves, start=1)
    ]


def along_axis(stream: str, runs: Runs) -> list[dict[str, Any]]:
    return [point(stream, runs, {"at": runs.variant.at}, "acc", runs.over_seeds(percent("acc")))]


def point(stream: str, runs: Runs, place: Mapping[str, Any], figure: str, values: Spread | None) -> dict[str, Any]:
    return {
        "stream": stream,
        "method": runs.variant.model,
        "variant": runs.variant.label,
        "seeds": len(runs.records),
        "seeds_asked": runs.asked,
        "accounting": runs.first.fingerprint["accounting"] if runs.records else None,
        **place,
        f"{figure}_mean": values.mean if values else None,
        f"{figure}_sd": values.sd if values else None,
    }
