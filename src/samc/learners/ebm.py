"""EBM (Li et al. 2020): energies of an image and a class together, pulled apart only between the batch's classes."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from samc.gradients import flat_gradient
from samc.learners.base import NetworkLearner, StepStats
from samc.models import EnergyNetwork


def contrastive_loss(
    energies: Float[Tensor, "b k"], right: Int64[Tensor, "b"], wrong: Int64[Tensor, "b"]
) -> Float[Tensor, ""]:
    """Mean of E(x, y⁺) + log(exp(−E(x, y⁺)) + exp(−E(x, y⁻))): one other class stands for all that are not meant."""
    pair = energies.gather(1, torch.stack([right, wrong], dim=1))
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

    network = EnergyNetwork

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        x, y = self.admit(x, y, task)
        wrong = other_labels(y, self.model.task_classes[task], self.random).to(self.device)
        with self.clock("current gradient"):
            self.model.train()
            energies = -self.model(x, task)
            right, wrong = self.model.local(y, task), self.model.local(wrong, task)
            g, loss = flat_gradient(self.model, contrastive_loss(energies, right, wrong))
            self.step(g)
        return StepStats(loss)
