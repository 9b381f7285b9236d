"""Two runs side by side, if they are on equal terms: their numbers, and the settings in which they differ."""

from typing import Any

from samc.errors import DataError
from samc.record import RunRecord
from samc.report.comparison import machine_of
from samc.report.measures import Measure, extra_bytes, images, memory_bytes, percent, total_seconds
from samc.report.numbers import DASH, format_number
from samc.report.tables import Column, Table, TableRow
from samc.report.terms import ABSENT, describe_differences, differing_terms

MEASURES: dict[str, tuple[Measure, int, str]] = {
    "ACC, %": (percent("acc"), 2, ""),
    "BWT, points": (percent("bwt"), 2, "+"),
    "FWT, points": (percent("fwt"), 2, "+"),
    "forgetting, points": (percent("forgetting"), 2, ""),
    "images remembered": (images, 0, ""),
    "bytes of memory": (memory_bytes, 0, ""),
    "extra bytes": (extra_bytes, 0, ""),
    "seconds": (total_seconds, 1, ""),
}
# what is compared, its digits, and whether a plus is shown


def pair_tables(first: RunRecord, second: RunRecord) -> list[Table]:
    """Numbers with their difference, second less first; then every setting that differs. Unequal terms are refused."""
    if differences := differing_terms(first, second):
        raise DataError(
            "these runs are on different terms, and their numbers do not compare: "
            f"{describe_differences(differences)}; samc report shows each among its equals"
        )
    columns = (
        Column("", "name", align="left", wraps=True),
        Column(run_name(first), "first", wraps=True),
        Column(run_name(second), "second", wraps=True),
    )
    settings = [
        TableRow({"name": name, "first": a, "second": b}) for name, (a, b) in differing_settings(first, second).items()
    ]
    numbers = Table(
        "",
        (*columns, Column("difference")),
        [TableRow(measure_values(name, first, second)) for name in MEASURES],
        () if settings else ("no setting differs",),
    )
    return [numbers, Table("settings that differ", columns, settings)] if settings else [numbers]


def measure_values(name: str, first: RunRecord, second: RunRecord) -> dict[str, str]:
    """One row: digits and signs are its own, since each is of another measure."""
    measure, digits, sign = MEASURES[name]
    a, b = measure(first), measure(second)
    return {
        "name": name,
        "first": format_number(a, digits, sign),
        "second": format_number(b, digits, sign),
        "difference": format_number(b - a, digits, "+"),
    }


def run_name(record: RunRecord) -> str:
    seed = record.config.get("seed")
    return f"{record.config.get('model', 'a run')}" + ("" if seed is None else f", seed {seed}")


def differing_settings(first: RunRecord, second: RunRecord) -> dict[str, tuple[str, str]]:
    """Settings, machine and versions with both values."""
    a, b = ({**record.config, **machine_of(record), **record.versions} for record in (first, second))
    names = [name for name in dict.fromkeys((*a, *b)) if a.get(name, ABSENT) != b.get(name, ABSENT)]
    return {name: (format_setting(a.get(name, ABSENT)), format_setting(b.get(name, ABSENT))) for name in names}


def format_setting(value: Any) -> str:
    """As it is written; a dash where a method does not take it."""
    return DASH if value is None else str(value)
