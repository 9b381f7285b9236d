"""iCaRL (Rebuffi et al. 2017): herded exemplars, distillation, and the nearest mean of exemplars as classifier."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

from samc.engine import Batch
from samc.learners.answers import EVALUATION_BATCH
from samc.learners.contract import StepStats
from samc.learners.distillation import DistillingLearner, DistillingSettings
from samc.learners.inputs import Images, Labels, TaskId
from samc.learners.rehearsal import RehearsalLearner
from samc.learners.settings import MemorySettings
from samc.streams.base import Task

MOST_EXEMPLARS = 500
# of a class that are ranked; packed small, that many may fit


@dataclass(frozen=True, kw_only=True)
class ICaRLSettings(DistillingSettings, MemorySettings):
    """Settings of iCaRL; herding says what is kept."""

    def meaningless(self) -> str:
        domain = "icarl learns classes that are new, and a domain has none that is; take lwf, er or samc"
        return domain if self.scenario == "domain" else super().meaningless()


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


def binary_loss(
    logits: Float[Tensor, "b n"], targets: Float[Tensor, "b n"], weights: Float[Tensor, "n"]
) -> Float[Tensor, ""]:
    """Of a sigmoid per class: −[t·log g + (1 − t)·log(1 − g)], weighted and summed over classes, mean over images."""
    losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return (losses @ weights).mean()


def nearness(features: Float[Tensor, "b d"], means: Float[Tensor, "k d"]) -> Float[Tensor, "b k"]:
    """How near each point is to each mean: minus the distance."""
    return -torch.cdist(features, means, compute_mode="donot_use_mm_for_euclid_dist")


class ICaRL(DistillingLearner, RehearsalLearner):
    """θ ← θ − α·∇(cross-entropy on B + λ·Σ_{k<t} distillation of head k on B and on as many exemplars).

    With one head it is the loss of the paper instead, over B and as many exemplars: a sigmoid per class, whose target
    is the label of classes that are new, and the old network's output of those that it knew, times λ.

    With a replay weight, the exemplars' own cross-entropy is added so many times.

    An image belongs to the class, of its head's, whose exemplars' mean feature vector is nearest to its own. Where a
    class has no exemplar, before a task's end or in a budget of fewer images than classes, the head answers.
    """

    Settings = ICaRLSettings

    def setup(self) -> None:
        super().setup()
        self.means: dict[int, Tensor | None] = {}  # by head, as long as neither network nor memory changes

    def begin(self, task: int) -> None:
        super().begin(task)
        self.means = {}  # a common budget has been shared out anew

    def step(self, g: Float[Tensor, "p"]) -> None:
        super().step(g)
        self.means = {}

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch = self.augmented(self.as_batch(x, y, task))
        exemplars = self.replay.draw(len(y))
        with self.clock("current gradient"):
            weight, replayed = self.settings.regularization, self.settings.replay_weight
            if self.scenario.one_head:
                g, loss = self.binary_gradient(batch, exemplars)
            else:
                g, loss = self.teacher.gradient(self.engine, batch, exemplars, weight, 1.0, replayed)
            self.step(g)
        return StepStats(loss)

    def binary_gradient(self, batch: Batch, exemplars: list[Batch]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        """Of the paper's loss, and that loss."""
        x, y, masks = self.model.joined([batch, *exemplars])
        old = torch.zeros_like(masks[0])
        for head in self.teacher.old_heads(batch.only_task, x.device):  # one, once there is a past
            old[: len(head)] = head == 0
        share = self.settings.replay_weight / max(1, len(y) - len(batch.y))
        shares = torch.where(torch.arange(len(y), device=y.device) < len(batch.y), 0, share)
        fixed = {"replayed": share > 0 and bool(exemplars), "generation": self.teacher.generation}
        return self.engine.gradient_of(self.loss, x, y, masks, old, shares, **fixed)

    def loss(
        self,
        x: Float[Tensor, "b c h w"],
        y: Int64[Tensor, "b"],
        masks: Bool[Tensor, "b n"],
        old: Bool[Tensor, "n"],
        shares: Float[Tensor, "b"],
        *,
        replayed: bool,
        generation: int,
    ) -> Float[Tensor, ""]:
        features, teacher = self.model.features(x), self.teacher.network
        logits = self.model.heads.linear(self.model.pooled(features))
        targets = (y[:, None] == torch.arange(logits.shape[1], device=y.device)).to(logits.dtype)
        if teacher is not None:
            with torch.no_grad():
                wanted = teacher.heads.linear(teacher.pooled(teacher.features(x))).sigmoid()
            wanted = F.pad(wanted, (0, targets.shape[1] - wanted.shape[1]))  # of classes that came after its time
            targets = torch.where(old, wanted, targets)
        seen = masks[0].to(logits.dtype)
        loss = binary_loss(logits, targets, torch.where(old, self.settings.regularization, seen))
        return loss + self.model.loss(features, y, masks, shares) if replayed else loss

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
        self.means = {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.means = {}

    def scores(self, x: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b k"]:
        head = self.model.heads.head_of(task)
        if head not in self.means:
            self.means[head] = self.class_means(head)
        means = self.means[head]
        return super().scores(x, task) if means is None else nearness(self.embedded(x), means)

    def class_means(self, head: int) -> Float[Tensor, "k d"] | None:
        """The mean feature vector of the exemplars of each of a head's classes, or None where one has no exemplar."""
        known = self.model.heads.choices[head]
        tasks = self.memory.tasks if self.scenario.one_head else [head]
        parts = [self.memory.recall(task) for task in tasks]
        labels = np.concatenate([found for _, _, found in parts]) if parts else np.zeros(0, np.int64)
        if set(labels.tolist()) != set(known):
            return None
        features = torch.cat([self.embedded(self.complete(images, masks)) for images, masks, _ in parts])
        y = torch.from_numpy(labels).to(self.device)
        return F.normalize(torch.stack([features[y == label].mean(0) for label in known]))

    @torch.no_grad()
    def embedded(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Pooled features, scaled to length one."""
        return F.normalize(self.model.pooled(self.answering.features(x)))
