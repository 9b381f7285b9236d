"""Budgets: how many bytes a memory may hold, for each task or for all of them together."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from samc.errors import ConfigError
from samc.memory.codec import Shape, smallest_type

Accounting = Literal["bytes", "values"]
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@dataclass(frozen=True)
class Budget:
    """So many bytes for every task, or for all tasks together, shared out evenly among those that have come."""

    total: int
    per_task: bool = True

    def share(self, tasks: int) -> int:
        """What each task may hold when there are so many."""
        return self.total if self.per_task else self.total // max(1, tasks)


def budget_of(
    image_shape: Shape, num_classes: int, budget_images: int, accounting: Accounting, memory_bytes: str | None = None
) -> Budget:
    """From `memory_bytes` if it is given, else what so many whole images take, counted the same way."""
    whole = whole_image_bytes(image_shape, num_classes, accounting)
    if memory_bytes is not None:
        return parse(memory_bytes)
    if budget_images < 1:
        raise ConfigError(f"buffer-size is at least 1 image a task, got {budget_images}; the paper uses 10")
    return Budget(budget_images * whole)


def parse(text: str) -> Budget:
    """30KB/task, or 600KB for all tasks together; KB are thousands, KiB are 1,024."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?i?b?)(/task)?", text.strip().lower())
    if found is None or found[2] not in UNITS or (size := int(float(found[1]) * UNITS[found[2]])) < 1:
        raise ConfigError(f"memory-bytes is like 30KB/task, or 600KB for all tasks together; got {text!r}")
    return Budget(size, per_task=found[3] is not None)


def whole_image_bytes(image_shape: Shape, num_classes: int, accounting: Accounting) -> int:
    """What budgets are counted in: one raw image, with its label where everything counts."""
    if accounting not in ("bytes", "values"):
        raise ConfigError(f"accounting is bytes or values, got {accounting!r}")
    label = smallest_type(num_classes - 1).itemsize
    return int(np.prod(image_shape)) + (label if accounting == "bytes" else 0)
