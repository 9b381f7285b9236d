"""Augmentation: images flipped and shifted at random, on the device, by numbers that a learner's generator draws."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

AUGMENTATIONS = ("none", "flip", "crop+flip")
MARGIN = 8
# a crop is shifted by up to one in so many pixels of a side: 4 of 32, as is usual for CIFAR


def augmented(x: Float[Tensor, "b c h w"], how: str, random: torch.Generator) -> Float[Tensor, "b c h w"]:
    """Each image mirrored with probability a half; before that, with crops, shifted over a black border."""
    if how == "none":
        return x
    if how == "crop+flip":
        below, beside = (max(1, size // MARGIN) for size in x.shape[2:])
        down, right = (torch.randint(2 * margin + 1, (len(x),), generator=random) for margin in (below, beside))
        x = shifted(x, below, beside, down.to(x.device), right.to(x.device))
    return flipped(x, (torch.rand(len(x), generator=random) < 0.5).to(x.device))


def flipped(x: Float[Tensor, "b c h w"], which: Bool[Tensor, "b"]) -> Float[Tensor, "b c h w"]:
    """Left and right changed places in some of the images."""
    return torch.where(which[:, None, None, None], x.flip(3), x)


def shifted(
    x: Float[Tensor, "b c h w"], below: int, beside: int, down: Int64[Tensor, "b"], right: Int64[Tensor, "b"]
) -> Float[Tensor, "b c h w"]:
    """A window as large as the image, so far down and right over the image with a border below and beside it."""
    height, width = x.shape[2:]
    bordered = F.pad(x, (beside, beside, below, below)).permute(0, 2, 3, 1)
    image = torch.arange(len(x), device=x.device)[:, None, None]
    row = (down[:, None] + torch.arange(height, device=x.device))[:, :, None]
    column = (right[:, None] + torch.arange(width, device=x.device))[:, None, :]
    return bordered[image, row, column].permute(0, 3, 1, 2)
