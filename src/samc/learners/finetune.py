"""Finetune: plain SGD on whatever comes, with nothing kept: what every method with a memory should beat."""

from samc.learners.base import NetworkLearner
from samc.learners.contract import StepStats
from samc.learners.inputs import Images, Labels, TaskId
from samc.learners.settings import HoldingSettings


class Finetune(NetworkLearner):
    """θ ← θ − α·g, and no memory."""

    Settings = HoldingSettings

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch = self.augmented(self.as_batch(x, y, task))
        with self.clock("current gradient"):
            g, loss = self.engine.gradient([batch], held=self.held())
            self.step(g)
        return StepStats(loss)
