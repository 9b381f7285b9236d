"""The runs behind a table or figure: each variant's records on each stream, and only runs on equal terms together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from samc.errors import DataError
from samc.experiments.specification import Key, Variant
from samc.machine import in_turn
from samc.record import RunRecord
from samc.report.measures import Measure
from samc.report.spread import Spread, spread
from samc.report.terms import describe_differences, differing_terms

Results = Mapping[Key, RunRecord | None]
# the runs of an item, in the order of its jobs; None has not been run yet


BUDGET = ("memory_bytes", "budget_images")
# the terms that differ where a table or figure goes along budgets


@dataclass(frozen=True)
class Runs:
    """A variant's runs on one stream, by seed; `missing` are the seeds that have not been run yet."""

    variant: Variant
    records: Mapping[int, RunRecord]
    missing: tuple[int, ...]

    @property
    def first(self) -> RunRecord:
        """One of the records, for what is the same in all."""
        return next(iter(self.records.values()))

    @property
    def accounting(self) -> str | None:
        """What counts against the budget; None where nothing has been run."""
        return self.first.fingerprint["accounting"] if self.records else None

    @property
    def counts(self) -> dict[str, int]:
        """How many seeds there are, and how many there should be, as values of a row."""
        return {"seeds": len(self.records), "seeds_asked": len(self.records) + len(self.missing)}

    def over_seeds(self, measure: Measure) -> Spread | None:
        return spread([float(measure(record)) for record in self.records.values()])

    def mean(self, measure: Measure) -> float | None:
        values = self.over_seeds(measure)
        return values.mean if values else None

    def mean_and_sd(self, measure: Measure) -> tuple[float | None, float | None]:
        values = self.over_seeds(measure)
        return (values.mean, values.sd) if values else (None, None)


def format_seeds(values: Mapping[str, Any]) -> str:
    """A row's number of seeds, and of how many where some are missing."""
    run, asked = values["seeds"], values["seeds_asked"]
    return "not run" if not run else f"{run} of {asked}" if run < asked else f"{run}"


def by_stream(results: Results, *, axis: Iterable[str] = ("accounting",)) -> dict[str, list[Runs]]:
    """Each stream's variants, in order. Terms of the comparison may differ only in what the table itself shows."""
    grouped: dict[str, dict[Variant, dict[int, RunRecord | None]]] = {}
    for (stream, variant, seed), record in results.items():
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
        check_equal_terms(stream, streams[stream], tuple(axis))
    return streams


def check_equal_terms(stream: str, rows: Iterable[Runs], axis: tuple[str, ...]) -> None:
    labelled = [
        (f"{runs.variant.label}, seed {seed}", record) for runs in rows for seed, record in runs.records.items()
    ]
    for label, record in labelled[1:]:
        first, reference = labelled[0]
        if differences := differing_terms(reference, record, ignored=axis):
            raise DataError(
                f"{stream}: {first!r} and {label!r} are on different terms and cannot share a table: "
                f"{describe_differences(differences)}; run them again in one folder"
            )


def machines_sentence(records: Iterable[RunRecord | None]) -> list[str]:
    """The machines and versions of some runs, as a list of one sentence; empty if there are no runs."""
    places = {machines_in_words(record) for record in records if record}
    return [f"Learnt on {'; '.join(sorted(places))}."] if places else []


def machines_in_words(record: RunRecord) -> str:
    """Of a run that went on elsewhere from a checkpoint, all of them in their order."""
    return in_turn(
        f"{device['name']} (torch {used['torch']}, samc {used['samc']}{threads(device)})"
        for device, used in record.places
    )


def threads(device: dict[str, Any]) -> str:
    """On a CPU, how many: another number gives other figures."""
    count = device.get("threads")
    return "" if count is None else f", {count} {'thread' if count == 1 else 'threads'}"
