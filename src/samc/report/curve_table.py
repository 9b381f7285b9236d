"""The figures behind the curves, every digit of them: one row a point, for those who draw their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from samc.experiments.items import Item
from samc.report.runs import Runs, percent
from samc.report.sheet import Column, Row, Section, with_deviation
from samc.report.spread import Spread, spread


def sections(item: Item, streams: Mapping[str, Sequence[Runs]]) -> list[Section]:
    """One table a stream, in order."""
    columns = [
        Column(name) for name in ("variant", "seeds", "tasks learnt" if item.name == "first-task" else "at", "%")
    ]
    rows_of = along_tasks if item.name == "first-task" else along_settings
    return [
        Section(f"{item.name}, {stream}", columns, [row for each in runs for row in rows_of(stream, each)])
        for stream, runs in streams.items()
    ]


def along_tasks(stream: str, runs: Runs) -> list[Row]:
    """The first task's accuracy after each task; nothing of runs that have not been."""
    curves = zip(*(record.first_task_curve for record in runs.records.values()), strict=True)
    return [
        point(stream, runs, {"tasks_learnt": number}, "first_task_accuracy", spread([100 * each for each in values]))
        for number, values in enumerate(curves, start=1)
    ]


def along_settings(stream: str, runs: Runs) -> list[Row]:
    return [point(stream, runs, {"at": runs.variant.at}, "acc", runs.over_seeds(percent("acc")))]


def point(stream: str, runs: Runs, place: dict[str, Any], figure: str, values: Spread | None) -> Row:
    mean, sd = (values.mean, values.sd) if values else (None, None)
    shown = [runs.variant.label, runs.seeds, *map(str, place.values()), with_deviation(mean, sd, 2)]
    raw = {
        "stream": stream,
        "method": runs.variant.model,
        "variant": runs.variant.label,
        "seeds": len(runs.records),
        "seeds_asked": runs.asked,
        **place,
        f"{figure}_mean": mean,
        f"{figure}_sd": sd,
    }
    return Row(shown, raw)
