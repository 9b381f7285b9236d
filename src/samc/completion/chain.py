"""Completion of masked images: a rule, the autoencoder, or the one after the other; kept pixels are never repainted."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from samc.completion.painted import Painted
from samc.completion.rules import RULES, Rule
from samc.errors import ConfigError, unknown

CPU = torch.device("cpu")
COMPLETIONS = ("zero", "telea", "navier-stokes", "autoencoder", "telea+autoencoder", "navier-stokes+autoencoder")


@dataclass(frozen=True)
class Completion:
    """How to fill what was dropped: a rule first, then the autoencoder if there is one."""

    rule: Rule
    autoencoder: nn.Module | None = None
    device: torch.device = CPU
    painted: Painted = field(default_factory=Painted)

    def coarse(
        self, images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]
    ) -> tuple[Float[Tensor, "b c h w"], Bool[Tensor, "b 1 h w"]]:
        """The rule's picture in [0, 1] and the mask, on the device."""
        return self.on_device(self.rule(images, masks), masks)

    def on_device(self, painted: np.ndarray, masks: np.ndarray) -> tuple[Tensor, Tensor]:
        return (
            torch.from_numpy(painted).to(self.device).float() / 255,
            torch.from_numpy(masks).to(self.device)[:, None],
        )

    def __call__(
        self, images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]
    ) -> Float[Tensor, "b c h w"]:
        """Completed images in [0, 1]. A rule leaves kept pixels alone; the autoencoder's are overwritten with them.

        What the rule painted is kept for the next time: the same memories come again with every task.
        """
        coarse, kept = self.on_device(self.painted(self.rule, images, masks), masks)
        if self.autoencoder is None or not len(images):
            return coarse
        self.autoencoder.eval()
        with torch.no_grad():
            painted = torch.cat([self.autoencoder(part) for part in coarse.split(256)])
        return torch.where(kept, coarse, painted.clamp(0, 1))

    def learn(
        self, coarse: Float[Tensor, "b c h w"], truth: Float[Tensor, "b c h w"], lr: float
    ) -> tuple[Float[Tensor, ""]]:
        """One SGD step of the autoencoder from the rule's pictures to the true ones; returns the loss before it."""
        assert self.autoencoder is not None
        self.autoencoder.train()
        parameters = list(self.autoencoder.parameters())
        loss = F.mse_loss(self.autoencoder(coarse), truth)
        with torch.no_grad():
            for parameter, slope in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.sub_(slope, alpha=lr)
        return (loss.detach(),)


def parse(name: str) -> tuple[Rule, bool]:
    """The rule that a completion's name begins with, and whether the autoencoder follows it."""
    if name not in COMPLETIONS:
        raise unknown("completion", name, COMPLETIONS)
    rule, _, _ = name.partition("+")
    return RULES.get(rule, RULES["zero"]), name.endswith("autoencoder")


def check_training(steps: int, lr: float) -> None:
    """Whether an autoencoder can be trained so."""
    if steps < 0 or not 0 < lr < math.inf:
        raise ConfigError(f"autoencoder-steps is at least 0 and autoencoder-lr above 0, got {steps} and {lr}")
