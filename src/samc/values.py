"""What a value in a stranger's JSON file may be: numbers, counts, fractions, texts, and lists of them."""

import math
from collections.abc import Callable
from typing import Any

from samc.config import LARGEST_FLOAT, LARGEST_NUMBER, LONGEST_TEXT
from samc.errors import shortened

LARGEST_COUNT = 2**53 - 1
# beyond it, JSON's numbers are not the same everywhere
MOST_CLASSES = 65_536


def no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else no_number(shortened(text, 40))


def whole(text: str) -> int:
    value = int(text)
    return value if abs(value) <= LARGEST_NUMBER else int(no_number(shortened(text, 40)))


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LARGEST_COUNT


def is_fraction(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def is_change(value: Any) -> bool:
    return is_number(value) and -1 <= value <= 1


def is_amount(value: Any) -> bool:
    return is_number(value) and value >= 0


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_COUNT


def is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def is_scalar(value: Any) -> bool:
    """Whatever a setting may be, a record may say."""
    if type(value) in (int, float):
        return abs(value) <= (LARGEST_NUMBER if type(value) is int else LARGEST_FLOAT)
    return value is None or isinstance(value, bool) or is_text(value)


def is_seed(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_NUMBER


def is_matrix(value: Any) -> bool:
    """Before a task has been learnt, it may be untested."""
    if not isinstance(value, list) or not value or not all(isinstance(row, list) and row for row in value):
        return False
    entries = [(learnt, task, entry) for learnt, row in enumerate(value) for task, entry in enumerate(row)]
    tested = all(is_fraction(entry) or (entry is None and learnt <= task) for learnt, task, entry in entries)
    return len(set(map(len, value))) == 1 and tested


def are(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(holds, value))


def perhaps(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


def is_order(value: Any) -> bool:
    return are(are(is_count))(value) and sum(map(len, value)) <= MOST_CLASSES


def is_shape(value: Any) -> bool:
    return are(is_count)(value) and len(value) == 3 and all(1 <= side <= MOST_CLASSES for side in value)


def is_setting(value: Any) -> bool:
    return is_scalar(value) or are(is_scalar)(value)
