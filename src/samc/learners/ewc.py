"""EWC (Kirkpatrick et al. 2017): parameters are held where old tasks left them, by how much each task needs them."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

from samc.config import setting
from samc.engine import flat_parameters, padded, trainable
from samc.learners.base import NetworkLearner
from samc.learners.contract import StepStats
from samc.learners.inputs import Images, Labels, TaskId
from samc.learners.settings import NetworkSettings
from samc.models import Classifier
from samc.models.classifier import in_mode
from samc.streams.base import Task

GRADIENTS = 32
# held at a time, one for each image and class


@dataclass(frozen=True, kw_only=True)
class EWCSettings(NetworkSettings):
    """Settings of EWC."""

    regularization: float = setting(
        1.0, "weight of the penalty that holds old tasks", least=0, hint="the SAMC paper uses 1 for EWC"
    )
    fisher_images: int = setting(
        100, "images of each task from which the Fisher information is estimated", least=1, hint="the default is 100"
    )

    def meaningless(self) -> str:
        hidden = "ewc takes Fisher information at a task's end, which hidden boundaries do not tell; take er, or told"
        return hidden if self.boundaries == "hidden" else super().meaningless()


def fisher(model: Classifier, x: Float[Tensor, "n c h w"], task: int, *, at_once: bool = True) -> Float[Tensor, "p"]:
    """The diagonal of the Fisher information: E_x Σ_c p(c|x)·(∂ log p(c|x)/∂θ)², exactly for these images.

    Of many images and classes `at_once` by vmap, which not every network allows; else of one after the other.
    """
    with in_mode(model, "eval"):  # so that an image's gradient does not depend on its neighbours
        total = torch.zeros_like(flat_parameters(model))
        with torch.no_grad():
            classes = model(x[:1], task).shape[1]
        for part in x.split(max(1, GRADIENTS // classes) if at_once else 1):
            with torch.no_grad():
                probs = model(part, task).softmax(1)
            grads = jacobians(model, part, task) if at_once else jacobian(model, part, task, classes)
            total += torch.cat([torch.einsum("bc,bcp->p", probs, grad.flatten(2).square()) for grad in grads])
    return total / len(x)


def jacobians(model: Classifier, x: Float[Tensor, "b c h w"], task: int) -> list[Tensor]:
    """∂ log p(c|x)/∂θ for every image and class, (b, classes, ...) for each parameter."""
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def log_probs(parameters: dict[str, Tensor], image: Tensor) -> Tensor:
        return functional_call(model, parameters, (image[None], task))[0].log_softmax(0)

    return list(vmap(jacrev(log_probs), (None, 0))(parameters, x).values())


def jacobian(model: Classifier, x: Float[Tensor, "1 c h w"], task: int, classes: int) -> list[Tensor]:
    """The same of one image, by as many passes back as there are classes."""
    with torch.enable_grad():
        log_probs = model(x, task)[0].log_softmax(0)
        rows = [
            torch.autograd.grad(log_probs[c], trainable(model), retain_graph=True, materialize_grads=True)
            for c in range(classes)
        ]
    return [torch.stack(column)[None] for column in zip(*rows, strict=True)]


class EWC(NetworkLearner):
    """θ ← θ − α·(g + λ·Σ_k F_k·(θ − θ_k)): the gradient of the loss and of λ/2·Σ_k Σ_i F_ki·(θ_i − θ_ki)²."""

    Settings = EWCSettings

    def setup(self) -> None:
        super().setup()
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        self.add_up()

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch = self.augmented(self.as_batch(x, y, task))
        with self.clock("current gradient"):
            g, loss = self.engine.gradient([batch])
        with self.clock("penalty"):
            self.step(self.held_back(g))
        return StepStats(loss)

    def held_back(self, g: Float[Tensor, "p"]) -> Float[Tensor, "p"]:
        """The step's gradient with the penalty at the step's end, not its start: stable however stiff it is."""
        if not self.kept:
            return g
        weight, lr = self.settings.regularization, self.settings.lr
        return (g + weight * self.pull()) / (1 + lr * weight * self.importance)

    def pull(self) -> Float[Tensor, "p"]:
        """Σ_k F_k·(θ − θ_k): a sum of parabolas is a parabola, so that two vectors stand for all tasks."""
        return self.importance * flat_parameters(self.model) - self.anchor

    def end_task(self, task: Task) -> None:
        super().end_task(task)
        with self.clock("Fisher information"):
            rows = torch.randperm(len(task.x), generator=self.random)[: self.settings.fisher_images]
            x, at_once = self.as_images(task.x[rows]), self.engine.program is not None
            importance = fisher(self.model, x, task.id, at_once=at_once)
            self.kept[task.id] = (importance, flat_parameters(self.model))
            self.add_up()

    def add_up(self) -> None:
        """Σ_k F_k and Σ_k F_k·θ_k, of which every step is made."""
        self.sizes = [parameter.numel() for parameter in trainable(self.model)]
        self.importance = torch.zeros_like(flat_parameters(self.model))
        self.anchor = torch.zeros_like(self.importance)
        for importance, parameters in self.kept.values():
            self.importance += importance
            self.anchor += importance * parameters

    def grown(self) -> None:
        """New classes were of no importance to old tasks."""
        super().grown()
        self.kept = {
            task: (padded(importance, self.sizes, self.model), padded(parameters, self.sizes, self.model))
            for task, (importance, parameters) in self.kept.items()
        }
        self.add_up()

    def extra_parts(self) -> dict[str, int]:
        return {
            "Fisher information": sum(importance.nbytes for importance, _ in self.kept.values()),
            "old parameters": sum(parameters.nbytes for _, parameters in self.kept.values()),
        }

    def memory_report(self) -> dict[str, Any]:
        return super().memory_report() | {"working_set_bytes": self.importance.nbytes + self.anchor.nbytes}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "kept": {task: tuple(t.clone() for t in pair) for task, pair in self.kept.items()}
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.kept = {task: tuple(t.to(self.device) for t in pair) for task, pair in state["kept"].items()}
        self.add_up()
