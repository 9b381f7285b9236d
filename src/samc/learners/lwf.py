"""LwF (Li and Hoiem 2016): learn the new task while the old heads go on answering as the old network did."""

import math
from typing import Any

from torch import Tensor

from samc.errors import ConfigError
from samc.gradients import Batch
from samc.learners.base import StepStats
from samc.learners.distillation import DistillingLearner


class LwF(DistillingLearner):
    """θ ← θ − α·∇(cross-entropy + λ·Σ_{k<t} distillation of head k on the new images); no image is kept."""

    settings = (*DistillingLearner.settings, "regularization", "temperature")

    def __init__(
        self, num_classes: int, image_shape: tuple[int, int, int], *, temperature: float = 2.0, **distilling: Any
    ):
        super().__init__(num_classes, image_shape, **distilling)
        if not 0 < temperature < math.inf:
            raise ConfigError(f"temperature is above 0, got {temperature}; LwF's paper uses 2")
        self.temperature = temperature

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        x, y = self.admit(x, y, task)
        with self.clock("current gradient"):
            batch = Batch(x, y, task)
            g, loss = self.teacher.gradient(self.engine, batch, [], self.regularization, self.temperature)
            self.step(g)
        return StepStats(loss)
