"""Finetune: plain SGD on whatever comes, with nothing kept. The floor that every other method must beat."""

from torch import Tensor

from samc.gradients import Batch
from samc.learners.base import NetworkLearner, StepStats


class Finetune(NetworkLearner):
    """θ ← θ − α·g, and no memory."""

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        x, y = self.admit(x, y, task)
        with self.clock("current gradient"):
            g, loss = self.engine.gradient([Batch(x, y, task)])
            self.step(g)
        return StepStats(loss)
