"""The plain way, by torch's own means: one group of images, one forward pass, one gradient by autograd.

Right for every network. The fast ways (cpu.py, cuda.py) must give the same numbers.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from samc.engine.flat import flat_gradient, gradients_into
from samc.errors import DataError
from samc.models.classifier import Batch, Classifier, Wanted, equal_shares

Teaching = tuple[Classifier, Float[Tensor, "n"], Float[Tensor, ""]]
# a network whose logits are wanted, how much that counts by class, and the step size (`Wanted`)


def gradient(
    model: Classifier,
    batches: Sequence[Batch],
    weights: Float[Tensor, "b"] | None = None,
    held: Teaching | None = None,
) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
    """The gradient of the mean cross-entropy over all the images, each against its own task's classes; and that loss.

    All images go through the network as one batch; the model is left in train mode and its running batch-norm
    statistics move once. `weights` scale the images' losses.
    """
    return flat_gradient(model, loss_of(model, batches, weights, held))


def gradient_into(views: Mapping[Tensor, Tensor], model: Classifier, batches: Sequence[Batch]) -> Float[Tensor, ""]:
    """That of the mean loss, written to where each parameter's gradient belongs; returns the loss."""
    return gradients_into(views, model, loss_of(model, batches, None, None))


def loss_of(
    model: Classifier, batches: Sequence[Batch], weights: Tensor | None, held: Teaching | None
) -> Float[Tensor, ""]:
    x, y = torch.cat([batch.x for batch in batches]), torch.cat([batch.y for batch in batches])
    shares = equal_shares(y) if weights is None else weights.to(y.device) / len(y)
    features = features_of(model.train(), x)
    return model.loss_by_task(features, batches, shares, wanted_of(held, x))


def masked_gradient(
    model: Classifier,
    x: Float[Tensor, "b c h w"],
    y: Int64[Tensor, "b"],
    masks: Bool[Tensor, "b n"],
    shares: Float[Tensor, "b"],
    held: Teaching | None = None,
) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
    """The same in a form that can be recorded: which classes an image has is a tensor, and so is its share."""
    features = features_of(model.train(), x)
    return flat_gradient(model, model.loss(features, y, masks, shares, wanted_of(held, x)))


def wanted_of(held: Teaching | None, x: Float[Tensor, "b c h w"]) -> Wanted | None:
    """What the teacher says of these images, and how much it counts."""
    return held and Wanted(wanted_logits(held[0], x), *held[1:])


@torch.no_grad()
def wanted_logits(teacher: Classifier, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b n"]:
    """Of all classes, with the statistics of these very images as who is taught has them."""
    return teacher.heads.linear(teacher.pooled(features_of(teacher.train(), x)))


def features_of(model: Classifier, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b ..."]:
    """Of images to learn from. Not every batch norm takes a batch that leaves it a single value per channel."""
    try:
        return model.features(x)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        remedy = "learn from larger batches or images, or use samc.models.resnet.BatchNorm in the network"
        raise DataError(f"a batch of {len(x)} leaves batch norm one value per channel, no variance; {remedy}") from None
