"""Grad-CAM: which pixels mattered for a class, without leaving a trace in the model."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

Target = Literal["label", "predicted"]
Mode = Literal["eval", "train"]


@runtime_checkable
class Explainable(Protocol):
    """What Grad-CAM needs of a model: feature maps, and a head that scores a task's classes from them."""

    def features(self, x: Tensor, **layers: Any) -> Tensor: ...
    def head(self, features: Tensor, task: int) -> Tensor: ...
    def local(self, y: Tensor, task: int) -> Tensor: ...


def coarse_cam(
    model: nn.Module,
    x: Float[Tensor, "b c h w"],
    y: Int64[Tensor, "b"],
    task: int,
    target: Target = "label",
    mode: Mode = "eval",
    **layers: Any,
) -> Float[Tensor, "b i j"]:
    """The map at the network's own resolution, not yet scaled.

    The class explained is the label (the paper's Eq. 5) or what the model predicts (the authors' code).
    `layers` may change how the network treats a batch, as long as it stays on running statistics.
    The model is borrowed in eval mode and returned as found: mode, batch-norm statistics and `.grad` untouched. In
    train mode (the authors' code) it sees the batch as it does when it learns, and its running statistics move.
    """
    explained: Explainable = model  # type: ignore[assignment]
    with in_mode(model, mode):
        with torch.no_grad():
            features = explained.features(x, **layers)
        # only the head is differentiated: Grad-CAM asks how the score depends on the features, not on the pixels
        with torch.enable_grad():
            features.requires_grad_()
            scores = explained.head(features, task)
            chosen = explained.local(y, task) if target == "label" else scores.argmax(1)
            explained_score = torch.arange(scores.shape[1], device=x.device) == chosen[:, None]
            (slopes,) = torch.autograd.grad(scores, features, explained_score.to(scores.dtype))
    features = features.detach()
    weights = slopes.mean((2, 3), keepdim=True)
    return F.relu((weights * features).sum(1))


def as_bytes(maps: Float[Tensor, "b i j"]) -> UInt8[Tensor, "b i j"]:
    """Each map with its highest value at 255; one of a network that has diverged is zero."""
    highest = maps.amax((1, 2), keepdim=True)
    scaled = 255 * maps / highest.clamp_min(torch.finfo(maps.dtype).tiny)
    return scaled.nan_to_num(0, 0, 0).round().to(torch.uint8)


def eval_mode(model: nn.Module) -> AbstractContextManager[None]:
    """Batch norm on running statistics for the time of the block; every module's own mode comes back after it."""
    return in_mode(model, "eval")


@contextmanager
def in_mode(model: nn.Module, mode: Mode) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.train(mode == "train")
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
