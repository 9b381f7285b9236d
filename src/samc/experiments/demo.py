"""The demo: finetune, GEM and SAMC on the embedded stream at equal true bytes, and a look into SAMC's memory."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from samc.config import resolve
from samc.learners import build, method
from samc.learners.base import Learner, StepStats
from samc.learners.samc import SAMC
from samc.memory.selection import STEPS, stretched
from samc.protocol import Watcher, run
from samc.record import RunRecord
from samc.streams import Stream, Task, split_synthetic

MODELS = ("finetune", "gem", "samc")


@dataclass(frozen=True)
class Remembered:
    """One remembered image, from the truth to what replay sees; float arrays in [0, 1], channels last."""

    task: int
    name: str
    truth: np.ndarray
    saliency: np.ndarray
    mask: np.ndarray
    completed: np.ndarray
    nbytes: int


class Witness(Watcher):
    """Keeps the last images of each task aside, with their saliency as it was, for the picture and nothing else."""

    def __init__(self, last: int = 60):
        self.last = last
        self.seen: dict[int, deque[tuple[Tensor, np.ndarray]]] = {}

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None:
        self.stream, self.learner = stream, learner

    def step(self, task: Task, number: int, x: Tensor, stats: StepStats) -> None:
        assert stats.kept is not None
        pairs = self.seen.setdefault(task.id, deque(maxlen=self.last))
        pairs.extend(zip(x.cpu(), stretched(stats.kept.maps, *x.shape[2:]) / STEPS, strict=True))

    def remembered(self, per_task: int) -> list[Remembered]:
        """The newest memories of each task, one a class as far as they go, as the next task would replay them."""
        assert isinstance(self.learner, SAMC)
        found = []
        for task, pairs in self.seen.items():
            images, masks, labels = self.learner.memory.recall(task)
            completed = self.learner.complete(images, masks).permute(0, 2, 3, 1).cpu().numpy()
            items = list(self.learner.memory.shelves[task].items)
            newest = range(1, min(len(labels), len(pairs)) + 1)
            # first in, first out: the newest memories are the newest images seen, in the same order
            by_class = {int(labels[-back]): back for back in reversed(newest)}
            for label, back in sorted(by_class.items())[:per_task]:
                truth, saliency = pairs[-back]
                found.append(
                    Remembered(
                        task=task,
                        name=self.stream.class_names[label],
                        truth=truth.permute(1, 2, 0).numpy() / 255,
                        saliency=saliency,
                        mask=masks[-back],
                        completed=completed[-back],
                        nbytes=items[-back].nbytes,
                    )
                )
        return found


def demo(
    seed: int, device: torch.device, watcher: Callable[[str], Watcher]
) -> tuple[dict[str, RunRecord], list[Remembered]]:
    """Run the three methods; `watcher` makes one for each, by its name."""
    configs = {name: resolve({"model": name, "seed": seed}, method(name).settings)[0] for name in MODELS}
    stream = split_synthetic(seed)
    records, witness = {}, Witness()
    for name, config in configs.items():
        watchers = [watcher(name), *([witness] if name == "samc" else [])]
        records[name] = run(stream, build(config, stream, device), watchers=watchers, config=config.as_dict())
    return records, witness.remembered(per_task=3)
