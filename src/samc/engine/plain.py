"""The plain way, by torch's own means: one group of images, one forward pass, one gradient by autograd.

Right for every network. The fast ways (cpu.py, cuda.py) must give the same numbers.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from samc.engine.flat import flat_gradient, gradients_into
from samc.errors import DataError
from samc.models.classifier import Batch, Classifier


def gradient(model: Classifier, batches: Sequence[Batch]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
    """The gradient of the mean cross-entropy over all the images, each against its own task's classes; and that loss.

    All images go through the network as one batch; the model is left in train mode and its running batch-norm
    statistics move once.
    """
    x, y, masks = model.joined(batches)
    return masked_gradient(model, x, y, masks, equal_shares(y))


def masked_gradient(
    model: Classifier,
    x: Float[Tensor, "b c h w"],
    y: Int64[Tensor, "b"],
    masks: Bool[Tensor, "b n"],
    shares: Float[Tensor, "b"],
    held: tuple[Classifier, Tensor] | None = None,
) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
    """The same of `Classifier.loss`, in a form that can be recorded: which classes an image has is a tensor.

    `held` is a network whose logits are wanted, and their weights by class.
    """
    return flat_gradient(model, loss_of(model, x, y, masks, shares, held))


def gradient_into(
    views: Mapping[Tensor, Tensor], model: Classifier, x: Tensor, y: Tensor, masks: Tensor
) -> Float[Tensor, ""]:
    """That of the mean loss, written to where each parameter's gradient belongs; returns the loss."""
    return gradients_into(views, model, loss_of(model, x, y, masks, equal_shares(y)))


def equal_shares(y: Int64[Tensor, "b"]) -> Float[Tensor, "b"]:
    """Of every image in a mean."""
    return torch.full(y.shape, 1 / len(y), device=y.device)


def loss_of(
    model: Classifier,
    x: Tensor,
    y: Tensor,
    masks: Tensor,
    shares: Tensor,
    held: tuple[Classifier, Tensor] | None = None,
) -> Float[Tensor, ""]:
    model.train()
    return model.loss(features_of(model, x), y, masks, shares, wanted_of(held, x))


@torch.no_grad()
def wanted_of(
    held: tuple[Classifier, Tensor] | None, x: Float[Tensor, "b c h w"]
) -> tuple[Float[Tensor, "b n"], Float[Tensor, "n"]] | None:
    """What a teacher answers to these images, and how much that counts by class."""
    if held is None:
        return None
    teacher, weights = held
    return teacher.heads.linear(teacher.pooled(features_of(teacher.train(), x))), weights


def features_of(model: Classifier, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b ..."]:
    """Of images to learn from. Not every batch norm takes a batch that leaves it a single value per channel."""
    try:
        return model.features(x)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        remedy = "learn from larger batches or images, or use samc.models.resnet.BatchNorm in the network"
        raise DataError(f"a batch of {len(x)} leaves batch norm one value per channel, no variance; {remedy}") from None
