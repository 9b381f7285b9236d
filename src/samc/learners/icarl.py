"""iCaRL (Rebuffi et al. 2017): herded exemplars, distillation, and the nearest mean of exemplars as classifier."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from samc.learners.base import EVALUATION_BATCH, StepStats
from samc.learners.distillation import DistillingLearner, DistillingSettings
from samc.learners.inputs import Images, Labels, TaskId
from samc.learners.rehearsal import MemorySettings, RehearsalLearner
from samc.streams.base import Task

MOST_EXEMPLARS = 500
# of a class that are ranked; packed small, that many may fit


@dataclass(frozen=True, kw_only=True)
class ICaRLSettings(DistillingSettings, MemorySettings):
    """Settings of iCaRL; herding says what is kept."""


def herd(features: Float[Tensor, "n d"], count: int) -> Int64[Tensor, "m"]:
    """Which of these points to keep, best first: each brings the mean of those chosen nearest to the mean of all."""
    mean, total = features.mean(0), torch.zeros_like(features[0])
    taken = torch.zeros(len(features), dtype=torch.bool, device=features.device)
    order = []
    for number in range(1, min(count, len(features)) + 1):
        distances = (mean - (features + total) / number).norm(dim=1)
        best = distances.masked_fill(taken, math.inf).argmin()
        taken[best] = True
        total = total + features[best]
        order.append(best)
    return torch.stack(order) if order else torch.zeros(0, dtype=torch.int64, device=features.device)


def nearness(features: Float[Tensor, "b d"], means: Float[Tensor, "k d"]) -> Float[Tensor, "b k"]:
    """How near each point is to each mean: minus the distance."""
    return -torch.cdist(features, means, compute_mode="donot_use_mm_for_euclid_dist")


class ICaRL(DistillingLearner, RehearsalLearner):
    """θ ← θ − α·∇(cross-entropy on B + λ·Σ_{k<t} distillation of head k on B and on as many exemplars).

    With a replay weight, the exemplars' own cross-entropy is added so many times.

    An image belongs to the class, of its task's, whose exemplars' mean feature vector is nearest to its own. Where a
    class has no exemplar, before a task's end or in a budget of fewer images than classes, the head answers.
    """

    Settings = ICaRLSettings

    def observe(self, x: Images, y: Labels, task: TaskId) -> StepStats:
        batch = self.augmented(self.as_batch(x, y, task))
        exemplars = self.replay.draw(len(y))
        with self.clock("current gradient"):
            weight, replayed = self.settings.regularization, self.settings.replay_weight
            g, loss = self.teacher.gradient(self.engine, batch, exemplars, weight, 1.0, replayed)
            self.step(g)
        return StepStats(loss)

    def end_task(self, task: Task) -> None:
        """Herd each class and offer its best to the memory, the very best last: they push the others out."""
        super().end_task(task)
        with self.clock("herding"):
            parts = task.x.split(EVALUATION_BATCH)
            features = torch.cat([self.embedded(self.as_images(part)).cpu() for part in parts])
            ranked = [(task.y == label).nonzero()[:, 0] for label in sorted(set(task.y.tolist()))]
            ranked = [rows[herd(features[rows], MOST_EXEMPLARS)] for rows in ranked]
            # one exemplar of each class in turn, so that a budget that classes do not divide is used up
            order = [int(rows[rank]) for rank in range(max(map(len, ranked))) for rows in ranked if rank < len(rows)]
            rows = torch.tensor(order[::-1])
        self.memory.by_task.pop(task.id, None)  # a task that comes back is chosen anew
        self.remember(task.x[rows], task.y[rows], task.id)

    def scores(self, x: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b k"]:
        images, masks, labels = self.memory.recall(task)
        if set(labels.tolist()) != set(self.model.heads.task_classes[task]):
            return super().scores(x, task)
        features, y = self.embedded(self.complete(images, masks)), torch.from_numpy(labels).to(self.device)
        means = torch.stack([features[y == label].mean(0) for label in self.model.heads.task_classes[task]])
        return nearness(self.embedded(x), F.normalize(means))

    @torch.no_grad()
    def embedded(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Pooled features, scaled to length one."""
        return F.normalize(self.model.pooled(self.answering.features(x)))
