"""Images and labels as callers hand them over, checked: on the device in [0, 1], or as memory keeps them."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from samc.errors import ConfigError, DataError
from samc.learners.augmentation import augmented
from samc.learners.scenario import UNTOLD, Scenario
from samc.models import Classifier
from samc.models.classifier import Batch
from samc.streams import pixels
from samc.streams.pixels import HALF_A_STEP, MOST_CLASSES, Normalisation

Images = Tensor | np.ndarray
Labels = Tensor | np.ndarray | Sequence[int]
TaskId = SupportsIndex
WHOLE = (torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8, torch.uint16, torch.uint32, torch.uint64)
# types of a label
LARGEST_TASK = 2**63 - 1
# number, in a tensor of them


class Inputs:
    """What a learner does with images and labels before anything else."""

    image_shape: tuple[int, int, int]
    normalisation: Normalisation | None
    device: torch.device
    model: Classifier
    current_task: int | None
    begun: bool
    settings: Any
    random: torch.Generator
    declared: set[int]
    scenario: Scenario
    assign: Callable[[int, Sequence[int]], None]
    begin: Callable[[int], None]

    @property
    def mean(self) -> tuple[float, ...] | None:
        return self.normalisation.mean if self.normalisation else None

    @property
    def std(self) -> tuple[float, ...] | None:
        return self.normalisation.std if self.normalisation else None

    def as_batch(self, x: Images, y: Labels, task: TaskId | None) -> Batch:
        """A batch as the network takes it, or the reason why it cannot be learnt from."""
        if (task is None) == self.scenario.told:
            self.scenario.check_observed(task)
        number, images = told_task(task), self.as_images(x)
        y = y if isinstance(y, Tensor) else pixels.as_labels(y, len(images), "batch")
        if y.shape != (len(images),) or y.dtype not in WHOLE:
            found = f"{y.dtype} {tuple(y.shape)} for {len(images)} images"
            raise DataError(f"labels are one whole number per image; got {found}")
        known = self.model.heads.task_classes.get(number, ())
        strange = set(y.tolist()) - set(known)
        if strange and number in self.declared:
            raise DataError(f"labels {sorted(strange)} are not among task {number}'s classes {list(known)}")
        if strange and not 0 <= min(strange) <= max(strange) < MOST_CLASSES:
            found = f"{min(strange)} to {max(strange)}"
            raise DataError(f"labels number the classes 0, 1, 2, ...; task {number} has {found}; renumber them")
        if strange:
            self.assign(number, [*known, *strange])
        if number != self.current_task or not self.begun:
            self.begin(number)
        y = y.to(self.device, torch.int64)
        return Batch(images, y, number, self.among(y, number) if self.scenario.one_head else None)

    def among(self, y: Int64[Tensor, "b"], task: int) -> Bool[Tensor, "b n"] | None:
        """To which classes the loss of a batch is confined; None: to those of its head."""
        return None

    def augmented(self, batch: Batch) -> Batch:
        """The batch as it is learnt from."""
        how = self.settings.augment
        return batch if how == "none" else batch._replace(x=augmented(batch.x, how, self.random))

    def as_images(self, x: Images) -> Float[Tensor, "b c h w"]:
        """Images on the device in [0, 1]: uint8 is divided by 255, normalised ones are turned back, others checked."""
        x = self.in_order(x)
        if x.dtype == torch.uint8:
            return x.to(self.device).float() / 255
        return self.in_range(x).to(self.device, torch.float32)

    def as_bytes(self, x: Images) -> UInt8[np.ndarray, "b c h w"]:
        """Images as the bytes that memory keeps: as they came, or rounded from [0, 1]."""
        x = self.in_order(x)
        x = x if x.dtype == torch.uint8 else (self.in_range(x) * 255).round().to(torch.uint8)
        return x.cpu().numpy()

    def in_order(self, x: Any) -> Tensor:
        """A tensor of images of the right shape; arrays may have their channels last."""
        if isinstance(x, np.ndarray):
            x = pixels.as_tensor(x, "images")
            channels, *size = self.image_shape
            if tuple(x.shape[1:]) == (*size, channels) != self.image_shape:
                x = x.permute(0, 3, 1, 2)
        if not isinstance(x, Tensor) or x.ndim != 4 or tuple(x.shape[1:]) != self.image_shape or not len(x):
            found = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise DataError(f"images are (batch, {', '.join(map(str, self.image_shape))}); got {found}")
        return x

    def in_range(self, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            raise DataError(f"images are uint8 from 0 to 255 or floats from 0 to 1; got {x.dtype}")
        if self.normalisation:
            x = self.normalisation.undo(x.float())
            x = torch.where((x >= -HALF_A_STEP) & (x <= 1 + HALF_A_STEP), x.clamp(0, 1), x)  # rounded on the way
        if not bool(((x >= 0) & (x <= 1)).all()):  # NaN fails every comparison
            kind = "NaN" if bool(x.isnan().any()) else f"{float(x.min()):.3g} to {float(x.max()):.3g}"
            after = " after the normalisation was undone" if self.normalisation else ""
            remedy = "Clean the data, pass uint8, or say how they were normalised: mean= and std="
            raise DataError(f"float images are from 0 to 1; got {kind}{after}. {remedy}")
        return x


def as_labels(y: Labels) -> Int64[np.ndarray, "b"]:
    """Labels as memory keeps them."""
    y = y if isinstance(y, Tensor) else pixels.as_labels(y, len(y), "batch")
    return y.cpu().numpy().astype(np.int64)


def told_task(task: TaskId | None) -> int:
    """The number of the task that a caller names, or of the one that there is where none is named."""
    return UNTOLD if task is None else task_number(task)


def task_number(task: Any) -> int:
    """The task's number as an int, which is what memories and heads know it by: 0, numpy's 0 or a tensor of one 0."""
    if type(task) is int and abs(task) <= LARGEST_TASK:
        return task
    array = isinstance(task, Tensor | np.ndarray)
    truth = isinstance(task, bool) or str(getattr(task, "dtype", "")).endswith("bool")
    try:
        number = None if truth or (array and task.ndim) else operator.index(task)
    except TypeError:
        number = None
    if number is None or abs(number) > LARGEST_TASK:
        found = f"{type(task).__name__} of shape {tuple(task.shape)}" if array else repr(task)
        raise ConfigError(f"task is the number of one task, such as 0; got {found}")
    return number
