"""Completion of masked images: a rule, the autoencoder, or one after the other; kept pixels are never changed."""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from samc.completion.rule_cache import RuleCache
from samc.completion.rules import RULES, Rule, unchanged
from samc.errors import unknown

CPU = torch.device("cpu")
COMPLETIONS = ("zero", "telea", "navier-stokes", "autoencoder", "telea+autoencoder", "navier-stokes+autoencoder")


@dataclass(frozen=True)
class Completion:
    """How dropped pixels are filled: a rule first, then the autoencoder if there is one."""

    rule: Rule
    autoencoder: nn.Module | None = None
    device: torch.device = CPU
    cache: RuleCache = field(default_factory=RuleCache)

    def __call__(
        self, images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]
    ) -> Float[Tensor, "b c h w"]:
        """Completed images in [0, 1]. A rule leaves kept pixels alone; those of the autoencoder are overwritten.

        The rule's result is cached: the same memories come again with every task.
        """
        whole = self.rule is unchanged or masks.all()
        filled = images if whole else self.cache(self.rule, images, masks)
        coarse, kept = self.on_device(filled, masks)
        if self.autoencoder is None or not len(images):
            return coarse
        self.autoencoder.eval()
        with torch.no_grad():
            output = torch.cat([self.autoencoder(batch) for batch in coarse.split(256)])
        return torch.where(kept, coarse, output.clamp(0, 1))

    def coarse(
        self, images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]
    ) -> tuple[Float[Tensor, "b c h w"], Bool[Tensor, "b 1 h w"]]:
        """What the rule alone makes of the images, in [0, 1], and the masks; both on the device."""
        return self.on_device(self.rule(images, masks), masks)

    def on_device(self, images: np.ndarray, masks: np.ndarray) -> tuple[Tensor, Tensor]:
        return (
            torch.from_numpy(images).to(self.device).float() / 255,
            torch.from_numpy(masks).to(self.device)[:, None],
        )

    def learn(
        self, coarse: Float[Tensor, "b c h w"], target: Float[Tensor, "b c h w"], lr: float
    ) -> tuple[Float[Tensor, ""]]:
        """One SGD step of the autoencoder from the rule's images to the true ones; returns the loss before it.

        The step is written out, since it is recorded as a CUDA graph.
        """
        assert self.autoencoder is not None
        self.autoencoder.train()
        parameters = list(self.autoencoder.parameters())
        loss = F.mse_loss(self.autoencoder(coarse), target)
        grads = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, grad in zip(parameters, grads, strict=True):
                parameter.sub_(grad, alpha=lr)
        return (loss.detach(),)


def parse_completion(name: str) -> tuple[Rule, bool]:
    """The rule that a completion's name begins with, and whether the autoencoder follows it."""
    if name not in COMPLETIONS:
        raise unknown("completion", name, COMPLETIONS)
    rule, _, _ = name.partition("+")
    return RULES.get(rule, RULES["zero"]), name.endswith("autoencoder")
