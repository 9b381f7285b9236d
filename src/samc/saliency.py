"""Grad-CAM: which pixels mattered for a class, without leaving a trace in the model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

Target = Literal["label", "predicted"]


@runtime_checkable
class Explainable(Protocol):
    """What Grad-CAM needs of a model: feature maps, and a head that scores a task's classes from them."""

    def features(self, x: Tensor) -> Tensor: ...
    def head(self, features: Tensor, task: int) -> Tensor: ...
    def local(self, y: Tensor, task: int) -> Tensor: ...


def grad_cam(
    model: nn.Module, x: Float[Tensor, "b c h w"], y: Int64[Tensor, "b"], task: int, target: Target = "label"
) -> Float[Tensor, "b h w"]:
    """A map in [0, 1] for each image; all zero where nothing spoke for the class.

    The class explained is the label (the paper's Eq. 5) or what the model predicts (the authors' code).
    The model is borrowed in eval mode and returned as found: mode, batch-norm statistics and `.grad` untouched.
    """
    explained: Explainable = model  # type: ignore[assignment]
    with eval_mode(model):
        with torch.no_grad():
            features = explained.features(x)
        # only the head is differentiated: Grad-CAM asks how the score depends on the features, not on the pixels
        with torch.enable_grad():
            features.requires_grad_()
            scores = explained.head(features, task)
            chosen = explained.local(y, task) if target == "label" else scores.argmax(1)
            (slopes,) = torch.autograd.grad(scores.gather(1, chosen[:, None]).sum(), features)
    features = features.detach()
    weights = slopes.mean((2, 3), keepdim=True)
    coarse = F.relu((weights * features).sum(1, keepdim=True))
    fine = F.interpolate(coarse, size=x.shape[2:], mode="bilinear", align_corners=False)[:, 0]
    return normalised(fine)


def normalised(maps: Float[Tensor, "b h w"]) -> Float[Tensor, "b h w"]:
    """Each map stretched to [0, 1]; a flat one, which holds no preference, becomes zero everywhere."""
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    spread = high - low
    return torch.where(spread > 0, (maps - low) / spread.clamp_min(torch.finfo(maps.dtype).tiny), 0.0)


def kept_pixels(
    saliency: Float[Tensor, "b h w"], threshold: float, most: int
) -> tuple[Bool[Tensor, "b h w"], Bool[Tensor, "b"]]:
    """The pixels above the threshold, and for which images that rule had to give way.

    It gives way where nothing is salient (the whole image is wanted then) and where more pixels are wanted than the
    `most` that fit; then the most salient ones are kept, the nearer to the centre the sooner among equals.
    """
    height, width = saliency.shape[1:]
    mask = saliency > threshold
    empty = saliency.amax((1, 2)) <= 0
    mask |= empty[:, None, None]
    bent = empty | (mask.sum((1, 2)) > most)
    if most < height * width and bool(bent.any()):
        rows = torch.arange(height, device=saliency.device)[:, None] - (height - 1) / 2
        columns = torch.arange(width, device=saliency.device)[None, :] - (width - 1) / 2
        by_distance = (rows**2 + columns**2).flatten().argsort(stable=True)
        by_saliency = saliency[bent].flatten(1)[:, by_distance].argsort(dim=1, descending=True, stable=True)
        best = by_distance[by_saliency[:, :most]]
        top = torch.zeros(int(bent.sum()), height * width, dtype=torch.bool, device=saliency.device)
        mask[bent] &= top.scatter_(1, best, True).view(-1, height, width)
    return mask, bent


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Batch norm on running statistics for the time of the block; every module's own mode comes back after it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
