"""EWC (Kirkpatrick et al. 2017): parameters are held where old tasks left them, by how much each task needs them."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from samc.errors import ConfigError
from samc.gradients import Batch, flat_parameters
from samc.learners.base import NetworkLearner, StepStats
from samc.saliency import eval_mode
from samc.streams.base import Task

GRADIENTS = 32
# held at a time, one for each image and class


def fisher(model: nn.Module, x: Float[Tensor, "n c h w"], task: int) -> Float[Tensor, "p"]:
    """The diagonal of the Fisher information: E_x Σ_c p(c|x)·(∂ log p(c|x)/∂θ)², exactly for these images."""
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def answer(parameters: dict[str, Tensor], image: Tensor) -> Tensor:
        return functional_call(model, parameters, (image[None], task))[0].log_softmax(0)

    with eval_mode(model):  # so that an image's gradient does not depend on its neighbours
        total = torch.zeros_like(flat_parameters(model))
        with torch.no_grad():
            classes = model(x[:1], task).shape[1]
        for part in x.split(max(1, GRADIENTS // classes)):
            with torch.no_grad():
                chances = model(part, task).softmax(1)
            slopes = vmap(jacrev(answer), (None, 0))(parameters, part)
            total += torch.cat([torch.einsum("bc,bcp->p", chances, s.flatten(2).square()) for s in slopes.values()])
    return total / len(x)


class EWC(NetworkLearner):
    """θ ← θ − α·(g + λ·Σ_k F_k·(θ − θ_k)): the gradient of the loss and of λ/2·Σ_k Σ_i F_ki·(θ_i − θ_ki)²."""

    settings = (*NetworkLearner.settings, "regularization", "fisher_images")

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        regularization: float = 1.0,
        fisher_images: int = 100,
        **network: Any,
    ):
        super().__init__(num_classes, image_shape, **network)
        if not 0 <= regularization < math.inf:
            raise ConfigError(f"regularization is at least 0, got {regularization}; the SAMC paper uses 1 for EWC")
        if fisher_images < 1:
            raise ConfigError(f"fisher-images is at least 1, got {fisher_images}; the default is 100")
        self.regularization, self.fisher_images = regularization, fisher_images
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        self.add_up()

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        x, y = self.admit(x, y, task)
        with self.clock("current gradient"):
            g, loss = self.engine.gradient([Batch(x, y, task)])
        with self.clock("penalty"):
            self.step(self.held_back(g))
        return StepStats(loss)

    def held_back(self, g: Float[Tensor, "p"]) -> Float[Tensor, "p"]:
        """The step's gradient with the penalty at the step's end, not its start: stable however stiff it is."""
        if not self.kept:
            return g
        return (g + self.regularization * self.pull()) / (1 + self.lr * self.regularization * self.importance)

    def pull(self) -> Float[Tensor, "p"]:
        """Σ_k F_k·(θ − θ_k): a sum of parabolas is a parabola, so that two vectors stand for all tasks."""
        return self.importance * flat_parameters(self.model) - self.anchor

    def end_task(self, task: Task) -> None:
        super().end_task(task)
        with self.clock("Fisher information"):
            rows = torch.randperm(len(task.x), generator=self.random)[: self.fisher_images]
            importance = fisher(self.model, self.admit_images(task.x[rows]), task.id)
            self.kept[task.id] = (importance, flat_parameters(self.model))
            self.add_up()

    def add_up(self) -> None:
        """Σ_k F_k and Σ_k F_k·θ_k, of which every step is made."""
        self.importance = torch.zeros_like(flat_parameters(self.model))
        self.anchor = torch.zeros_like(self.importance)
        for importance, parameters in self.kept.values():
            self.importance += importance
            self.anchor += importance * parameters

    def beside_parts(self) -> dict[str, int]:
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
