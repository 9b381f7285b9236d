"""Saliency: which parts of an image mattered for a class, by Grad-CAM on maps and tokens, else at the pixels."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn import functional as F

from samc.models.classifier import Classifier, Mode, in_mode

Target = Literal["label", "predicted"]


def saliency_map(
    model: Classifier,
    x: Float[Tensor, "b c h w"],
    y: Int64[Tensor, "b"],
    task: int,
    target: Target = "label",
    mode: Mode = "eval",
    infer: Callable[[Tensor], Tensor] | None = None,
) -> Float[Tensor, "b i j"]:
    """The map on the network's own grid, not yet scaled.

    The class explained is the label (the paper's Eq. 5) or what the model predicts (the authors' code).
    The model is borrowed in eval mode and returned as found: mode, batch-norm statistics and `.grad` untouched; `infer`
    may be a faster way to its features. In train mode (the authors' code) it sees the batch as it does when it learns,
    and its running statistics move; in batch mode they are put back.
    """
    if infer is not None and mode == "eval" and model.found.kind != "vector":
        with torch.no_grad():
            return grad_cam(model, infer(x), y, task, target)
    with in_mode(model, mode):
        if model.found.kind == "vector":
            return pixel_gradient(model, x, y, task, target)
        with torch.no_grad():
            features = model.features(x)
        return grad_cam(model, features, y, task, target)


def grad_cam(
    model: Classifier, features: Float[Tensor, "b ..."], y: Int64[Tensor, "b"], task: int, target: Target
) -> Float[Tensor, "b i j"]:
    """ReLU(Σ_k α_k A_k), where α_k is the mean of ∂score/∂A_k over the map."""
    # only the head is differentiated: Grad-CAM asks how the score depends on the features, not on the pixels
    with torch.enable_grad():
        features.requires_grad_()
        logits = model.heads(model.pooled(features), task)
        (grads,) = torch.autograd.grad(logits, features, explained(model, logits, y, task, target))
    features, grads = on_grid(model, features.detach()), on_grid(model, grads)
    weights = grads.mean((2, 3), keepdim=True)
    return F.relu((weights * features).sum(1))


def pixel_gradient(
    model: Classifier, x: Float[Tensor, "b c h w"], y: Int64[Tensor, "b"], task: int, target: Target
) -> Float[Tensor, "b i j"]:
    """The largest |∂score/∂pixel| of the channels (Simonyan et al. 2014), averaged over cells of a few pixels."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        logits = model(x, task)
        (grads,) = torch.autograd.grad(logits, x, explained(model, logits, y, task, target))
    return F.adaptive_avg_pool2d(grads.abs().amax(1), model.found.grid)


def explained(
    model: Classifier, logits: Float[Tensor, "b k"], y: Int64[Tensor, "b"], task: int, target: Target
) -> Float[Tensor, "b k"]:
    """One for the score that is explained, zero for the others."""
    chosen = model.heads.positions(y, task) if target == "label" else logits.argmax(1)
    return (torch.arange(logits.shape[1], device=logits.device) == chosen[:, None]).to(logits.dtype)


def on_grid(model: Classifier, features: Float[Tensor, "b ..."]) -> Float[Tensor, "b d i j"]:
    """A map as it is; tokens where they lie in the image, without those that lie nowhere."""
    if features.ndim == 4:
        return features
    return features[:, model.found.prefix :].mT.unflatten(2, model.found.grid)


def byte_maps(x: Tensor, y: Tensor, **how: Any) -> tuple[UInt8[Tensor, "b i j"]]:
    """`saliency_map` as memory takes it, in the form that the engine can record."""
    return (as_bytes(saliency_map(x=x, y=y, **how)),)


def as_bytes(maps: Float[Tensor, "b i j"]) -> UInt8[Tensor, "b i j"]:
    """Each map with its highest value at 255; one of a network that has diverged is zero."""
    highest = maps.amax((1, 2), keepdim=True)
    scaled = 255 * maps / highest.clamp_min(torch.finfo(maps.dtype).tiny)
    return scaled.nan_to_num(0, 0, 0).round().to(torch.uint8)
