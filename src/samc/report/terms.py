"""The terms of a comparison: what has to be equal in two runs before their numbers may stand side by side."""

from collections.abc import Iterable, Mapping
from typing import Any

from samc.record import RunRecord

ABSENT = "absent"


def differing_terms(first: RunRecord, second: RunRecord, ignored: Iterable[str] = ()) -> dict[str, tuple[Any, Any]]:
    """The terms in which two runs differ, with both values."""
    names = dict.fromkeys((*first.fingerprint, *second.fingerprint))
    pairs = {name: (first.fingerprint.get(name, ABSENT), second.fingerprint.get(name, ABSENT)) for name in names}
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b and name not in tuple(ignored)}


def describe_differences(differences: Mapping[str, tuple[Any, Any]]) -> str:
    """In words: what differs, and both values; of long lists only the entry that differs."""
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
