"""Distillation: a frozen copy of the network as it was, and the loss of answering otherwise than it does."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from samc.config import setting
from samc.engine import Batch, Engine
from samc.errors import ConfigError
from samc.learners.base import NetworkLearner
from samc.learners.fitting import check_classes
from samc.learners.settings import NetworkSettings
from samc.models import Classifier

OUTSIDE = -1e20
# added to the logits of classes outside a head: their share is exactly 0, and 0·log 0 is 0, not NaN as it is at −∞


@dataclass(frozen=True, kw_only=True)
class DistillingSettings(NetworkSettings):
    """Settings of methods that are taught by an old network."""

    regularization: float = setting(
        1.0, "weight of the distillation that holds old tasks", least=0, hint="1 is a good start"
    )

    def meaningless(self) -> str:
        other = "take finetune or er with --average 0.99 --distil 1, whose teacher is an average, or told"
        hidden = f"the old network that teaches is that of a task's end, which hidden boundaries do not tell; {other}"
        return hidden if self.boundaries == "hidden" else super().meaningless()


def distillation_loss(
    logits: Float[Tensor, "b *heads k"], wanted: Float[Tensor, "b *heads k"], temperature: float
) -> Float[Tensor, ""]:
    """Of softened outputs, p' = softmax(logits / T): cross-entropy −Σ p' log p̂', mean over images, sum over heads."""
    probs = F.softmax(wanted / temperature, dim=-1)
    return -(probs * F.log_softmax(logits / temperature, dim=-1)).sum() / len(logits)


def all_logits(
    model: Classifier, features: Float[Tensor, "b ..."], heads: Float[Tensor, "heads n"]
) -> Float[Tensor, "b heads n"]:
    """Every head's logits at once, each among all classes: unlike that of picked columns, the gradient is a sum.

    Classes that came after the heads' time are left out.
    """
    return model.heads.linear(model.pooled(features))[:, None, : heads.shape[1]] + heads


class Teacher:
    """The network as it was when the current task began, and which tasks it knew; nothing before there is a past."""

    def __init__(self) -> None:
        self.network: Classifier | None = None
        self.tasks: list[int] = []
        self.generation = 0  # of the network: what was recorded knows where its one lies, not the next one's
        self.heads: dict[int, Tensor] = {}  # by the task that is learnt meanwhile

    def follow(self, model: Classifier, learnt: int) -> None:
        """Become a copy of the model, which has just learnt a task."""
        self.network, self.generation, self.heads = frozen_copy(model), self.generation + 1, {}
        self.tasks = [*(task for task in self.tasks if task != learnt), learnt]

    def gradient(
        self,
        engine: Engine,
        batch: Batch,
        others: list[Batch],
        weight: float,
        temperature: float,
        replay_weight: float,
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        """Of the batch's cross-entropy and, for every old task's head, distillation on all images; and that loss.

        The cross-entropy of the others counts `replay_weight` times their mean.
        """
        x = torch.cat([batch.x, *(other.x for other in others)])
        inputs: tuple[Tensor, ...] = x, batch.y, self.old_heads(batch.only_task, x.device)
        if others and replay_weight:
            inputs += engine.model.joined(others)[1:]
        fixed = {"model": engine.model, "task": batch.only_task, "weight": weight, "temperature": temperature}
        fixed |= {"replay_weight": replay_weight, "generation": self.generation}
        return engine.gradient_of(self.loss, *inputs, **fixed)

    def old_heads(self, now: int, device: torch.device) -> Float[Tensor, "heads n"]:
        """0 where a class is in an old task's head as the teacher knew it; sent once, the same tensor at every step.

        A shared head is one, of all the classes that the teacher had seen.
        """
        if now not in self.heads:
            heads = self.network.heads if self.network else None
            old = dict.fromkeys(heads.head_of(task) for task in self.tasks if task != now) if heads else ()
            known = torch.zeros(0, 0, dtype=torch.bool)
            if heads:
                known = heads.masks(torch.tensor(list(old), dtype=torch.int64))
            self.heads[now] = torch.zeros(known.shape).masked_fill(~known, OUTSIDE).to(device)
        return self.heads[now]

    def loss(
        self,
        x: Tensor,
        y: Tensor,
        heads: Float[Tensor, "heads n"],
        labels: Tensor | None = None,
        masks: Tensor | None = None,
        *,
        model: Classifier,
        task: int,
        weight: float,
        temperature: float,
        replay_weight: float,
        generation: int,
    ) -> Float[Tensor, ""]:
        """`labels` and `masks` are those of the images after the batch's, where their cross-entropy counts."""
        features = model.features(x)
        loss = F.cross_entropy(model.logits(features[: len(y)], task), model.heads.positions(y, task))
        if labels is not None and masks is not None:
            shares = torch.full(labels.shape, replay_weight / len(labels), device=labels.device)
            loss = loss + model.loss(features[len(y) :], labels, masks, shares)
        if self.network is not None and len(heads):
            with torch.no_grad():
                wanted = all_logits(self.network, self.network.features(x), heads)
            loss = loss + weight * distillation_loss(all_logits(model, features, heads), wanted, temperature)
        return loss

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self.network.state_dict().values() if isinstance(t, Tensor)) if self.network else 0

    def state_dict(self) -> dict[str, Any]:
        network = copy.deepcopy(self.network.state_dict()) if self.network else None
        classes = self.network.heads.num_classes if self.network else 0
        return {"network": network, "num_classes": classes, "tasks": list(self.tasks)}

    def load_state_dict(self, state: dict[str, Any], like: Classifier) -> None:
        self.network, self.tasks, self.generation, self.heads = None, [], self.generation + 1, {}
        if state["network"] is not None:
            self.network = frozen_copy(like)
            self.network.heads.shrink(state["num_classes"])
            self.network.load_state_dict(state["network"])
            self.tasks = list(state["tasks"])
            known = check_classes(state["network"], state["num_classes"])
            if not self.tasks or not set(self.tasks) <= set(known):
                raise ConfigError("the state's old network has not learnt what it is said to know")


def frozen_copy(model: Classifier) -> Classifier:
    """A copy that normalises by the images it is shown, as the network that it teaches does.

    Its running statistics are those of old tasks, not of the new one's images.
    """
    frozen = copy.deepcopy(model).train().requires_grad_(False)
    for module in frozen.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = 0.0  # its own statistics stay as they were
    return frozen


class DistillingLearner(NetworkLearner):
    """Keeps the network as it was before the current task, to be taught by it."""

    Settings = DistillingSettings

    def setup(self) -> None:
        super().setup()
        self.teacher = Teacher()

    def begin(self, task: int) -> None:
        if self.current_task not in (None, task):
            self.teacher.follow(self.model, self.current_task)
        super().begin(task)

    def extra_parts(self) -> dict[str, int]:
        return {"old network": self.teacher.nbytes}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"teacher": self.teacher.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.teacher.load_state_dict(state["teacher"], self.model)
