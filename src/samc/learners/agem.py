"""A-GEM (Chaudhry et al. 2019): GEM with one constraint, the mean gradient of a sample of all past memories."""

from jaxtyping import Float
from torch import Tensor

from samc.gradients import Batch
from samc.learners.rehearsal import RehearsalLearner
from samc.projection import project

REFERENCE_IMAGES = 256
# the most images behind the one reference gradient, as in the authors' code for Split CIFAR


class AGEM(RehearsalLearner):
    """θ ← θ − α·(g − min(0, ⟨g, r⟩/⟨r, r⟩)·r), where r is the gradient on the sample."""

    def replay_rule(self, batch: Batch, memories: list[Batch]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        with self.clock("gradients"):
            rows, loss = self.engine.gradients([self.sample(memories, REFERENCE_IMAGES)], batch)
        with self.clock("projection"):
            # a half-space instead of a cone: no margin, and nothing that a ridge would have to tell apart
            return project(rows[-1], rows[:-1], margin=0.0, ridge=0.0), loss
