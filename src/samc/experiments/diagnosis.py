"""The diagnosis of a SAMC run: watches it, keeps true images aside, and measures how far the paper's claims held."""

import copy
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from samc.clock import Clock
from samc.config import before_they_were, flag
from samc.engine import Batch
from samc.errors import ConfigError
from samc.experiments.claims import SHORT_STEP, MemoryClaims, StepClaims, examine_memory, examine_step
from samc.learners.contract import Learner, StepStats
from samc.learners.samc import SAMC
from samc.learners.settings import KeepingSettings
from samc.models import Classifier
from samc.protocol import Watcher
from samc.streams.base import Stream, Task

STEPS_PER_TASK = 5
# how many steps of each task after the first are measured, the first and the last among them

PLAIN = {"keeps": "newest", "steps_per_batch": 1, **before_they_were(KeepingSettings)}
# what the claims are about: true images go as the memory's do, and a step is that of one gradient on these very images

NOTES = {
    "true images": "kept aside for this diagnosis only: the method never sees them, and its memory does not count them",
    "lemma 1": "loss of the completed memory before and after the applied step, and after a step "
    f"{SHORT_STEP:g} times as long; acute where the applied step has no negative product with the memory's gradient",
    "lemma 2": "|f(x) - f(x~)| of the label's logit in eval mode against threshold * max|x - x~| * sqrt(d), "
    "d values per image (printed with d^-2 in the paper, sqrt(d) in its proof)",
    "theorem 1": "sign of the current gradient's product with the completed memory's gradient against that with the "
    "true images' gradient, before projection",
    "reconstruction": "over all pixels of a task's memory together; inside is what the codec kept, outside what it "
    "dropped; PSNR is null where the error is 0 or there are no such pixels; an SSIM window counts where its centre is",
}


