"""The runs behind a table or figure: each variant's records on each stream, and only runs on equal terms together."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from samc.errors import DataError
from samc.experiments.items import Variant
from samc.record import RunRecord
from samc.report.spread import Spread, spread

Key = tuple[str, Variant, int]
Found = Mapping[Key, RunRecord | None]
# by stream, variant and seed, in the order of an item's jobs; None has not been run yet
ABSENT = "absent"


@dataclass(frozen=True)
class Runs:
    """A variant's runs on one stream, by seed; `missing` are the seeds that have not been run yet."""

    variant: Variant
    records: Mapping[int, RunRecord]
    missing: tuple[int, ...]

    @property
    def asked(self) -> int:
        return len(self.records) + len(self.missing)

    @property
    def seeds(self) -> str:
        if not self.records:
            return "not run"
        return f"{len(self.records)} of {self.asked}" if self.missing else f"{self.asked}"

    @property
    def first(self) -> RunRecord:
        """One of the records, for what is the same in all."""
        return next(iter(self.records.values()))

    def over_seeds(self, figure: Callable[[RunRecord], float]) -> Spread | None:
        return spread([float(figure(record)) for record in self.records.values()])

    def mean(self, figure: Callable[[RunRecord], float]) -> float | None:
        found = self.over_seeds(figure)
        return found.mean if found else None


def by_stream(found: Found, *, axis: Iterable[str] = ("accounting",)) -> dict[str, list[Runs]]:
    """Each stream's variants, in order. Terms of the comparison may differ only in what the table itself shows."""
    grouped: dict[str, dict[Variant, dict[int, RunRecord | None]]] = {}
    for (stream, variant, seed), record in found.items():
        grouped.setdefault(stream, {}).setdefault(variant, {})[seed] = record
    streams = {}
    for stream, variants in grouped.items():
        streams[stream] = [
            Runs(
                variant,
                {seed: record for seed, record in sorted(by_seed.items()) if record},
                tuple(sorted(seed for seed, record in by_seed.items() if not record)),
            )
            for variant, by_seed in variants.items()
        ]
        on_equal_terms(stream, streams[stream], tuple(axis))
    return streams


def on_equal_terms(stream: str, rows: Iterable[Runs], axis: tuple[str, ...]) -> None:
    labelled = [(f"{row.variant.label}, seed {seed}", record) for row in rows for seed, record in row.records.items()]
    for label, record in labelled[1:]:
        first, reference = labelled[0]
        if wrong := differing(reference, record, but=axis):
            raise DataError(
                f"{stream}: {first!r} and {label!r} are on different terms and cannot share a table: {told(wrong)}; "
                "run them again in one folder"
            )


def differing(first: RunRecord, second: RunRecord, but: Iterable[str] = ()) -> dict[str, tuple[Any, Any]]:
    """The terms of the comparison in which two runs differ, with both values."""
    names = dict.fromkeys((*first.fingerprint, *second.fingerprint))
    pairs = {name: (first.fingerprint.get(name, ABSENT), second.fingerprint.get(name, ABSENT)) for name in names}
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b and name not in tuple(but)}


def told(differences: Mapping[str, tuple[Any, Any]]) -> str:
    """In words: what differs, and both values; of long lists only what tells them apart."""
    parts = []
    for name, (first, second) in differences.items():
        place, a, b = "", repr(first), repr(second)
        if isinstance(first, list) and isinstance(second, list) and len(first) != len(second):
            a, b = f"of {len(first)} entries", f"of {len(second)}"
        elif isinstance(first, list) and isinstance(second, list):
            number = next(n for n, (one, other) in enumerate(zip(first, second, strict=True)) if one != other)
            place, a, b = f", entry {number + 1},", repr(first[number]), repr(second[number])
        parts.append(f"{name}{place} is {a} in the first, {b} in the second")
    return "; ".join(parts)


def learnt_on(records: Iterable[RunRecord | None]) -> list[str]:
    """Where, and with what: a sentence with every machine and version, or none of no runs."""
    places = {
        f"{record.device['name']} (torch {record.versions['torch']}, samc {record.versions['samc']})"
        for record in records
        if record
    }
    return [f"Learnt on {'; '.join(sorted(places))}."] if places else []


def percent(name: str) -> Callable[[RunRecord], float]:
    """A record's fraction in percent, or points."""
    return lambda record: 100 * float(getattr(record, name))


def images_a_task(record: RunRecord) -> float:
    """Mean over tasks; 0 where no images are kept."""
    return fmean(record.memory["images_per_task"] or [0])


def memory_bytes(record: RunRecord) -> int:
    """What the budget is for."""
    return record.memory.get("memory_bytes", record.memory["bytes"])


def bytes_beside(record: RunRecord) -> int:
    """What a method keeps of past tasks that the budget is not for: old networks, decoders."""
    # records before 0.2 count what is beside the memory among its parts only
    return max(record.memory["bytes"], sum(record.memory["bytes_by_part"].values())) - memory_bytes(record)
