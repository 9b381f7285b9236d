"""The numbers behind the curves, every digit of them: one row per point, for those who draw their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from samc.experiments.specification import Item
from samc.report.measures import percent
from samc.report.runs import Runs
from samc.report.spread import Spread, spread


def curve_points(item: Item, streams: Mapping[str, Sequence[Runs]]) -> list[dict[str, Any]]:
    """Along tasks for the first task's curve, else along the figure's axis."""
    points_of = points_along_tasks if item.name == "first-task" else points_along_axis
    return [point for stream, all_runs in streams.items() for runs in all_runs for point in points_of(stream, runs)]


def points_along_tasks(stream: str, runs: Runs) -> list[dict[str, Any]]:
    """The first task's accuracy after each task; a variant that has not been run has no points."""
    curves = zip(*(record.first_task_curve for record in runs.records.values()), strict=True)
    return [
        point(
            stream,
            runs,
            {"tasks_learnt": number},
            "first_task_accuracy",
            spread([100 * accuracy for accuracy in accuracies]),
        )
        for number, accuracies in enumerate(curves, start=1)
    ]


def points_along_axis(stream: str, runs: Runs) -> list[dict[str, Any]]:
    return [point(stream, runs, {"at": runs.variant.at}, "acc", runs.over_seeds(percent("acc")))]


def point(stream: str, runs: Runs, place: Mapping[str, Any], measure: str, values: Spread | None) -> dict[str, Any]:
    return {
        "stream": stream,
        "method": runs.variant.model,
        "variant": runs.variant.label,
        **runs.counts,
        "accounting": runs.accounting,
        **place,
        f"{measure}_mean": values.mean if values else None,
        f"{measure}_sd": values.sd if values else None,
    }
