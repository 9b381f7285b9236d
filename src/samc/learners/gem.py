"""GEM (Lopez-Paz and Ranzato 2017): whole images in memory, and a step that no past task's gradient objects to."""

import torch
from torch import Tensor

from samc.gradients import Batch
from samc.learners.base import NetworkLearner, StepStats
from samc.learners.rehearsal import RehearsalLearner


class GEM(RehearsalLearner):
    """θ ← θ − α·project(g, {g_k : k < t}); the last images of each task are kept whole."""

    settings = (*NetworkLearner.settings, "buffer_size", "accounting", "memory_strength")

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        x, y = self.admit(x, y, task)
        batch = Batch(x, y, task)
        g, loss = self.replayed_gradient(batch)
        self.step(g)
        self.remember(batch, torch.ones_like(x[:, 0], dtype=torch.bool))
        return StepStats(loss)
