"""Distillation: a frozen copy of the network as it was, and the loss of answering otherwise than it does."""

import copy
import math
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from samc.errors import ConfigError
from samc.gradients import Batch, Engine, flat_gradient
from samc.learners.base import NetworkLearner
from samc.models import ReducedResNet18

OUTSIDE = -1e20
# added to the scores of classes outside a head: their share is exactly 0, and 0·log 0 is 0, not NaN as it is at −∞


def distillation_loss(
    logits: Float[Tensor, "b *heads k"], wanted: Float[Tensor, "b *heads k"], temperature: float
) -> Float[Tensor, ""]:
    """Of softened answers, p' = softmax(logits / T): cross-entropy −Σ p' log p̂', mean over images, sum over heads."""
    asked = F.softmax(wanted / temperature, dim=-1)
    return -(asked * F.log_softmax(logits / temperature, dim=-1)).sum() / len(logits)


def all_answers(
    model: ReducedResNet18, features: Float[Tensor, "b d i j"], heads: Float[Tensor, "heads n"]
) -> Float[Tensor, "b heads n"]:
    """Every head's logits at once, each among all classes: unlike that of picked columns, the gradient is a sum."""
    return model.linear(features.mean((2, 3)))[:, None] + heads


class Teacher:
    """The network as it was when the current task began, and which tasks it knew; nothing before there is a past."""

    def __init__(self) -> None:
        self.network: ReducedResNet18 | None = None
        self.tasks: list[int] = []
        self.number = 0  # of the network: a recording knows where its one lies, not the next one's
        self.heads: dict[int, Tensor] = {}  # by the task that is learnt meanwhile

    def follow(self, model: ReducedResNet18, learnt: int) -> None:
        """Become a copy of the model, which has just learnt a task."""
        self.network, self.number, self.heads = borrowed(model), self.number + 1, {}
        self.tasks = [*(task for task in self.tasks if task != learnt), learnt]

    def gradient(
        self, engine: Engine, batch: Batch, others: list[Batch], weight: float, temperature: float
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        """Of the batch's cross-entropy and, for every old task's head, distillation on all images; and that loss."""
        engine.model.train()
        x = torch.cat([batch.x, *(other.x for other in others)])
        classes = len(engine.model.task_classes[batch.task])
        key = ("distillation", self.number, batch.task, len(x), len(batch.y), classes)
        function = partial(self.learnt_from, engine.model, batch.task, weight, temperature)
        gradient, loss = engine.recorder(key, function, x, batch.y, self.old_heads(batch.task, x.device))
        return gradient, loss.clone()

    def old_heads(self, now: int, device: torch.device) -> Float[Tensor, "heads n"]:
        """0 where a class is in an old task's head as the teacher knew it; sent once, the same tensor at every step."""
        if now not in self.heads:
            old = torch.tensor([task for task in self.tasks if task != now], dtype=torch.int64)
            known = self.network.choices(old) if self.network else torch.zeros(0, 0, dtype=torch.bool)
            self.heads[now] = torch.zeros(known.shape).masked_fill(~known, OUTSIDE).to(device)
        return self.heads[now]

    def learnt_from(
        self,
        model: ReducedResNet18,
        now: int,
        weight: float,
        temperature: float,
        x: Tensor,
        y: Tensor,
        heads: Float[Tensor, "heads n"],
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        features = model.features(x)
        loss = F.cross_entropy(model.head(features[: len(y)], now), model.local(y, now))
        if self.network is not None and len(heads):
            with torch.no_grad():
                wanted = all_answers(self.network, self.network.features(x), heads)
            loss = loss + weight * distillation_loss(all_answers(model, features, heads), wanted, temperature)
        return flat_gradient(model, loss)

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self.network.state_dict().values() if isinstance(t, Tensor)) if self.network else 0

    def state_dict(self) -> dict[str, Any]:
        network = copy.deepcopy(self.network.state_dict()) if self.network else None
        return {"network": network, "tasks": list(self.tasks)}

    def load_state_dict(self, state: dict[str, Any], like: ReducedResNet18) -> None:
        self.network, self.tasks, self.number, self.heads = None, [], self.number + 1, {}
        if state["network"] is not None:
            self.network = borrowed(like)
            self.network.load_state_dict(state["network"])
            self.tasks = list(state["tasks"])


def borrowed(model: ReducedResNet18) -> ReducedResNet18:
    """A frozen copy that normalises by the images it is shown, as the network that it teaches does.

    With the old tasks' running statistics instead, its answers to the new task's images are far off, and learning
    from them is worse than learning from none: docs/methods.md has the figures.
    """
    frozen = copy.deepcopy(model).train().requires_grad_(False)
    for module in frozen.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.0  # its own statistics stay as they were
    return frozen


class DistillingLearner(NetworkLearner):
    """Keeps the network as it was before the current task, to be taught by it."""

    def __init__(
        self, num_classes: int, image_shape: tuple[int, int, int], *, regularization: float = 1.0, **others: Any
    ):
        super().__init__(num_classes, image_shape, **others)
        if not 0 <= regularization < math.inf:
            raise ConfigError(f"regularization is at least 0, got {regularization}; 1 is a good start")
        self.regularization = regularization
        self.teacher = Teacher()

    def start(self, task: int) -> None:
        if self.current_task not in (None, task):
            self.teacher.follow(self.model, self.current_task)
        super().start(task)

    def beside_parts(self) -> dict[str, int]:
        return {"old network": self.teacher.nbytes}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"teacher": self.teacher.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.teacher.load_state_dict(state["teacher"], self.model)
