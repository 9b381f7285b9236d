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
    "The time is an estimate, as if the missing runs were learnt one after the other: each counts as the "
    "quickest run of its row; failing that, as the mean of its method, or else of all, in the item on that stream; "
    "failing that, as the mean of its method in other items. Most went side by side, "
    "each slower than alone; another machine, a larger memory or fewer tasks make it longer or shorter.",
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


Entry = tuple[Key, RunRecord | None]
Entries = Sequence[Entry]


def seconds_of(variant: Variant, stream: str, here: Entries, everything: Entries) -> float | None:
    """What a run of a variant would take, from the runs that are most like it; None if there are none."""
    return (
        seconds_per_run((key, record) for key, record in here if key[1] == variant)
        or seconds_per_run((key, record) for key, record in here if key[1].model == variant.model)
        or seconds_per_run(here)
        or seconds_per_run(
            (key, record) for key, record in everything if (key[0], key[1].model) == (stream, variant.model)
        )
    )


def seconds_per_run(entries: Iterable[Entry]) -> float | None:
    """The mean over rows of their quickest seed's: most runs went side by side, the quickest was the least held up."""
    by_row: dict[Variant, list[float]] = {}
    for (_, variant, _), record in entries:
        if record:
            by_row.setdefault(variant, []).append(float(total_seconds(record)))
    return fmean(map(min, by_row.values())) if by_row else None
