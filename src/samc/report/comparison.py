"""Runs side by side: one row a method, mean and deviation over its seeds; only runs on equal terms share a table."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samc import metrics
from samc.errors import DataError
from samc.record import FILE, RunRecord
from samc.report.runs import bytes_beside, memory_bytes
from samc.report.sheet import number, with_deviation
from samc.report.spread import Spread

HEADER = ("method", "seeds", "ACC %", "BWT", "just learnt %", "bytes of memory", "bytes beside", "images", "seconds")


@dataclass(frozen=True)
class Row:
    """One method's runs that differ in nothing but their seeds; figures in percent and points."""

    method: str
    records: tuple[RunRecord, ...]

    def over_seeds(self, figure: str) -> Spread:
        if figure == "just learnt":
            return Spread(tuple(100 * float(metrics.just_learnt(each.accuracy_matrix).mean()) for each in self.records))
        return Spread(tuple(100 * getattr(each, figure) for each in self.records))

    def cells(self) -> list[str]:
        first = self.records[0]
        seconds = Spread(tuple(record.seconds["total"] for record in self.records))
        return [
            self.method,
            ", ".join(str(record.config.get("seed", "–")) for record in self.records),
            shown(self.over_seeds("acc")),
            shown(self.over_seeds("bwt"), "+"),
            number(self.over_seeds("just learnt").mean, 1),
            number(memory_bytes(first)),
            number(bytes_beside(first)),
            number(sum(first.memory["images_per_task"])),
            number(seconds.mean),
        ]


def shown(values: Spread, sign: str = "") -> str:
    """Mean, and the standard deviation where there is more than one."""
    return with_deviation(values.mean, values.sd, 1, sign)


def find(folder: Path) -> list[RunRecord]:
    """Every record in a folder and below it, or the one that is named."""
    paths = [folder] if folder.is_file() else sorted(folder.rglob(FILE))
    if not paths:
        raise DataError(f"{folder} holds no {FILE}; name the folder of some runs, such as runs")
    return [RunRecord.load(path) for path in paths]


def tables(records: Sequence[RunRecord]) -> dict[str, list[Row]]:
    """By the terms of the comparison, a row for each method, its settings and its machine, the best ACC first.

    Of two runs that differ in nothing, the later counts.
    """
    groups: dict[str, dict[str, dict[int, RunRecord]]] = {}
    for record in records:
        terms = json.dumps(record.fingerprint, sort_keys=True)
        settings = {k: v for k, v in record.config.items() if k != "seed"} | {"machine": record.device["name"]}
        runs = groups.setdefault(terms, {}).setdefault(json.dumps(settings, sort_keys=True), {})
        runs[record.config.get("seed", 0)] = record
    found: dict[str, list[Row]] = {}
    for terms, methods in groups.items():
        rows = []
        for by_seed in methods.values():
            ordered = tuple(by_seed[seed] for seed in sorted(by_seed))
            rows.append(Row(ordered[0].config["model"], ordered))
        rows = [replace(row, method=named(row, rows)) for row in rows]
        found[title(json.loads(terms), found)] = sorted(rows, key=lambda row: -row.over_seeds("acc").mean)
    return found


def named(row: Row, rows: Sequence[Row]) -> str:
    """The method, and whatever of its settings, or its machine, tells it from the table's other rows of that method."""
    alike = [described(other.records[0]) for other in rows if other.method == row.method]
    mine = described(row.records[0])
    telling = [name for name, value in mine.items() if any(other.get(name) != value for other in alike)]
    return " ".join([row.method, *(f"{name} {mine[name]}" for name in telling)])


def described(record: RunRecord) -> dict[str, Any]:
    """A run's settings, with the codec that was used where none was asked for."""
    codec = record.memory.get("codec", record.config.get("codec"))
    found = {**record.config, "codec": codec, "machine": record.device["name"]}
    return {name: value for name, value in found.items() if name not in ("model", "seed", "preset")}


def title(terms: dict[str, Any], taken: Collection[str]) -> str:
    """What two tables differ in, as far as a line can tell; where it cannot, they are numbered."""
    images = sum(terms["training_images"])
    room = terms.get("memory_bytes") or f"{terms['budget_images']} images a task"
    budget = f"{room}, counted in {terms['accounting']}"
    text = f"{terms['stream']}: {len(terms['class_order'])} tasks, {images:,} training images, budget {budget}"
    alike = sum(each == text or each.startswith(f"{text} (") for each in taken)
    return f"{text} ({alike + 1})" if alike else text


def markdown(rows: Sequence[Row]) -> str:
    """The table as it stands in the documents."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
