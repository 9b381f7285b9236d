"""Budgets: how many bytes a memory may hold, per task or for all tasks together."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from samc.config import Terms, check_setting
from samc.errors import ConfigError
from samc.memory.codec import Shape, label_type

Accounting = Literal["bytes", "values"]
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

LARGEST_BUDGET = 2**53 - 1
# beyond it, the numbers of a memory's file are not the same everywhere


@dataclass(frozen=True, repr=False)
class Budget:
    """So many bytes per task, or for all tasks together, shared evenly among those that have begun."""

    total: int
    per_task: bool = True

    def __post_init__(self) -> None:
        if self.total > LARGEST_BUDGET:
            raise ConfigError(f"a budget is at most {LARGEST_BUDGET:,} bytes, got {self.total:,}; write 30KB/task")

    def __repr__(self) -> str:
        return f"Budget({self})"

    def __str__(self) -> str:
        return f"{self.total:,} bytes {'per task' if self.per_task else 'for all tasks'}"


def budget_of(
    image_shape: Shape,
    num_classes: int | None,
    buffer_size: int,
    accounting: Accounting,
    memory_bytes: str | None = None,
) -> Budget:
    """The budget that `memory_bytes` says; without it, what `buffer_size` raw images take per task.

    `num_classes` is None where it is not known.
    """
    image_bytes = raw_image_bytes(image_shape, num_classes, accounting)
    if memory_bytes is not None:
        return parse_budget(memory_bytes)
    check_setting(Terms, "buffer_size", buffer_size)
    return Budget(buffer_size * image_bytes)


def parse_budget(text: str) -> Budget:
    """30KB/task, or 600KB for all tasks together; KB are thousands, KiB are 1,024."""
    parsed = re.fullmatch(r"(\d{1,40}(?:\.\d{1,15})?)\s*([kmg]?i?b?)(/task)?", text.strip().lower())
    if parsed is None or parsed[2] not in UNITS or (size := int(float(parsed[1]) * UNITS[parsed[2]])) < 1:
        raise ConfigError(f"memory-bytes is like 30KB/task, or 600KB for all tasks together; got {text!r}")
    return Budget(size, per_task=parsed[3] is not None)


def raw_image_bytes(image_shape: Shape, num_classes: int | None, accounting: Accounting) -> int:
    """What `buffer_size` counts: one raw image, with its label where every byte counts."""
    check_setting(Terms, "accounting", accounting)
    label_bytes = label_type(num_classes).itemsize if accounting == "bytes" else 0
    return int(np.prod(image_shape)) + label_bytes
