"""Many runs side by side: one row per method, mean and deviation over its seeds; tables only of runs on equal terms."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from samc.config import RunConfig
from samc.record import RunRecord
from samc.report.measures import (
    Measure,
    extra_bytes,
    images,
    just_learnt_percent,
    memory_bytes,
    percent,
    total_seconds,
)
from samc.report.numbers import DASH
from samc.report.spread import Spread
from samc.report.tables import Column, Table, TableRow

COLUMNS = (
    Column("method", align="left", wraps=True),
    Column("seeds", wraps=True),
    Column("ACC %", "acc_mean", digits=1, sd="acc_sd", wraps=True),
    Column("BWT", "bwt_mean", digits=1, sign="+", sd="bwt_sd", wraps=True),
    Column("just learnt %", "just_learnt_mean", digits=1),
    Column("bytes of memory", "memory_bytes"),
    Column("extra bytes", "extra_bytes"),
    Column("images"),
    Column("seconds", "seconds_mean"),
)
AUTO = RunConfig.preset
MOST_TELLING = 5
# settings that a row is named by, if its preset can stand for them


@dataclass(frozen=True)
class MethodRow:
    """One method's runs that differ in nothing but their seeds."""

    method: str
    records: tuple[RunRecord, ...]
    repeats: tuple[tuple[RunRecord, RunRecord], ...] = ()
    # runs of the same seed that are not counted, each with the one that is

    def over_seeds(self, measure: Measure) -> Spread:
        return Spread(tuple(float(measure(record)) for record in self.records))

    def values(self) -> dict[str, Any]:
        first, acc, bwt = self.records[0], self.over_seeds(percent("acc")), self.over_seeds(percent("bwt"))
        return {
            "method": self.method,
            "seeds": ", ".join(str(record.config.get("seed", DASH)) for record in self.records),
            "acc_mean": acc.mean,
            "acc_sd": acc.sd,
            "bwt_mean": bwt.mean,
            "bwt_sd": bwt.sd,
            "just_learnt_mean": self.over_seeds(just_learnt_percent).mean,
            "memory_bytes": memory_bytes(first),
            "extra_bytes": extra_bytes(first),
            "images": images(first),
            "seconds_mean": self.over_seeds(total_seconds).mean,
        }


def comparison_tables(records: Sequence[RunRecord]) -> list[Table]:
    """One table for all runs on equal terms."""
    return [
        Table(title, COLUMNS, [TableRow(row.values()) for row in rows], repeats_note(rows))
        for title, rows in method_rows(records).items()
    ]


def repeats_note(rows: Sequence[MethodRow]) -> tuple[str, ...]:
    """How many runs were made more than once and are counted once, and how far their ACC differ."""
    pairs = [pair for row in rows for pair in row.repeats]
    if not pairs:
        return ()
    apart = max(abs(percent("acc")(left_out) - percent("acc")(shown)) for left_out, shown in pairs)
    what = "a record repeats a run" if len(pairs) == 1 else f"{len(pairs)} records repeat runs"
    differ = f"ACC differs by up to {apart:.1f} points" if apart else "with the same ACC"
    return (
        f"{what} of the same settings, machine, threads and seed ({differ}); the last of each, by path, is counted",
    )


def method_rows(records: Sequence[RunRecord]) -> dict[str, list[MethodRow]]:
    """By the terms of the comparison, the rows of their methods."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(json.dumps(record.fingerprint, sort_keys=True), []).append(record)
    tables: dict[str, list[MethodRow]] = {}
    for terms, alike in groups.items():
        tables[title_of(json.loads(terms), tables)] = rows_of(alike)
    return tables


def rows_of(records: Sequence[RunRecord]) -> list[MethodRow]:
    """A row for each method, its settings and its machine, the best ACC first.

    Of two runs that differ in nothing, the later counts. The number of threads is a part of a CPU: it changes the order
    in which numbers are added, and with it what is learnt.
    """
    methods: dict[str, dict[int, list[RunRecord]]] = {}
    for record in records:
        settings = {k: v for k, v in record.config.items() if k != "seed"} | machine_of(record)
        by_seed = methods.setdefault(json.dumps(settings, sort_keys=True), {})
        by_seed.setdefault(-1 if (seed := record.config.get("seed", 0)) is None else seed, []).append(record)
    rows = []
    for by_seed in methods.values():
        ordered = tuple(by_seed[seed][-1] for seed in sorted(by_seed))
        repeats = tuple((record, runs[-1]) for runs in by_seed.values() for record in runs[:-1])
        rows.append(MethodRow(ordered[0].config["model"], ordered, repeats))
    rows = [replace(row, method=telling_name(row, rows)) for row in rows]
    return sorted(rows, key=lambda row: -row.over_seeds(percent("acc")).mean)


def telling_name(row: MethodRow, rows: Sequence[MethodRow]) -> str:
    """The method, and whatever of its settings, or its machine, tells it from the table's other rows of that method.

    Where many settings do, and no two rows have the same preset, its name is enough.
    """
    mine, others = row.records[0], [other.records[0] for other in rows if other.method == row.method]
    alike, own = [settings_of(other) for other in others], settings_of(mine)
    presets = [other.config.get("preset") for other in others]
    telling = [name for name, value in own.items() if any(other.get(name) != value for other in alike)]
    if len(telling) > MOST_TELLING and None not in presets and len(set(presets)) == len(presets):
        preset = mine.config["preset"]
        return f"{row.method} default preset" if preset == AUTO else f"{row.method} preset {preset}"
    return " ".join([row.method, *(f"{name} {own[name]}" for name in telling)])


def settings_of(record: RunRecord) -> dict[str, Any]:
    """A run's settings and its machine, with the codec that was used where none was asked for."""
    codec = record.memory.get("codec", record.config.get("codec"))
    settings = {**record.config, "codec": codec, **machine_of(record)}
    return {name: value for name, value in settings.items() if name not in ("model", "seed", "preset")}


def machine_of(record: RunRecord) -> dict[str, Any]:
    """A run's machine and, on a CPU, the threads that it was learnt with."""
    return {"machine": record.machine, "threads": record.device.get("threads")}


def title_of(terms: dict[str, Any], taken: Collection[str]) -> str:
    """What two tables differ in, as far as a line can tell; where it cannot, they are numbered."""
    counts, budget_images = terms.get("training_images"), terms.get("budget_images")
    count = "unknown" if counts is None else f"{sum(counts):,}"
    images_budget = "not stated" if budget_images is None else f"{budget_images} images per task"
    budget = f"{terms.get('memory_bytes') or images_budget}, counted in {terms['accounting']}"
    text = f"{terms['stream']}: {len(terms['class_order'])} tasks, {count} training images, budget {budget}"
    alike = sum(title == text or title.startswith(f"{text} (") for title in taken)
    return f"{text} ({alike + 1})" if alike else text
