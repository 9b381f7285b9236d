"""Pretraining the autoencoder on images from outside a stream: masked, filled by Telea's rule, to be painted whole."""

import json
import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, UInt8
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional as F

from samc.completion import RULES, Completion
from samc.errors import ConfigError, DataError
from samc.memory import select
from samc.models import InpaintingAutoencoder
from samc.record import versions
from samc.streams import Stream

STEPS, BATCH, LR = 4000, 64, 0.01
# LR is the highest: it rises to it and falls again
ENLARGED, SHARE = 84, 4
# every second batch, of a quarter as many images, is enlarged to so many pixels a side: masks grow with an image, the
# network's reach does not, and what it learns at one size alone is worth less at the other
CELLS, PEAK, THRESHOLDS = 3, 2.0, (0.6, 0.7)
# of random maps: they keep as large a share as Grad-CAM's on Split CIFAR-100 do, 26 % at 0.6 and 18 % at 0.7, and
# Telea's rule has as hard a time with them


def random_masks(count: int, height: int, width: int, random: np.random.Generator) -> Bool[np.ndarray, "n h w"]:
    """Masks like those of Grad-CAM, of no image in particular."""
    maps = (255 * random.random((count, CELLS, CELLS)) ** PEAK).round().astype(np.uint8)
    selection, _ = select(maps, random.uniform(*THRESHOLDS), height, width, height * width)
    return selection.masks


def pretrain(
    images: UInt8[Tensor, "n 3 h w"],
    *,
    steps: int = STEPS,
    batch_size: int = BATCH,
    lr: float = LR,
    enlarged: int = ENLARGED,
    seed: int = 0,
    device: torch.device = torch.device("cpu"),  # noqa: B008  (a device is a constant)
    tell: Callable[[int, float], None] = lambda step, loss: None,
) -> InpaintingAutoencoder:
    """An autoencoder that has learnt to paint images whole; `tell` hears the loss on dropped pixels at each step."""
    if steps < 1 or batch_size < SHARE or not 0 < lr < math.inf:
        wanted = f"at least 1 step of {SHARE} images, and an lr above 0"
        raise ConfigError(f"pretraining takes {wanted}; got {steps} of {batch_size}, and {lr}")
    random = np.random.default_rng(seed)
    autoencoder = InpaintingAutoencoder(images.shape[1], seed=seed).to(device)
    completion = Completion(RULES["telea"], autoencoder, device)
    optimiser = torch.optim.Adam(autoencoder.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, lr, total_steps=steps)
    autoencoder.train()
    for step in range(steps):
        large = step % 2 == 1 and enlarged > max(images.shape[2:])
        rows = torch.from_numpy(random.integers(len(images), size=batch_size // SHARE if large else batch_size))
        batch = images[rows].flip(3) if random.random() < 0.5 else images[rows]
        if large:
            batch = F.interpolate(batch.float(), (enlarged, enlarged), mode="bicubic").round().clamp(0, 255).byte()
        count, _, height, width = batch.shape
        masked = batch.contiguous().numpy()
        coarse, kept = completion.coarse(masked, random_masks(count, height, width, random))
        truth = batch.to(device).float() / 255
        # kept pixels are copied, never painted: only dropped ones are to be learnt
        loss = (F.mse_loss(autoencoder(coarse), truth, reduction="none").mean(1, keepdim=True) * ~kept).sum()
        loss = loss / (~kept).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        tell(step + 1, float(loss.detach()))
    return autoencoder.eval()


def training_images(stream: Stream) -> UInt8[Tensor, "n 3 h w"]:
    """Those of all tasks together."""
    if stream.image_shape[0] != 3:
        raise DataError(f"{stream.name} has images of one channel; pretraining takes images of three")
    return torch.cat([task.x for task in stream])


def as_file(autoencoder: InpaintingAutoencoder, **origin: object) -> bytes:
    """The weights as safetensors, with what they come from: as one text, since the format keeps no order of several."""
    weights = {name: tensor.contiguous().cpu() for name, tensor in autoencoder.state_dict().items()}
    return save(weights, {"pretrained": json.dumps(origin | {"versions": versions()})})
