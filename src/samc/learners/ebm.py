"""EBM (Li et al. 2020): energies of an image and a class together, pulled apart only between the batch's classes."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from samc.learners.base import NetworkLearner
from samc.learners.contract import StepStats
from samc.learners.inputs import Images, Labels, TaskId, as_labels
from samc.models import EnergyHeads


def contrastive_loss(
    energies: Float[Tensor, "b k"], right: Int64[Tensor, "b"], wrong: Int64[Tensor, "b"]
) -> Float[Tensor, ""]:
    """Mean of E(x, y⁺) + log(exp(−E(x, y⁺)) + exp(−E(x, y⁻))): one other class stands for all that are not meant."""
    # no gather: its gradient is a scattered sum, which deterministic torch cannot do in a recording (it sends strides)
    pair = -torch.stack([F.nll_loss(energies, labels, reduction="none") for labels in (right, wrong)], dim=1)
    return (pair[:, 0] + (-pair).logsumexp(1)).mean()


def other_labels(y: Int64[Tensor, "b"], classes: Sequence[int], random: torch.Generator) -> Int64[Tensor, "b"]:
    """For each label another of the batch's classes, at random; of the task's, where the batch has no other."""
    labels = y.tolist()
    others = {mine: sorted(set(labels) - {mine} or set(classes) - {mine}) or [mine] for mine in labels}
    shares = torch.rand(len(labels), generator=random).tolist()
    return torch.tensor(
        [others[mine][int(share * len(others[mine]))] for mine, share in zip(labels, shares, strict=True)]
    )


class EBM(NetworkLearner):
    """θ ← θ − α·∇ contrastive loss of the energies; classes that are not in the batch are left alone. No memory."""

    heads = EnergyHeads

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch = self.augmented(self.as_batch(x, y, task))
        classes = self.model.heads.task_classes[batch.only_task]
        wrong = other_labels(torch.from_numpy(as_labels(y)), classes, self.random).to(self.device)
        with self.clock("current gradient"):
            g, loss = self.engine.gradient_of(self.contrast, batch.x, batch.y, wrong, task=batch.task)
            self.step(g)
        return StepStats(loss)

    def contrast(
        self, x: Float[Tensor, "b c h w"], y: Int64[Tensor, "b"], wrong: Int64[Tensor, "b"], *, task: int
    ) -> Float[Tensor, ""]:
        energies, heads = -self.model(x, task), self.model.heads
        return contrastive_loss(energies, heads.positions(y, task), heads.positions(wrong, task))
