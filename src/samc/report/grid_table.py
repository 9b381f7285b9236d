"""The grids: which point did best on training images held out, beside the paper's choice; and as presets to paste."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from samc.config import presets
from samc.errors import DataError
from samc.experiments.items import EMBEDDED, PAPER, Item
from samc.report.runs import Found, Runs, by_stream, percent
from samc.report.sheet import NOTHING, Column, Row, Section, number

COLUMNS = (
    Column("method"),
    Column("points run"),
    *(Column(name, "best point") for name in ("values", "ACC")),
    *(Column(name, "preset's choice") for name in ("values", "ACC")),
)
NOTE = (
    "ACC in %, mean over seeds, on a tenth of the training images that was held out: test images chose nothing here. "
    "The preset's choice is the paper's where the paper names one, and ours otherwise (presets.yaml marks those). A "
    "best point among few of many is no choice yet."
)
HEAD = """# The best point of each grid on held-out training images, in the shape of presets.yaml.
# Settings that were not searched are as the runs had them.
"""


@dataclass(frozen=True)
class Search:
    """A method's grid on a stream: its points, and the preset's entries that they vary."""

    method: str
    points: Sequence[Runs]
    entries: Mapping[str, Mapping[str, Any]]

    @property
    def searched(self) -> tuple[str, ...]:
        given = self.points[0].variant.settings
        return tuple(
            name
            for name, entry in self.entries.items()
            if name in given and len(entry["grid"]) > 1 and (self.method, name) not in FIXED
        )

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

    def told(self, point: Runs) -> str:
        return ", ".join(f"{name} {value:g}" for name, value in self.values(point).items())


FIXED = {("samc", name) for name in PAPER}
# every point of SAMC's grid has these


def sections(item: Item, found: Found) -> list[Section]:
    """One table a stream, a row a method."""
    return [
        Section(f"{item.name}, {stream}", COLUMNS, [row(stream, search) for search in searches], (NOTE,))
        for stream, searches in searched(found).items()
    ]


def searched(found: Found) -> dict[str, list[Search]]:
    for (stream, variant, seed), record in found.items():
        if record and record.config.get("tested_on") != "held-out":
            raise DataError(
                f"{stream}: {variant.label!r}, seed {seed}, was tested on {record.config.get('tested_on')!r}; "
                "a grid is judged on held-out training images only: run it with --tested-on held-out"
            )
    searches = {}
    for stream, runs in by_stream(found).items():
        entries = presets()["embedded" if stream == EMBEDDED else "paper"][stream]
        methods = dict.fromkeys(each.variant.model for each in runs)
        searches[stream] = [
            Search(method, [each for each in runs if each.variant.model == method], entries[method])
            for method in methods
        ]
    return searches


def accuracy(point: Runs) -> float:
    mean = point.mean(percent("acc"))
    assert mean is not None, "a point that has not been run has no accuracy"
    return mean


def row(stream: str, search: Search) -> Row:
    best, chosen = search.best, search.chosen
    at_best = accuracy(best) if best else None
    at_chosen = accuracy(chosen) if chosen and chosen.records else None
    count = f"{len(search.run)} of {len(search.points)}" if search.run else f"not run ({len(search.points)})"
    shown = [
        search.method,
        count,
        search.told(best) if best else NOTHING,
        number(at_best, 2),
        search.told(chosen) if chosen else NOTHING,
        "not run" if chosen and not chosen.records else number(at_chosen, 2),
    ]
    raw = {
        "stream": stream,
        "method": search.method,
        "points_run": len(search.run),
        "points": len(search.points),
        "best": search.told(best) if best else None,
        "best_acc": at_best,
        "preset": search.told(chosen) if chosen else None,
        "preset_acc": at_chosen,
    }
    return Row(shown, raw)


def as_presets(found: Found) -> str:
    """The best points as a preset that can be pasted, one line a setting."""
    lines = []
    for stream, searches in searched(found).items():
        run = [search for search in searches if search.best]
        lines += [f"  {stream}:"] if run else []
        for search in run:
            assert search.best
            told = f"{len(search.run)} of {len(search.points)} points, ACC {accuracy(search.best):.2f} % held out"
            lines.append(f"    {search.method}:  # {told}")
            for name, entry in search.entries.items():
                made = entry_of(search, search.best, name, entry)
                text = yaml.safe_dump(made, default_flow_style=True, sort_keys=False, width=10_000).strip()
                lines.append(f"      {name}: {text}")
    return HEAD + "\n".join(["grid:" if lines else "grid: {}", *lines]) + "\n"


def entry_of(search: Search, best: Runs, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """A preset's entry with the value of the best point; others stay, unless the runs had another."""
    value = best.variant.settings.get(name, entry["value"])
    if name in search.searched:
        return {"value": value, "grid": entry["grid"], "source": "grid"}
    return dict(entry) if value == entry["value"] else {"value": value, "grid": [value], "source": "ours"}
