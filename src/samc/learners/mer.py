"""MER (Riemer et al. 2019): steps on batches mixed with memory, and a Reptile step back from where they led."""

import math
from typing import Any

import torch
from torch import Tensor

from samc.errors import ConfigError
from samc.gradients import Batch, descend, flat_parameters
from samc.learners.base import StepStats
from samc.learners.rehearsal import RehearsalLearner, chosen


class MER(RehearsalLearner):
    """θ ← θ₀ + γ·(θ_s − θ₀) after s batches; within each, θ ← θ_i + β·(θ_iK − θ_i) after K steps of SGD.

    Reptile moves weights only in the direction that all those steps agree on, which aligns the tasks' gradients.
    """

    settings = (*RehearsalLearner.settings, "meta_lr", "within_meta_lr", "meta_batches", "inner_steps")
    default_keeps = "sample"

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        meta_lr: float = 0.1,
        within_meta_lr: float = 1.0,
        meta_batches: int = 1,
        inner_steps: int = 1,
        **rehearsal: Any,
    ):
        super().__init__(num_classes, image_shape, **rehearsal)
        for name, value in (("meta-lr", meta_lr), ("within-meta-lr", within_meta_lr)):
            if not 0 < value < math.inf:
                raise ConfigError(f"{name} is above 0, got {value}; the paper's grid goes from 0.003 to 1")
        if meta_batches < 1 or inner_steps < 1:
            found = f"{meta_batches} and {inner_steps}"
            raise ConfigError(f"meta-batches and inner-steps are at least 1, got {found}; the paper sets both to 1")
        self.meta_lr, self.within_meta_lr = meta_lr, within_meta_lr
        self.meta_batches, self.inner_steps = meta_batches, inner_steps

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        batch = Batch(*self.admit(x, y, task), task)
        memories = self.past()
        losses = []
        with self.clock("current gradient"):
            start = flat_parameters(self.model)
            for _ in range(self.meta_batches):
                batch_start = flat_parameters(self.model)
                for part in self.parts([batch, *self.sample(memories, len(y))]):
                    g, loss = self.engine.gradient(part)
                    self.step(g)
                    losses.append(loss)
                self.step_back(batch_start, self.within_meta_lr)
            self.step_back(start, self.meta_lr)
        self.remember(x, y, task)
        return StepStats(torch.stack(losses).mean())

    def parts(self, batches: list[Batch]) -> list[list[Batch]]:
        """What each inner step learns from: everything at once, or parts of it in random order."""
        if self.inner_steps == 1:
            return [batches]
        order = torch.randperm(sum(len(batch.y) for batch in batches), generator=self.random)
        return [chosen(batches, rows) for rows in order.chunk(self.inner_steps)]

    def step_back(self, start: Tensor, rate: float) -> None:
        """θ ← start + rate·(θ − start), written as a step from θ so that rate 1 changes nothing at all."""
        descend(self.model, flat_parameters(self.model) - start, 1 - rate)
