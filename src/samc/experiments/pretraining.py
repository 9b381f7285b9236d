"""Pretraining the autoencoder on images from outside a stream: masked, filled by Telea's rule, to be painted whole."""

import copy
import json
import math
from collections.abc import Callable
from statistics import fmean as mean
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from samc.completion import RULES
from samc.errors import ConfigError, DataError
from samc.machine import versions
from samc.memory import select
from samc.models import InpaintingAutoencoder
from samc.streams import Stream

STEPS, BATCH, LR = 20_000, 64, 0.01
# STEPS is the most, LR the first: it is halved when it no longer helps
AVERAGE = 0.99
# what is judged and written is an exponential average of the weights, over about 100 steps: it is better than the last
# ones, and its error goes down evenly enough to see when it no longer does
HELD_OUT = 10
# one image in so many is judged on and never trained on
EVERY, HALVE, PATIENCE = 200, 4, 12
# steps from one judgement to the next; judgements without improvement after which the step size is halved (and again
# after as many more), and after which training ends
IMPROVED = 0.001
# the share by which the error must fall: a step size that is halved and halved again always gains a little
ENLARGED, SHARE = 84, 4
# every second batch, of a quarter as many images, is enlarged to so many pixels a side: masks grow with an image, the
# network's reach does not, and what it learns at one size alone is worth less at the other
CELLS, PEAK, THRESHOLDS = 3, 2.0, (0.6, 0.7)
# of random maps: they keep as large a share as Grad-CAM's on Split CIFAR-100 do, 26 % at 0.6 and 18 % at 0.7, and
# Telea's rule has as hard a time with them


class Masked(NamedTuple):
    """Images as Telea's rule fills them, which of their pixels were kept, and the truth."""

    filled: UInt8[np.ndarray, "n c h w"]
    masks: Bool[np.ndarray, "n h w"]
    truth: UInt8[np.ndarray, "n c h w"]


class Pretrained(NamedTuple):
    """An autoencoder as it was when it did best on held-out images, and how it came to be."""

    autoencoder: InpaintingAutoencoder
    error: float
    # mean square on dropped pixels of held-out images, or of the last that it learnt from where none is held out
    best_step: int
    steps: int
    # that were made
    held_out: int
    # images


def random_masks(
    count: int, height: int, width: int, random: np.random.Generator, thresholds: tuple[float, float] = THRESHOLDS
) -> Bool[np.ndarray, "n h w"]:
    """Masks like those of Grad-CAM, of no image in particular; all of one threshold, drawn between the two."""
    maps = (255 * random.random((count, CELLS, CELLS)) ** PEAK).round().astype(np.uint8)
    selection, _ = select(maps, random.uniform(*thresholds), height, width, height * width)
    return selection.masks


