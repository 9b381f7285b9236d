"""What has not been run yet: by item and stream how many runs, the command that makes them, and about how long."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from samc.experiments.specification import Key, Variant
from samc.record import RunRecord
from samc.report.measures import total_seconds
from samc.report.runs import Results
from samc.report.tables import Column, Table, TableRow, Values

UNKNOWN = "unknown"


def time_text(values: Values) -> str:
    """The time of the runs that can be estimated, and how many cannot."""
    seconds, unknown = values["seconds"], values["unknown"]
    if not unknown:
        return format_duration(seconds)
    if unknown == values["missing"]:
        return UNKNOWN
    return f"{format_duration(seconds)}, and {unknown:,} {UNKNOWN}"


def format_duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1:
        return "under 1 min"
    return f"{minutes:.0f} min" if minutes < 99.5 else f"{minutes / 60:.0f} h"


COLUMNS = (
    Column("item", align="left"),
    Column("stream", align="left"),
    Column("missing", lambda values: f"{values['missing']:,} of {values['runs']:,}"),
    Column("time", time_text),
    Column("command", align="left"),
)
NOTES = (
    "Items share runs, and what one command has learnt the next one finds: the lines do not add up. Give each command "
    "the folder of these records with `--out`.",
    "The time is an estimate, as if the missing runs were learnt one after the other: each counts as many seconds as "
    "the other seeds of its row took on average, or, where there are none, the item's other rows on that stream, or "
    "other runs of its method there. Those runs went side by side, each slower than alone; another machine, a larger "
    "memory or fewer tasks make it longer or shorter.",
)


def missing_table(items: Mapping[str, Results], quick: bool = False) -> Table:
    """One row per item and stream with runs missing, in the order of the items."""
    everything = [entry for results in items.values() for entry in results.items()]
    rows = []
    for name, results in items.items():
        for stream in dict.fromkeys(stream for stream, _, _ in results):
            here = [entry for entry in results.items() if entry[0][0] == stream]
            missing = [variant for (_, variant, _), record in here if record is None]
            if missing:
                times = [seconds_of(variant, stream, here, everything) for variant in missing]
                known = [seconds for seconds in times if seconds is not None]
                values: dict[str, Any] = {
                    "item": name,
                    "stream": stream,
                    "missing": len(missing),
                    "runs": len(here),
                    "seconds": sum(known),
                    "unknown": len(missing) - len(known),
                    "command": f"`samc reproduce {name} {'--quick' if quick else f'--datasets {stream}'}`",
                }
                rows.append(TableRow(values))
    return Table("Not run yet", COLUMNS, rows, NOTES)


Entries = Sequence[tuple[Key, RunRecord | None]]


def seconds_of(variant: Variant, stream: str, here: Entries, everything: Entries) -> float | None:
    """What a run of a variant would take, from the runs that are most like it; None if there are none."""
    return (
        mean_seconds(record for (_, other, _), record in here if other == variant)
        or mean_seconds(record for _, record in here)
        or mean_seconds(
            record for (place, other, _), record in everything if (place, other.model) == (stream, variant.model)
        )
    )


def mean_seconds(records: Iterable[RunRecord | None]) -> float | None:
    seconds = [float(total_seconds(record)) for record in records if record]
    return fmean(seconds) if seconds else None
