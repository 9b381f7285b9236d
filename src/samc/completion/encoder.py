"""Learning to encode: an autoencoder whose pictures are like the true ones in pixels and in a classifier's features."""

import math
from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from samc.errors import ConfigError

DECAYS, SMALL = (0.9, 0.999), 1e-8
# of Adam, as everywhere: how much each mean keeps of itself in a step, and what no denominator is below


class Adam:
    """torch.optim.Adam in a form that can be recorded: even its steps are counted where the parameters lie.

    torch's own can be recorded too, but then serves on a GPU only.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float):
        self.parameters, self.lr = list(parameters), lr
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        # in double precision: 1 − 0.999 would lose half of its digits in single
        self.steps = torch.zeros((), dtype=torch.float64, device=self.parameters[0].device)

    def forget(self) -> None:
        """Begin anew, in the same place."""
        torch._foreach_zero_([*self.means, *self.squares])
        self.steps.zero_()

    @torch.no_grad()
    def step(self, slopes: tuple[Tensor, ...]) -> None:
        self.steps.add_(1)
        first, second = (1 - torch.pow(decay, self.steps) for decay in DECAYS)
        torch._foreach_lerp_(self.means, slopes, 1 - DECAYS[0])
        torch._foreach_mul_(self.squares, DECAYS[1])
        torch._foreach_addcmul_(self.squares, slopes, slopes, 1 - DECAYS[1])
        spreads = torch._foreach_sqrt(self.squares)
        torch._foreach_div_(spreads, second.sqrt().float())
        torch._foreach_add_(spreads, SMALL)
        moves = torch._foreach_mul(self.means, (-self.lr / first).float())
        torch._foreach_div_(moves, spreads)
        torch._foreach_add_(self.parameters, moves)


def learn_to_encode(
    autoencoder: nn.Module,
    adam: Adam,
    features: Callable[[Tensor], Tensor],
    content_weight: float,
    x: Float[Tensor, "b c h w"],
) -> tuple[Float[Tensor, ""]]:
    """One step of Adam on (1 − λ)·‖x̂ − x‖² + λ·‖f(x̂) − f(x)‖²; f itself gets no gradient. The loss before it."""
    anew = autoencoder(x)
    loss = (1 - content_weight) * F.mse_loss(anew, x)
    if content_weight:
        with torch.no_grad():
            wanted = features(x)
        loss = loss + content_weight * F.mse_loss(features(anew), wanted)
    adam.step(torch.autograd.grad(loss, adam.parameters))
    return (loss.detach(),)


def check_encoding(images: int, steps: int, lr: float, content_weight: float) -> None:
    """Whether so many images' room can be filled by an autoencoder that is trained so."""
    if images < 1 or steps < 1 or not 0 < lr < math.inf or not 0 <= content_weight <= 1:
        needed = "buffer-size and encoder-steps are at least 1, encoder-lr above 0, content-weight in [0, 1]"
        raise ConfigError(f"{needed}; got {images}, {steps}, {lr} and {content_weight}")
