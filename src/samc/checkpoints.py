"""Checkpoints: the whole state of a run while it goes on, the last two of them, each written whole or not at all."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samc.errors import ConfigError, DataError
from samc.files import remove_temporaries
from samc.state import load_state, save_state
from samc.version import VERSION

KIND = "checkpoint"
NAME = "checkpoint-{:06d}.safetensors"
PATTERN = "checkpoint-" + "[0-9]" * 6 + ".safetensors"
KEPT = 2
FIRST_GUESS = 0.03
# seconds that a save takes, before one has been made
EVERY = "60s"
# by default, besides the end of each task
LEAST_PAUSE = 100
# times as long as a save takes is the pause after it at the least, so that saving takes under a hundredth of a run


@dataclass
class Checkpoints:
    """Of one run, in its folder. `every` is a number of steps, such as 500, or of seconds, such as 60s.

    With `discard_others`, what a run cannot go on from is removed instead of refused.
    """

    folder: Path
    every: str = EVERY
    discard_others: bool = False
    steps: int | None = None
    seconds: float | None = None
    notes: list[str] = field(default_factory=list)
    # what somebody should know: a checkpoint that was damaged, one that could not be written

    def __post_init__(self) -> None:
        found = re.fullmatch(r"(\d{1,9})|(\d{1,9}(?:\.\d{1,9})?)s", self.every, re.ASCII)
        if not found or not float(found[1] or found[2]):
            raise ConfigError(f"--checkpoint-every is a number of steps or of seconds, as 500 or 60s; got {self.every}")
        self.steps, self.seconds = (int(found[1]), None) if found[1] else (None, float(found[2]))
        self.saved_at, self.took, self.since = time.perf_counter(), FIRST_GUESS, 0

    @property
    def paths(self) -> list[Path]:
        """Those that are there, the oldest first."""
        return sorted(self.folder.glob(PATTERN))

    def due(self) -> bool:
        """Asked after every step: whether now is the time for one."""
        self.since += 1
        if self.steps is not None:
            return self.since >= self.steps
        return time.perf_counter() - self.saved_at >= max(self.seconds or 0, LEAST_PAUSE * self.took)

    def affordable(self) -> bool:
        """Whether one that nobody asked for, such as at a task's end, would leave saving under its share of time."""
        return self.steps is not None or time.perf_counter() - self.saved_at >= LEAST_PAUSE * self.took

    def save(self, make_state: Callable[[], dict[str, Any]]) -> bool:
        """Write one more and drop the oldest; returns whether it could be written. If not, the others stay."""
        began, earlier = time.perf_counter(), self.paths
        number = int(earlier[-1].stem.rpartition("-")[2]) + 1 if earlier else 1
        path = self.folder / NAME.format(number)
        try:
            save_state(path, KIND, make_state(), replace=True)
            for old in earlier[: len(earlier) + 1 - KEPT]:
                old.unlink(missing_ok=True)
        except (OSError, TypeError) as error:  # a full disk, or a method whose state is of things that no file holds
            why = getattr(error, "strerror", None) or error
            self.notes.append(f"no checkpoint could be written to {self.folder} ({why}); the run went on")
        self.saved_at, self.since = time.perf_counter(), 0
        self.took = self.saved_at - began
        return path.exists()

    def last(self) -> dict[str, Any] | None:
        """The newest that is whole, or None where there is none; where all are damaged, a DataError."""
        remove_temporaries(self.folder)
        problems = []
        for path in reversed(self.paths):
            try:
                state, version = load_state(path, KIND)
            except DataError as error:
                problems.append(str(error))
                continue
            if version != VERSION:
                wrote = f"{path} was written by samc {version}, this is samc {VERSION}, which may compute otherwise"
                raise DataError(f"{wrote}; go on with that version, or remove {self.folder} and begin again")
            self.notes += [f"{problem}; the checkpoint before it is whole" for problem in problems]
            return state
        if problems:
            remedy = f"remove the checkpoints in {self.folder} to begin again"
            raise DataError(f"no checkpoint is whole: {'; '.join(problems)}; {remedy}")
        return None

    def clear(self) -> None:
        """The run has ended, and what it leaves is written."""
        for path in self.paths:
            path.unlink(missing_ok=True)
        remove_temporaries(self.folder)
