"""Runs side by side: one row a method, mean and deviation over its seeds; only runs on equal terms share a table."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from samc.errors import DataError
from samc.record import FILE, RunRecord

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
            return [100 * just_learnt(record) for record in self.records]
        return [100 * getattr(record, figure) for record in self.records]

    def cells(self) -> list[str]:
        memory = self.records[0].memory
        seconds = statistics.fmean(record.seconds["total"] for record in self.records)
        return [
            self.method,
            ", ".join(str(record.config["seed"]) for record in self.records),
            spread(self.figures("acc")),
            spread(self.figures("bwt"), "+"),
            f"{self.mean('just learnt'):.1f}",
            f"{memory['memory_bytes']:,}",
            f"{memory['bytes'] - memory['memory_bytes']:,}",
            f"{sum(memory['images_per_task']):,}",
            f"{seconds:.0f}",
        ]


def just_learnt(record: RunRecord) -> float:
    """Mean accuracy on each task right after it was learnt, as a fraction: whether a method learns at all."""
    return statistics.fmean(row[task] for task, row in enumerate(record.accuracy_matrix[1:]))


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
    """By the terms of the comparison, a row for each method and its settings, the best ACC first."""
    groups: dict[str, dict[str, list[RunRecord]]] = {}
    for record in records:
        terms = json.dumps(record.fingerprint, sort_keys=True)
        settings = json.dumps({k: v for k, v in record.config.items() if k != "seed"}, sort_keys=True)
        groups.setdefault(terms, {}).setdefault(settings, []).append(record)
    found: dict[str, list[Row]] = {}
    for terms, runs in groups.items():
        ordered = [sorted(each, key=lambda record: record.config["seed"]) for each in runs.values()]
        rows = [Row(each[0].config["model"], tuple(each)) for each in ordered]
        found[title(json.loads(terms), len(found))] = sorted(rows, key=lambda row: -row.mean("acc"))
    return found


def title(terms: dict, number: int) -> str:
    images = sum(terms["training_images"])
    budget = f"{terms['budget_images']} images a task, counted in {terms['accounting']}"
    text = f"{terms['stream']}: {len(terms['class_order'])} tasks, {images:,} training images, budget {budget}"
    return f"{text} ({number + 1})" if number else text


def markdown(rows: Sequence[Row]) -> str:
    """The table as it stands in the documents."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
