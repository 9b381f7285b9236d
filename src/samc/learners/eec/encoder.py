"""Learning to encode: an autoencoder whose pictures are like the true ones in pixels and in a classifier's features."""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Adam:
    """torch's Adam, in the form that can be recorded where parameters are on a GPU; begun anew in the same place."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float):
        self.parameters = list(parameters)
        on_gpu = self.parameters[0].is_cuda
        self.optimiser = torch.optim.Adam(self.parameters, lr, capturable=on_gpu, foreach=True)

    def restart(self) -> None:
        """Forget all steps; what a recording points at stays where it is."""
        for state in self.optimiser.state.values():
            for value in state.values():
                value.zero_()

    def step(self, grads: tuple[Tensor, ...]) -> None:
        for parameter, grad in zip(self.parameters, grads, strict=True):
            parameter.grad = grad
        self.optimiser.step()
        self.optimiser.zero_grad()


def learn_to_encode(
    x: Float[Tensor, "b c h w"],
    *,
    autoencoder: nn.Module,
    adam: Adam,
    features: Callable[[Tensor], Tensor],
    content_weight: float,
) -> tuple[Float[Tensor, ""]]:
    """One step of Adam on (1 − λ)·‖x̂ − x‖² + λ·‖f(x̂) − f(x)‖²; f itself gets no gradient. The loss before it."""
    painted = autoencoder(x)
    loss = (1 - content_weight) * F.mse_loss(painted, x)
    if content_weight:
        with torch.no_grad():
            wanted = features(x)
        loss = loss + content_weight * F.mse_loss(features(painted), wanted)
    adam.step(torch.autograd.grad(loss, adam.parameters))
    return (loss.detach(),)
