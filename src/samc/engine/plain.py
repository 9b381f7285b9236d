"""The plain way, by torch's own means: one group of images, one forward pass, one gradient by autograd.

Right for every network. The fast ways (cpu.py, cuda.py) must give the same numbers.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

from samc.engine.flat import flat_gradient, gradients_into
from samc.errors import DataError
from samc.models.classifier import Batch, Classifier


def gradient(
    model: Classifier, batches: Sequence[Batch], weights: Sequence[float] | None = None
) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
    """The gradient of the mean cross-entropy over all the images, each against its own task's classes; and that loss.

    All images go through the network as one batch; the model is left in train mode and its running batch-norm
    statistics move once. `weights` are those of `Classifier.loss`.
    """
    return flat_gradient(model, joint_loss(model, batches, weights))


def gradient_into(views: Mapping[Tensor, Tensor], model: Classifier, batches: Sequence[Batch]) -> Float[Tensor, ""]:
    """The same written to where each parameter's gradient belongs, without a vector in between; returns the loss."""
    return gradients_into(views, model, joint_loss(model, batches))


def joint_loss(
    model: Classifier, batches: Sequence[Batch], weights: Sequence[float] | None = None
) -> Float[Tensor, ""]:
    model.train()
    return model.loss(features_of(model, torch.cat([batch.x for batch in batches])), batches, weights)


def features_of(model: Classifier, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b ..."]:
    """Of images to learn from. Not every batch norm takes a batch that leaves it a single value per channel."""
    try:
        return model.features(x)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        remedy = "learn from larger batches or images, or use samc.models.resnet.BatchNorm in the network"
        raise DataError(f"a batch of {len(x)} leaves batch norm one value per channel, no variance; {remedy}") from None


def masked_gradient(
    model: Classifier,
    x: Float[Tensor, "b c h w"],
    y: Int64[Tensor, "b"],
    masks: Bool[Tensor, "b n"],
    weights: Float[Tensor, "b"],
) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
    """The same in a form that can be recorded: which classes an image chooses between is a tensor, `weights` add up."""
    logits = model.heads.linear(model.pooled(features_of(model, x)).float())
    losses = F.cross_entropy(logits.masked_fill(~masks, -torch.inf), y, reduction="none")
    return flat_gradient(model, (losses * weights).sum())
