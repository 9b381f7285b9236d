"""MER (Riemer et al. 2019): steps on batches mixed with memory, and a Reptile step back from where they led."""

from dataclasses import dataclass

import torch
from torch import Tensor

from samc.config import setting
from samc.engine import Batch, flat_parameters
from samc.learners.contract import StepStats
from samc.learners.er import ERSettings
from samc.learners.inputs import Images, Labels, TaskId
from samc.learners.rehearsal import RehearsalLearner
from samc.learners.sampling import pick

GRID = "the paper's grid goes from 0.003 to 1"
ONE = "the paper sets it to 1"


@dataclass(frozen=True, kw_only=True)
class MERSettings(ERSettings):
    """Settings of MER."""

    meta_lr: float = setting(0.1, "Reptile's rate across batches; 1 goes all the way", above=0, hint=GRID)
    within_meta_lr: float = setting(1.0, "Reptile's rate within a batch", above=0, hint=GRID)
    meta_batches: int = setting(1, "batches, each mixed with memory anew, per Reptile step", least=1, hint=ONE)
    inner_steps: int = setting(1, "SGD steps, each on a part, per batch", least=1, hint=ONE)
    meta_statistics: bool = setting(
        False, "whether Reptile's steps take batch norm's running statistics along", before=False
    )

    def idle(self) -> dict[str, str]:
        mixed = {"replay_one_by_one": "with --inner-steps above 1, whose parts mix batch and replay; leave it out"}
        repeated = {"steps_per_batch": "with mer, whose --meta-batches they are; leave it out"}
        return super().idle() | repeated | (mixed if self.inner_steps > 1 else {})


class MER(RehearsalLearner):
    """θ ← θ₀ + γ·(θ_s − θ₀) after s batches; within each, θ ← θ_i + β·(θ_iK − θ_i) after K steps of SGD.

    Reptile moves weights only in the direction that all those steps agree on, which aligns the tasks' gradients.
    """

    Settings = MERSettings

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch = self.augmented(self.as_batch(x, y, task))
        losses = []
        with self.clock("current gradient"):
            start = self.point()
            for _ in range(self.settings.meta_batches):
                batch_start = self.point()
                drawn = self.replay.draw(len(y))
                for images, weights in self.parts([batch, *drawn], self.replay.weights(batch, drawn)):
                    g, loss = self.engine.gradient(images, weights, self.held(), apart=self.replay.alone)
                    self.engine.step(g, self.settings.lr)
                    losses.append(loss)
                self.step_back(batch_start, self.settings.within_meta_lr)
            self.step_back(start, self.settings.meta_lr)
            if self.average:
                self.average.follow(self.engine)
        self.remember(x, y, batch.only_task)
        return StepStats(torch.stack(losses).mean())

    def parts(self, batches: list[Batch], weights: Tensor | None) -> list[tuple[list[Batch], Tensor | None]]:
        """What each inner step learns from, with its weights: everything at once, or parts of it in random order."""
        if self.settings.inner_steps == 1:
            return [(batches, weights)]
        order = torch.randperm(sum(len(batch.y) for batch in batches), generator=self.random)
        parts = [rows.sort().values for rows in order.chunk(self.settings.inner_steps)]
        return [([pick(batches, rows)], None if weights is None else weights[rows]) for rows in parts]

    def point(self) -> tuple[Tensor, list[Tensor]]:
        """A copy of the parameters, and of running statistics where Reptile takes them along."""
        return flat_parameters(self.model), [values.clone() for values in self.statistics()]

    def statistics(self) -> list[Tensor]:
        buffers = self.model.backbone.buffers() if self.settings.meta_statistics else ()
        return [values for values in buffers if values.is_floating_point()]

    def step_back(self, start: tuple[Tensor, list[Tensor]], rate: float) -> None:
        """θ ← start + rate·(θ − start), written as a step from θ so that rate 1 changes nothing at all."""
        parameters, statistics = start
        self.engine.step(flat_parameters(self.model) - parameters, 1 - rate)
        if statistics:
            torch._foreach_lerp_(self.statistics(), statistics, 1 - rate)
