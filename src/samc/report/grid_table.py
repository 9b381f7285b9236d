"""The grids: which point did best on held-out training images, next to the preset's choice; and as presets to paste."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from samc.errors import DataError
from samc.experiments.specification import EMBEDDED, Item
from samc.presets import presets
from samc.report.measures import percent
from samc.report.numbers import format_number
from samc.report.runs import Results, Runs, by_stream
from samc.report.tables import Column, Table, TableRow, Values


def points_text(values: Values) -> str:
    run, points = values["points_run"], values["points"]
    return f"{run} of {points}" if run else f"not run ({points})"


def preset_acc_text(values: Values) -> str:
    run = values["preset"] is None or values["preset_acc"] is not None
    return format_number(values["preset_acc"], 2) if run else "not run"


COLUMNS = (
    Column("method", align="left"),
    Column("points run", points_text),
    Column("values", "best", "best point"),
    Column("ACC", "best_acc", "best point", digits=2),
    Column("values", "preset", "preset's choice"),
    Column("ACC", preset_acc_text, "preset's choice"),
)
NOTE = (
    "ACC in % of one run per point, seed 0, on a tenth of the training images that was held out: nothing says that the "
    "best point is better than another. The preset's choice is the paper's where the paper names one, and ours "
    "otherwise (presets.yaml marks those and says how they were chosen)."
)
HEAD = """# The best point of each grid on held-out training images, in the shape of presets.yaml.
# Settings that were not searched are as the runs had them.
"""


@dataclass(frozen=True)
class Search:
    """A method's grid on a stream: its points, and the entries of the preset whose values they vary."""

    method: str
    points: Sequence[Runs]
    entries: Mapping[str, Mapping[str, Any]]

    @property
    def searched(self) -> tuple[str, ...]:
        settings = self.points[0].variant.settings
        return tuple(name for name, entry in self.entries.items() if name in settings and len(entry["grid"]) > 1)

    @property
    def run(self) -> list[Runs]:
        return [point for point in self.points if point.records]

    @property
    def best(self) -> Runs | None:
        """The first of the best, in the grid's order."""
        return max(self.run, key=accuracy, default=None)

    @property
    def chosen(self) -> Runs | None:
        """The preset's own point, if it is one of the grid's."""
        wanted = {name: self.entries[name]["value"] for name in self.searched}
        return next((point for point in self.points if self.values(point) == wanted), None)

    def values(self, point: Runs) -> dict[str, Any]:
        return {name: point.variant.settings[name] for name in self.searched}

    def describe(self, point: Runs | None) -> str | None:
        if point is None:
            return None
        return ", ".join(f"{name} {value:g}" for name, value in self.values(point).items())


def grid_tables(item: Item, results: Results) -> list[Table]:
    """One table per stream, one row per method."""
    return [
        Table(
            f"{item.name}, {stream}",
            COLUMNS,
            [TableRow(row_values(stream, search)) for search in searches],
            (NOTE,),
        )
        for stream, searches in searches_by_stream(results).items()
    ]


def searches_by_stream(results: Results) -> dict[str, list[Search]]:
    for (stream, variant, seed), record in results.items():
        if record and record.config.get("tested_on") != "held-out":
            raise DataError(
                f"{stream}: {variant.label!r}, seed {seed}, was tested on {record.config.get('tested_on')!r}; "
                "a grid is judged on held-out training images only: run it with --tested-on held-out"
            )
    searches = {}
    for stream, all_runs in by_stream(results).items():
        entries = presets()["embedded" if stream == EMBEDDED else "paper"][stream]
        methods = dict.fromkeys(runs.variant.model for runs in all_runs)
        searches[stream] = [
            Search(method, [runs for runs in all_runs if runs.variant.model == method], entries[method])
            for method in methods
        ]
    return searches


def accuracy(point: Runs) -> float:
    mean = point.mean(percent("acc"))
    assert mean is not None, "a point that has not been run has no accuracy"
    return mean


def row_values(stream: str, search: Search) -> dict[str, Any]:
    best, chosen = search.best, search.chosen
    return {
        "stream": stream,
        "method": search.method,
        "points_run": len(search.run),
        "points": len(search.points),
        "best": search.describe(best),
        "best_acc": accuracy(best) if best else None,
        "preset": search.describe(chosen),
        "preset_acc": accuracy(chosen) if chosen and chosen.records else None,
    }


def as_presets(results: Results) -> str:
    """The best points as a preset that can be pasted, one line per setting."""
    lines = []
    for stream, searches in searches_by_stream(results).items():
        run = [search for search in searches if search.best]
        lines += [f"  {stream}:"] if run else []
        for search in run:
            assert search.best
            comment = f"{len(search.run)} of {len(search.points)} points, ACC {accuracy(search.best):.2f} % held out"
            lines.append(f"    {search.method}:  # {comment}")
            for name, entry in search.entries.items():
                best_entry = entry_of_best(search, search.best, name, entry)
                text = yaml.safe_dump(best_entry, default_flow_style=True, sort_keys=False, width=10_000).strip()
                lines.append(f"      {name}: {text}")
    return HEAD + "\n".join(["grid:" if lines else "grid: {}", *lines]) + "\n"


def entry_of_best(search: Search, best: Runs, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """A preset's entry with the value of the best point; what was not searched stays."""
    if name not in search.searched:
        return dict(entry)
    return {"value": best.variant.settings[name], "grid": entry["grid"], "source": "grid"}
