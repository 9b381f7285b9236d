"""LwF (Li and Hoiem 2016): learn the new task while the old heads go on answering as the old network did."""

from dataclasses import dataclass

from samc.config import setting
from samc.learners.contract import StepStats
from samc.learners.distillation import DistillingLearner, DistillingSettings
from samc.learners.inputs import Images, Labels, TaskId


@dataclass(frozen=True, kw_only=True)
class LwFSettings(DistillingSettings):
    """Settings of LwF."""

    temperature: float = setting(
        2.0, "how much the outputs that are distilled are softened", above=0, hint="LwF's paper uses 2"
    )


class LwF(DistillingLearner):
    """θ ← θ − α·∇(cross-entropy + λ·Σ_{k<t} distillation of head k on the new images); no image is kept."""

    Settings = LwFSettings

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch, settings = self.augmented(self.as_batch(x, y, task)), self.settings
        with self.clock("current gradient"):
            weight, temperature = settings.regularization, settings.temperature
            g, loss = self.teacher.gradient(self.engine, batch, [], weight, temperature, 0.0)
            self.step(g)
        return StepStats(loss)
