"""A watcher that logs a run: the loss as it goes on, and at each task's end accuracies, bytes, seconds and pictures."""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from samc import metrics
from samc.errors import printable
from samc.learners.contract import Learner, StepStats
from samc.loggers import LOGGERS, Entry, Logger, checked_loggers
from samc.memory import EpisodicMemory
from samc.memory.notebook import gallery
from samc.protocol import Watcher
from samc.streams.base import Stream, Task

EVERY = 10
# steps whose mean loss is one entry; reading it makes the host wait for the device


@dataclass(frozen=True)
class Logs:
    """Which logs a run writes, and where."""

    folder: str | Path
    names: Sequence[str]


class LogWatcher(Watcher):
    """Never changes a run and never ends one: a log that cannot be written is given up, which `warn` is told once."""

    def __init__(
        self, logs: Logs, config: Mapping[str, Any] | None = None, warn: Callable[[str], object] = warnings.warn
    ):
        self.names = checked_loggers(logs.names)
        self.logs, self.config, self.warn = logs, config or {}, warn
        self.loggers: dict[str, Logger] | None = None  # opened when there is something to write
        self.resumed = False
        self.learner: Any = None
        self.steps: Sequence[int] = ()
        self.places: dict[int, int] = {}  # of tasks in the stream, by their number
        self.losses: list[Tensor] = []
        self.rows: dict[int, list[float]] = {}  # by how many tasks had been learnt
        self.started, self.before = 0.0, dict[str, float]()

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None:
        self.learner, self.steps, self.started = learner, steps, time.perf_counter()
        self.places = {task.id: place for place, task in enumerate(stream)}

    def step(self, task: Task, number: int, x: Tensor, stats: StepStats) -> None:
        self.losses.append(stats.loss.detach())
        place, done = self.places[task.id], number + 1
        if done % EVERY == 0 and done < self.steps[place]:  # the last loss comes with the task's end
            self.write(Entry(sum(self.steps[:place]) + done, {"task": place + 1.0, **self.loss()}))

    def loss(self) -> dict[str, float]:
        """The mean since the last entry."""
        losses, self.losses = self.losses, []
        mean = float(torch.stack(losses).mean()) if losses else math.nan
        return {"loss": mean} if math.isfinite(mean) else {}  # JSON has no other numbers

    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None:
        self.rows[tasks_learnt] = accuracies
        scalars = {"task": float(tasks_learnt), **self.loss()}
        if tasks_learnt:
            scalars["ACC"] = float(np.mean(accuracies[:tasks_learnt]))
        seen = [self.rows[number][:tasks_learnt] for number in range(tasks_learnt + 1) if number in self.rows]
        if tasks_learnt and len(seen) == tasks_learnt + 1:  # of a run that continues another some rows are not known
            scalars["BWT"] = metrics.backward_transfer(seen)
        scalars |= {f"accuracy/task {number}": value for number, value in enumerate(accuracies, start=1)}
        memory = self.learner.memory_report()
        held = {"bytes": memory["memory_bytes"], "images": sum(memory["images_per_task"])}
        scalars |= {f"memory/{name}": float(value) for name, value in held.items()}
        scalars |= {f"bytes/{part}": float(size) for part, size in memory["bytes_by_part"].items()}
        scalars |= {f"seconds/{phase}": value for phase, value in self.seconds().items()}
        kept = getattr(self.learner, "memory", None)
        pictures = {"gallery": gallery(kept)} if isinstance(kept, EpisodicMemory) and kept.tasks else {}
        named = {printable(name): value for name, value in scalars.items()}  # a method of one's own names its parts
        self.write(Entry(sum(self.steps[:tasks_learnt]), named, pictures))
        if tasks_learnt == len(self.steps):
            self.close()

    def seconds(self) -> dict[str, float]:
        """By phase, and in total, of everything before an interruption too."""
        now = {**self.learner.seconds(), "total": time.perf_counter() - self.started}
        return {name: self.before.get(name, 0.0) + now.get(name, 0.0) for name in {**self.before, **now}}

    def state_dict(self) -> dict[str, Any]:
        return {"losses": [float(loss) for loss in self.losses], "rows": self.rows, "seconds": self.seconds()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.resumed, self.rows, self.before = True, state["rows"], state["seconds"]
        self.losses = [torch.tensor(loss) for loss in state["losses"]]

    # Where it goes

    def write(self, entry: Entry) -> None:
        if self.loggers is None:
            self.loggers = {}
            for name in self.names:
                with self.given_up_if_it_fails(name):
                    folder = Path(self.logs.folder)
                    folder.mkdir(parents=True, exist_ok=True)
                    self.loggers[name] = LOGGERS[name](folder, self.config, resumed=self.resumed)
        for name, logger in list(self.loggers.items()):
            with self.given_up_if_it_fails(name):
                if entry.step > logger.last:
                    logger.write(entry)

    @contextmanager
    def given_up_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever it is: a log is not worth a run
            logger = (self.loggers or {}).pop(name, None)
            if logger is not None:
                with suppress(Exception):
                    logger.close()
            why = getattr(error, "strerror", None) or error or type(error).__name__
            self.warn(f"the log {name} in {self.logs.folder} has been given up ({why}); the run went on")

    def close(self) -> None:
        """End every log that is still written; more than once does no harm."""
        open_loggers, self.loggers = self.loggers or {}, {}
        for name, logger in open_loggers.items():
            with self.given_up_if_it_fails(name):
                logger.close()
