"""Gradients as flat vectors, by torch's own means: one batch, one gradient."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F


class Batch(NamedTuple):
    """Images in [0, 1], labels of the stream, and the one task they all belong to."""

    x: Float[Tensor, "b c h w"]
    y: Int64[Tensor, "b"]
    task: int


def gradient(
    model: Any, batches: Sequence[Batch], weights: Sequence[float] | None = None
) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
    """The gradient of the mean cross-entropy over all the images, each against its own task's classes; and that loss.

    All images go through the network as one batch; the model is left in train mode and its running batch-norm
    statistics move once. `weights`, one a batch, scale the losses of its images before the mean is taken.
    """
    model.train()
    features = model.features(torch.cat([batch.x for batch in batches]))
    return flat_gradient(model, loss_of(model, features, batches, weights))


def loss_of(
    model: Any, features: Float[Tensor, "b d i j"], batches: Sequence[Batch], weights: Sequence[float] | None = None
) -> Float[Tensor, ""]:
    """The mean cross-entropy of all the images, from what the network made of them."""
    losses, count = [], 0
    for number, batch in enumerate(batches):
        part = features[count : count + len(batch.y)]
        logits = model.head(part, batch.task)
        loss = F.cross_entropy(logits, model.local(batch.y, batch.task), reduction="sum")
        losses.append(loss if weights is None else weights[number] * loss)
        count += len(batch.y)
    return torch.stack(losses).sum() / count


def flat_gradient(model: nn.Module, loss: Float[Tensor, ""]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
    """The gradient of any loss as one vector, and the loss cut loose from what made it."""
    slopes = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([slope.flatten() for slope in slopes]), loss.detach()


@torch.no_grad()
def flat_parameters(model: nn.Module) -> Float[Tensor, "p"]:
    """A copy of all parameters as one vector, in the order of the gradients."""
    return torch.cat([parameter.flatten() for parameter in model.parameters()])


@torch.no_grad()
def descend(model: nn.Module, flat: Float[Tensor, "p"], lr: float) -> None:
    """One step of plain SGD along a flat gradient."""
    parameters: list[Tensor] = list(model.parameters())
    parts = flat.split([parameter.numel() for parameter in parameters])
    slopes = [part.view_as(parameter) for part, parameter in zip(parts, parameters, strict=True)]
    torch._foreach_sub_(parameters, slopes, alpha=lr)
