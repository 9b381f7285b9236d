"""An exponential average of a network that learns: steadier than the network itself, it answers, and may teach it."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from samc.engine import Engine
from samc.models import Classifier


class Average:
    """θ̄ ← d·θ̄ + (1 − d)·θ after each step, running statistics of batch norm included.

    d is the decay, or 1 − 1/t at step t while that is less: the first steps count alike, and where the network began
    counts nothing.
    """

    def __init__(self, model: Classifier, decay: float):
        self.decay, self.steps = decay, 0
        self.followed = model
        self.model = copy.deepcopy(model)
        for module in self.model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.momentum = 0.0  # what it is shown to teach does not move its statistics
        self.engine = Engine(self.model)
        self.refresh()

    def refresh(self) -> None:
        """Parameters of either network may lie elsewhere, or be more than before."""
        self.engine.refresh()
        mine, theirs = numbers(self.model), numbers(self.followed)
        floating = [place for place, tensor in enumerate(mine) if tensor.is_floating_point()]
        whole = [place for place, tensor in enumerate(mine) if not tensor.is_floating_point()]
        self.averaged = [mine[place] for place in floating], [theirs[place] for place in floating]
        self.copied = [mine[place] for place in whole], [theirs[place] for place in whole]

    def follow(self, engine: Engine) -> None:
        """One step nearer to the network, whose engine may record that."""
        self.steps += 1
        if self.steps * (1 - self.decay) < 1:
            self.move(share=1 / self.steps)  # another at every step: nothing to record
        else:
            engine.recorded(self.move, share=1 - self.decay)

    @torch.no_grad()
    def move(self, *, share: float) -> tuple[()]:
        mine, theirs = self.averaged
        torch._foreach_lerp_(mine, theirs, share)
        if self.copied[0]:
            torch._foreach_copy_(*self.copied)
        return ()

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in numbers(self.model))

    def state_dict(self) -> dict[str, Any]:
        return {"model": copy.deepcopy(self.model.state_dict()), "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any], num_classes: int) -> None:
        self.model.heads.fit(num_classes)
        self.model.load_state_dict(state["model"])
        self.steps = state["steps"]
        self.refresh()


def numbers(model: Classifier) -> list[Tensor]:
    """Everything that a state has, as it lies in the network; what layers share is there once."""
    tensors = [tensor for tensor in model.state_dict(keep_vars=True).values() if isinstance(tensor, Tensor)]
    return list({id(tensor): tensor for tensor in tensors}.values())
