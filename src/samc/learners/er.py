"""ER (Chaudhry et al. 2019): each batch is learnt together with as many images from a reservoir of the past."""

from jaxtyping import Float
from torch import Tensor

from samc.gradients import Batch
from samc.learners.rehearsal import RehearsalLearner


class ER(RehearsalLearner):
    """θ ← θ − α·∇ mean loss over B ∪ B_M, with B_M drawn uniformly from the memories of past tasks."""

    default_keeps = "sample"

    def replay_rule(self, batch: Batch, memories: list[Batch]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        with self.clock("current gradient"):
            return self.engine.gradient([batch, *self.sample(memories, len(batch.y))])
