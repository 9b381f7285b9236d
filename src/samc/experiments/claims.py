"""The paper's claims as measurements: Lemma 1 and Theorem 1 of one step, Lemma 2 and fidelity of one memory."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from samc.engine import Batch, descend, flat_parameters, gradient, trainable
from samc.models import Classifier
from samc.models.classifier import in_mode
from samc.similarity import psnr, squared_error, ssim

SHORT_STEP = 0.01
# Lemma 1 speaks of a step that is small enough; a hundredth of the applied one stands for that


@dataclass(frozen=True)
class StepClaims:
    """One step of a task and one past task k. Products are inner products of gradients at the step's start.

    g̃ is the step that was applied, g the current batch's own gradient, g̃_k that of the completed memory and g_k that
    of the true images behind it. Losses are the completed memory's, on its own batch statistics, as g̃_k has them.
    """

    task: int
    step: int
    past_task: int
    loss_before: float
    loss_after: float
    loss_after_short_step: float
    product_applied: float  # ⟨g̃, g̃_k⟩
    product_completed: float  # ⟨g, g̃_k⟩
    product_true: float  # ⟨g, g_k⟩
    reference_cosine: float  # of g̃_k and g_k

    @property
    def acute(self) -> bool:
        return self.product_applied >= 0

    @property
    def fell(self) -> bool:
        return self.loss_after <= self.loss_before

    @property
    def fell_after_short_step(self) -> bool:
        return self.loss_after_short_step <= self.loss_before

    @property
    def signs_agree(self) -> bool:
        return (self.product_completed > 0) == (self.product_true > 0)


@dataclass(frozen=True)
class MemoryClaims:
    """One completed memory after some task; means and shares over its images.

    An error is |f(x) − f(x̃)| of the label's logit, in eval mode; its bound is μ·Δx·√d, with Δx the largest difference
    of a value and d the number of values of an image. Inside are pixels that the codec says it kept, outside those
    that it dropped; a figure is None where there are no such pixels.
    """

    tasks_learnt: int
    task: int
    images: int
    output_error: float
    output_bound: float
    bound_holds: float
    squared_error_inside: float | None
    squared_error_outside: float | None
    psnr_inside: float | None
    psnr_outside: float | None
    ssim_inside: float | None
    ssim_outside: float | None


def examine_step(
    before: Classifier,
    after: Classifier,
    *,
    lr: float,
    number: int,
    batch: Batch,
    completed: Sequence[Batch],
    truths: Mapping[int, Batch],
) -> list[StepClaims]:
    """What a step did to each past task. The two networks are copies: their running statistics are changed."""
    # the step is read off the parameters, so that it is the applied one whatever rule made it
    applied = (flat_parameters(before).double() - flat_parameters(after).double()) / lr
    short = copy.deepcopy(before)
    descend(trainable(short), applied.float(), SHORT_STEP * lr)
    g = gradient(before, [batch])[0].double()
    claims = []
    for memory in completed:
        completed_g, true_g = (gradient(before, [images])[0].double() for images in (memory, truths[memory.only_task]))
        claims.append(
            StepClaims(
                task=batch.only_task,
                step=number,
                past_task=memory.only_task,
                loss_before=loss(before, memory),
                loss_after=loss(after, memory),
                loss_after_short_step=loss(short, memory),
                product_applied=float(applied @ completed_g),
                product_completed=float(g @ completed_g),
                product_true=float(g @ true_g),
                reference_cosine=float(F.cosine_similarity(completed_g, true_g, dim=0)),
            )
        )
    return claims


@torch.no_grad()
def loss(model: Classifier, batch: Batch) -> float:
    """Mean cross-entropy on the batch's own statistics: the function that `gradient` differentiates."""
    model.train()
    return float(F.cross_entropy(model(batch.x, batch.task), model.heads.positions(batch.y, batch.only_task)))


def examine_memory(
    model: Classifier,
    *,
    tasks_learnt: int,
    truth: Batch,
    completed: Float[Tensor, "n c h w"],
    masks: Bool[np.ndarray, "n h w"],
    threshold: float,
) -> MemoryClaims:
    """How far a completed memory is from the truth, in pixels and in the network's output."""
    errors, bounds = output_errors(model, truth, completed), output_bounds(truth.x, completed, threshold)
    true, filled = truth.x.cpu().numpy(), completed.cpu().numpy()
    inside, outside = squared_error(true, filled, masks), squared_error(true, filled, ~masks)
    return MemoryClaims(
        tasks_learnt=tasks_learnt,
        task=truth.only_task,
        images=len(truth.y),
        output_error=float(errors.mean()),
        output_bound=float(bounds.mean()),
        bound_holds=float((errors <= bounds).double().mean()),
        squared_error_inside=inside,
        squared_error_outside=outside,
        psnr_inside=psnr(inside),
        psnr_outside=psnr(outside),
        ssim_inside=ssim(true, filled, masks),
        ssim_outside=ssim(true, filled, ~masks),
    )


@torch.no_grad()
def output_errors(model: Classifier, truth: Batch, completed: Float[Tensor, "n c h w"]) -> Float[Tensor, "n"]:
    """|f(x) − f(x̃)| for each image: f is the label's logit, on running statistics; the model is returned as found."""
    with in_mode(model, "eval"):
        true, filled = (model(x, truth.task) for x in (truth.x, completed))
    label = model.heads.positions(truth.y, truth.only_task)[:, None]
    return (true - filled).gather(1, label)[:, 0].abs()


def output_bounds(
    truth: Float[Tensor, "n c h w"], completed: Float[Tensor, "n c h w"], threshold: float
) -> Float[Tensor, "n"]:
    """μ·Δx·√d of Lemma 2 for each image; the lemma is printed with d⁻², its proof has √d."""
    return threshold * (truth - completed).abs().amax((1, 2, 3)) * math.sqrt(truth[0].numel())
