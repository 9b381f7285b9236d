"""Two runs side by side, if they are on equal terms: their figures, and the settings in which they differ."""

from collections.abc import Callable
from typing import Any

from samc.errors import DataError
from samc.record import RunRecord
from samc.report.runs import ABSENT, bytes_beside, differing, memory_bytes, percent, told
from samc.report.sheet import NOTHING, number

FIGURES: dict[str, tuple[Callable[[RunRecord], float], int, str]] = {
    "ACC, %": (percent("acc"), 2, ""),
    "BWT, points": (percent("bwt"), 2, "+"),
    "FWT, points": (percent("fwt"), 2, "+"),
    "forgetting, points": (percent("forgetting"), 2, ""),
    "images remembered": (lambda record: sum(record.memory["images_per_task"]), 0, ""),
    "bytes of memory": (memory_bytes, 0, ""),
    "bytes beside": (bytes_beside, 0, ""),
    "seconds": (lambda record: record.seconds["total"], 1, ""),
}
# what is compared, its digits, and whether a plus is shown


def compare(first: RunRecord, second: RunRecord) -> str:
    """Figures with their difference, second less first; then every setting that differs. Unequal terms are refused."""
    if wrong := differing(first, second):
        raise DataError(
            f"these runs are on different terms, and their figures do not compare: {told(wrong)}; "
            "samc report shows each among its equals"
        )
    lines = [("", name(first), name(second), "difference")]
    for label, (figure, digits, sign) in FIGURES.items():
        a, b = figure(first), figure(second)
        lines.append((label, number(a, digits, sign), number(b, digits, sign), number(b - a, digits, "+")))
    settings = [(label, a, b, "") for label, (a, b) in differing_settings(first, second).items()]
    widths = [max(len(line[place]) for line in [*lines, *settings]) for place in range(4)]
    text = [aligned(line, widths) for line in lines]
    told_settings = ["", "settings that differ", *(aligned(line, widths) for line in settings)]
    return "\n".join([*text, *(told_settings if settings else ["", "no setting differs"])])


def name(record: RunRecord) -> str:
    seed = record.config.get("seed")
    return f"{record.config.get('model', 'a run')}" + ("" if seed is None else f", seed {seed}")


def differing_settings(first: RunRecord, second: RunRecord) -> dict[str, tuple[str, str]]:
    """Settings, machine and versions with both values."""
    a, b = ({**record.config, "machine": record.device.get("name"), **record.versions} for record in (first, second))
    names = [each for each in dict.fromkeys((*a, *b)) if a.get(each, ABSENT) != b.get(each, ABSENT)]
    return {each: (setting(a.get(each, ABSENT)), setting(b.get(each, ABSENT))) for each in names}


def setting(value: Any) -> str:
    """As it is written; a dash where a method does not take it."""
    return NOTHING if value is None else str(value)


def aligned(line: tuple[str, ...], widths: list[int]) -> str:
    first, *others = line
    cells = [first.ljust(widths[0]), *(text.rjust(width) for text, width in zip(others, widths[1:], strict=True))]
    return "  ".join(cells).rstrip()