class Diagnosis(Watcher):
    """Measures at chosen steps and after each task, on copies: the run goes on as if nothing had been measured."""

    def __init__(self) -> None:
        self.true_images: dict[int, deque[tuple[Tensor, int]]] = {}
        self.most_true_bytes = 0
        self.truths: dict[int, Batch] = {}
        self.before: Classifier | None = None
        self.steps: list[StepClaims] = []
        self.memories: list[MemoryClaims] = []
        self.seconds_before = 0.0

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None:
        if not isinstance(learner, SAMC):
            name = type(learner).__name__.lower()
            raise ConfigError(
                f"--diagnose measures completed memories, {name} has none; use --model samc or leave it out"
            )
        if not learner.scenario.told:
            raise ConfigError("--diagnose looks at each past task's memory; leave --boundaries hidden out")
        given = {name: getattr(learner.settings, name) for name in PLAIN if name not in learner.settings.idle()}
        others = [flag(name) for name, value in given.items() if value != PLAIN[name]]
        if others:
            raise ConfigError(
                "--diagnose measures plain steps and a memory of the newest images, which "
                f"{', '.join(others)} change; use --preset paper without them, or leave it out"
            )
        if learner.memory.tasks:
            raise ConfigError("--diagnose needs to see every image that is remembered; begin with an empty memory")
        self.learner = learner
        self.clock = Clock(learner.device)
        self.chosen = [evenly_spread(count, STEPS_PER_TASK) for count in steps]

    def before_step(self, task: Task, number: int, x: Tensor, y: Tensor) -> None:
        self.true_images.setdefault(task.id, deque()).extend(zip(x.cpu(), y.tolist(), strict=True))
        if self.truths and number in self.chosen[task.id]:
            with self.clock("diagnosis"):
                self.batch = Batch(self.learner.as_images(x), y.to(self.learner.device, torch.int64), task.id)
                self.before = copy.deepcopy(self.learner.model)

    def step(self, task: Task, number: int, x: Tensor, stats: StepStats) -> None:
        self.drop_forgotten()
        if self.before is not None:
            with self.clock("diagnosis"):
                after, past = copy.deepcopy(self.learner.model), self.learner.past
                self.steps += examine_step(
                    self.before,
                    after,
                    lr=self.learner.settings.lr,
                    number=number,
                    batch=self.batch,
                    completed=past,
                    truths=self.truths,
                )
            self.before = None

    def drop_forgotten(self) -> None:
        """First in, first out: a task's memory holds the newest images that it was shown, and so does this."""
        for task, images in self.learner.memory.images_per_task.items():
            while len(self.true_images[task]) > images:
                self.true_images[task].popleft()
        size = sum(x.nbytes for pairs in self.true_images.values() for x, _ in pairs)
        self.most_true_bytes = max(self.most_true_bytes, size)

    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None:
        """Between two tasks: completed memories are now what the next task will replay."""
        if not tasks_learnt:
            return
        learner = self.learner
        with self.clock("diagnosis"):
            self.truths = {task: self.true_batch(task) for task in learner.memory.tasks}
            for task, truth in self.truths.items():
                images, masks, _ = learner.memory.recall(task)
                completed = learner.complete(images, masks)
                self.memories.append(
                    examine_memory(
                        learner.model,
                        tasks_learnt=tasks_learnt,
                        truth=truth,
                        completed=completed,
                        masks=masks,
                        threshold=learner.settings.threshold,
                    )
                )

    def true_batch(self, task: int) -> Batch:
        """The true images of a task's memory, in its order."""
        images, labels = zip(*self.true_images[task], strict=True)
        y = torch.tensor(labels)
        assert y.tolist() == self.learner.memory.recall(task)[2].tolist(), "the memory is not first in, first out"
        # laid out as completed images are: where nothing was lost, the same bits must come out of the network
        x = self.learner.as_images(torch.stack(images)).contiguous(memory_format=torch.channels_last)
        return Batch(x, y.to(self.learner.device), task)

    def state_dict(self) -> dict[str, Any]:
        return {
            "true_images": {task: list(pairs) for task, pairs in self.true_images.items()},
            "most_true_bytes": self.most_true_bytes,
            "truths": {task: (truth.x, truth.y) for task, truth in self.truths.items()},
            "steps": [asdict(claims) for claims in self.steps],
            "memories": [asdict(claims) for claims in self.memories],
            "seconds": self.seconds(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        device = self.learner.device
        self.true_images = {task: deque(pairs) for task, pairs in state["true_images"].items()}
        self.most_true_bytes, self.seconds_before = state["most_true_bytes"], state["seconds"]
        self.truths = {
            task: Batch(x.to(device).contiguous(memory_format=torch.channels_last), y.to(device), task)
            for task, (x, y) in state["truths"].items()
        }
        self.steps = [StepClaims(**claims) for claims in state["steps"]]
        self.memories = [MemoryClaims(**claims) for claims in state["memories"]]

    def seconds(self) -> float:
        return self.seconds_before + self.clock.seconds().get("diagnosis", 0.0)

    def report(self) -> dict[str, Any]:
        """For the record: what was measured, summarised by task and then in full."""
        return {
            "notes": NOTES,
            "true_bytes_aside": self.most_true_bytes,
            "seconds": self.seconds(),
            "tasks": [
                summarise([c for c in self.steps if c.past_task == last.task], last)
                for last in self.memories
                if last.tasks_learnt == self.memories[-1].tasks_learnt
            ],
            "steps": [as_json(asdict(claims)) for claims in self.steps],
            "memories": [as_json(asdict(claims)) for claims in self.memories],
        }


def evenly_spread(count: int, wanted: int) -> set[int]:
    """So many of `count` places, from the first to the last; all of them if there are fewer."""
    return {round(number) for number in torch.linspace(0, count - 1, min(wanted, count)).tolist()}


def summarise(steps: Sequence[StepClaims], last: MemoryClaims) -> dict[str, Any]:
    """One past task over all its measured steps, and its memory as the run left it; a mean of nothing is None."""
    acute, obtuse = [c for c in steps if c.acute], [c for c in steps if not c.acute]
    summary = {
        "task": last.task,
        "measured_steps": len(steps),
        "acute": mean(c.acute for c in steps),
        "fell_when_acute": mean(c.fell for c in acute),
        "fell_when_acute_after_short_step": mean(c.fell_after_short_step for c in acute),
        "fell_when_obtuse": mean(c.fell for c in obtuse),
        "signs_agree": mean(c.signs_agree for c in steps),
        "truly_acute_when_acute": mean(c.product_true > 0 for c in steps if c.product_completed > 0),
        "reference_cosine": mean(c.reference_cosine for c in steps),
    }
    return as_json(summary | {name: value for name, value in asdict(last).items() if name != "tasks_learnt"})


def as_json(measures: dict[str, Any]) -> dict[str, Any]:
    """With None for what JSON cannot hold: the PSNR of what is exact, and the output of a diverged network."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in measures.items()
    }


def mean(values: Iterable[float]) -> float | None:
    values = [float(value) for value in values]
    return fmean(values) if values else None
