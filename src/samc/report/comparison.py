"""Runs side by side: one row a method, mean and deviation over its seeds; only runs on equal terms share a table."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samc import metrics
from samc.errors import DataError
from samc.record import FILE, RunRecord
from samc.report.runs import bytes_beside, memory_bytes

HEADER = ("method", "seeds", "ACC %", "BWT", "just learnt %", "bytes of memory", "bytes beside", "images", "seconds")


@dataclass(frozen=True)
class Row:
    """One method's runs that differ in nothing but their seeds; figures in percent and points."""

    method: str
    records: tuple[RunRecord, ...]

    def mean(self, figure: str) -> float:
        return statistics.fmean(self.figures(figure))

    def figures(self, figure: str) -> list[float]:
        if figure == "just learnt":
            return [100 * float(metrics.just_learnt(record.accuracy_matrix).mean()) for record in self.records]
        return [100 * getattr(record, figure) for record in self.records]

    def cells(self) -> list[str]:
        first = self.records[0]
        seconds = statistics.fmean(record.seconds["total"] for record in self.records)
        return [
            self.method,
            ", ".join(str(record.config.get("seed", "–")) for record in self.records),
            spread(self.figures("acc")),
            spread(self.figures("bwt"), "+"),
            f"{self.mean('just learnt'):.1f}",
            f"{memory_bytes(first):,}",
            f"{bytes_beside(first):,}",
            f"{sum(first.memory['images_per_task']):,}",
            f"{seconds:.0f}",
        ]


def spread(figures: Sequence[float], sign: str = "") -> str:
    """Mean, and the standard deviation where there is more than one."""
    mean = f"{statistics.fmean(figures):{sign}.1f}"
    return f"{mean} ± {statistics.stdev(figures):.1f}" if len(figures) > 1 else mean


def find(folder: Path) -> list[RunRecord]:
    """Every record in a folder and below it."""
    paths = sorted(folder.rglob(FILE))
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
        found[title(json.loads(terms), len(found))] = sorted(rows, key=lambda row: -row.mean("acc"))
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


def title(terms: dict, number: int) -> str:
    images = sum(terms["training_images"])
    room = terms.get("memory_bytes") or f"{terms['budget_images']} images a task"
    budget = f"{room}, counted in {terms['accounting']}"
    text = f"{terms['stream']}: {len(terms['class_order'])} tasks, {images:,} training images, budget {budget}"
    return f"{text} ({number + 1})" if number else text


def markdown(rows: Sequence[Row]) -> str:
    """The table as it stands in the documents."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
