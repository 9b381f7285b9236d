"""GEM (Lopez-Paz and Ranzato 2017): whole images in memory, and a step that no past task's gradient objects to."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from samc.errors import ConfigError
from samc.gradients import Batch
from samc.learners.agem import AGEM
from samc.learners.rehearsal import RehearsalLearner
from samc.projection import project


class GEM(RehearsalLearner):
    """θ ← θ − α·project(g, {g_k : k < t}); the last images of each task are kept whole."""

    settings = (*RehearsalLearner.settings, "memory_strength", "constraints", "reference_precision")

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        memory_strength: float = 0.5,
        constraints: str = "all",
        reference_precision: str = "float32",
        **rehearsal: Any,
    ):
        self.reference_precision = reference_precision
        super().__init__(num_classes, image_shape, **rehearsal)
        if not 0 <= memory_strength < math.inf:
            raise ConfigError(f"memory-strength is at least 0, got {memory_strength}; the paper uses 0.5")
        self.memory_strength = memory_strength
        self.mean_constraint, self.most_constraints = parse_constraints(constraints)

    def replay_rule(self, batch: Batch, memories: list[Batch]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        if self.mean_constraint:
            return AGEM.replay_rule(self, batch, memories)  # type: ignore[arg-type]
        with self.clock("gradients"):
            rows, loss = self.engine.gradients([[memory] for memory in self.constraining(memories)], batch)
        with self.clock("projection"):
            return project(rows[-1], rows[:-1], self.memory_strength), loss

    def constraining(self, memories: list[Batch]) -> list[Batch]:
        """The past tasks that this step must not harm: all, or so many drawn anew."""
        if len(memories) <= self.most_constraints:
            return memories
        drawn = torch.randperm(len(memories), generator=self.random)[: int(self.most_constraints)]
        return [memories[place] for place in drawn.sort().values.tolist()]


def parse_constraints(text: str) -> tuple[bool, float]:
    """Whether one mean gradient stands for all past tasks, and how many of them a step looks at."""
    kind, _, number = text.partition(":")
    if text in ("all", "mean"):
        return text == "mean", math.inf
    if kind == "sampled" and number.isdecimal() and int(number) > 0:
        return False, float(number)
    raise ConfigError(f"constraints are all, mean, or sampled:K with K from 1; got {text!r}")
