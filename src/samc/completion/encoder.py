"""Learning to encode: an autoencoder whose pictures are like the true ones in pixels and in a classifier's features."""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def learn_to_encode(
    autoencoder: nn.Module,
    batches: Iterable[Float[Tensor, "b c h w"]],
    features: Callable[[Tensor], Tensor],
    content_weight: float,
    lr: float,
) -> None:
    """One step of Adam for each batch x, on (1 − λ)·‖x̂ − x‖² + λ·‖f(x̂) − f(x)‖²; f itself gets no gradient."""
    parameters = list(autoencoder.parameters())
    optimizer = torch.optim.Adam(parameters, lr)
    for x in batches:
        anew = autoencoder(x)
        loss = (1 - content_weight) * F.mse_loss(anew, x)
        if content_weight:
            with torch.no_grad():
                wanted = features(x)
            loss = loss + content_weight * F.mse_loss(features(anew), wanted)
        for parameter, slope in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = slope
        optimizer.step()