def pretrain(
    images: UInt8[Tensor, "n c h w"],
    *,
    steps: int = STEPS,
    patience: int = PATIENCE,
    batch_size: int = BATCH,
    lr: float = LR,
    enlarged: int = ENLARGED,
    seed: int = 0,
    every: int = EVERY,
    device: torch.device = torch.device("cpu"),  # noqa: B008  (a device is a constant)
    tell: Callable[[int, float], None] = lambda step, error: None,
) -> Pretrained:
    """Learn to paint images whole until held-out ones gain no more, and return the weights that did best on those.

    `tell` hears the steps so far and the error on held-out images, every so many steps. Without patience nothing is
    held out: all steps are made, with a step size that rises to `lr` and falls again, and `tell` hears the error on the
    images that were learnt from. The package's weights were made like that.
    """
    if min(steps, every) < 1 or patience < 0 or batch_size < SHARE or not 0 < lr < math.inf:
        wanted = f"at least 1 step of {SHARE} images, a patience of at least 0, and an lr above 0"
        raise ConfigError(f"pretraining takes {wanted}; got {steps} of {batch_size}, {patience} and {lr}")
    if len(images) < 2:
        raise DataError(f"pretraining takes at least 2 images, one of them to be held out; got {len(images)}")
    random = np.random.default_rng(seed)
    autoencoder = InpaintingAutoencoder(images.shape[1], seed=seed).to(device)
    optimiser = torch.optim.Adam(autoencoder.parameters(), lr)
    enlarged = enlarged if enlarged > max(images.shape[2:]) else 0

    def train(step: int, rows: Tensor) -> float:
        """One step on some of the rows' images; returns the error before it."""
        large = enlarged > 0 and step % 2 == 0
        some = rows[torch.from_numpy(random.integers(len(rows), size=batch_size // SHARE if large else batch_size))]
        batch = images[some].flip(3) if random.random() < 0.5 else images[some]
        loss = error_on_dropped(autoencoder.train(), masked(resized(batch, enlarged) if large else batch, random))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    if not patience:
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, lr, total_steps=steps)
        errors: list[float] = []
        for step in range(1, steps + 1):
            errors.append(train(step, torch.arange(len(images))))
            schedule.step()
            if step % every == 0 or step == steps:
                tell(step, mean(errors[-every:]))
        return finite(Pretrained(autoencoder.eval(), mean(errors[-every:]), steps, steps, 0), lr)

    order = torch.from_numpy(random.permutation(len(images)))
    held_out, rows = order.tensor_split([max(1, len(images) // HELD_OUT)])
    judged = held_out_batches(images[held_out], batch_size, enlarged, random)
    averaged = AveragedModel(autoencoder, multi_avg_fn=get_ema_multi_avg_fn(AVERAGE), use_buffers=True)
    average = averaged.module
    assert isinstance(average, InpaintingAutoencoder)
    best, idle, mark = None, 0, math.inf
    for step in range(1, steps + 1):
        train(step, rows)
        averaged.update_parameters(autoencoder)
        if step % every and step < steps:
            continue
        error = held_out_error(average, judged)
        tell(step, error)
        if best is None or error < best.error:
            best = Pretrained(copy.deepcopy(average).eval(), error, step, step, len(held_out))
        idle = 0 if error < (1 - IMPROVED) * mark else idle + 1
        mark = mark if idle else error
        if idle == patience:
            break
        if idle and idle % HALVE == 0:
            for group in optimiser.param_groups:
                group["lr"] /= 2
    assert best is not None
    return finite(best._replace(steps=step), lr)


def finite(found: Pretrained, lr: float) -> Pretrained:
    if not math.isfinite(found.error):
        raise ConfigError(f"pretraining came to an error of {found.error} with an lr of {lr}; take a smaller one")
    return found


def masked(images: UInt8[Tensor, "n c h w"], random: np.random.Generator) -> Masked:
    truth = images.contiguous().numpy()
    count, _, height, width = truth.shape
    masks = random_masks(count, height, width, random)
    return Masked(RULES["telea"](truth, masks), masks, truth)


def resized(images: UInt8[Tensor, "n c h w"], side: int) -> UInt8[Tensor, "n c side side"]:
    return F.interpolate(images.float(), (side, side), mode="bicubic").round().clamp(0, 255).byte()


def error_on_dropped(autoencoder: InpaintingAutoencoder, batch: Masked) -> Float[Tensor, ""]:
    """Mean square; kept pixels are copied, never painted, so that only dropped ones are to be learnt."""
    device = next(autoencoder.parameters()).device
    filled, truth = (torch.from_numpy(part).to(device).float() / 255 for part in (batch.filled, batch.truth))
    dropped = torch.from_numpy(~batch.masks).to(device)
    return ((autoencoder(filled) - truth).square().mean(1) * dropped).sum() / dropped.sum()


def held_out_batches(
    images: UInt8[Tensor, "n c h w"], batch_size: int, enlarged: int, random: np.random.Generator
) -> list[Masked]:
    """Every image, and every fourth one enlarged as well, with masks that stay: as many batches of either size."""
    batches = list(images.split(batch_size))
    if enlarged:
        batches += [resized(batch, enlarged) for batch in images[::SHARE].split(batch_size // SHARE)]
    return [masked(batch, random) for batch in batches]


@torch.no_grad()
def held_out_error(autoencoder: InpaintingAutoencoder, judged: list[Masked]) -> float:
    autoencoder.eval()
    return sum(float(error_on_dropped(autoencoder, batch)) for batch in judged) / len(judged)


def training_images(stream: Stream) -> UInt8[Tensor, "n 3 h w"]:
    """Those of all tasks together."""
    if stream.image_shape[0] != 3:
        raise DataError(f"{stream.name} has images of one channel; pretraining takes images of three")
    return torch.cat([task.x for task in stream])


def as_file(autoencoder: InpaintingAutoencoder, **origin: object) -> bytes:
    """The weights as safetensors, with what they come from: as one text, since the format keeps no order of several."""
    weights = {name: tensor.contiguous().cpu() for name, tensor in autoencoder.state_dict().items()}
    return save(weights, {"pretrained": json.dumps(origin | {"versions": versions()})})
