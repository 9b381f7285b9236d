"""GEM (Lopez-Paz and Ranzato 2017): whole images in memory, and a step that no past task's gradient objects to."""

import math
from typing import Any

from jaxtyping import Float
from torch import Tensor

from samc.errors import ConfigError
from samc.gradients import Batch, gradient, reference_gradients
from samc.learners.rehearsal import RehearsalLearner
from samc.projection import project


class GEM(RehearsalLearner):
    """θ ← θ − α·project(g, {g_k : k < t}); the last images of each task are kept whole."""

    settings = (*RehearsalLearner.settings, "memory_strength")

    def __init__(
        self, num_classes: int, image_shape: tuple[int, int, int], *, memory_strength: float = 0.5, **rehearsal: Any
    ):
        super().__init__(num_classes, image_shape, **rehearsal)
        if not 0 <= memory_strength < math.inf:
            raise ConfigError(f"memory-strength is at least 0, got {memory_strength}; the paper uses 0.5")
        self.memory_strength = memory_strength

    def replay_rule(self, batch: Batch, memories: list[Batch]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        with self.clock("reference gradients"):
            references = reference_gradients(self.model, memories)
        with self.clock("current gradient"):
            g, loss = gradient(self.model, [batch])
        with self.clock("projection"):
            return project(g, references, self.memory_strength), loss
