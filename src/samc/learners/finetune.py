"""Finetune: plain SGD on whatever comes, with nothing kept. The floor that every other method must beat."""

from samc.learners.base import NetworkLearner, StepStats
from samc.learners.inputs import Images, Labels, TaskId


class Finetune(NetworkLearner):
    """θ ← θ − α·g, and no memory."""

    def observe(self, x: Images, y: Labels, task: TaskId) -> StepStats:
        batch = self.as_batch(x, y, task)
        with self.clock("current gradient"):
            g, loss = self.engine.gradient([batch])
            self.engine.step(g, self.settings.lr)
        return StepStats(loss)
