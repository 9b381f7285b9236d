"""Why a network says what it says of an image: how sure it is, what it looks at, and what memory that rests on."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional as F

from samc.errors import ConfigError, DataError
from samc.learners.answers import EVALUATION_BATCH
from samc.learners.base import NetworkLearner
from samc.learners.inputs import TaskId, told_task
from samc.learners.rehearsal import RehearsalLearner
from samc.memory.selection import MAX_LEVEL, upsampled
from samc.models.classifier import in_mode
from samc.saliency.grad_cam import as_bytes, saliency_map
from samc.streams.images import read_fitted
from samc.streams.names import name_of

NEIGHBOURS = 6
SHOWN_CLASSES = 5


@dataclass(frozen=True, eq=False, repr=False)
class Neighbour:
    """A remembered image as it is replayed, and which of its pixels are kept; how alike it is: 1 is the same."""

    picture: UInt8[np.ndarray, "h w c"]
    mask: Bool[np.ndarray, "h w"]
    alike: float
    nbytes: int

    def __str__(self) -> str:
        kept = "" if self.mask.all() else f", {self.mask.mean():.0%} of it kept"
        return f"{self.alike:.2f} alike, {self.nbytes:,} bytes{kept}"


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """A prediction and what speaks for it. In a notebook it is shown as a picture.

    picture      the image
    label, name  the class that is predicted
    task         the one that the image is of; None where an image comes without one
    confidences  of each class that it may be of, with its name, the predicted first: softmax of the method's scores
    saliency     Grad-CAM's map for the predicted class, from 0 to 1
    neighbours   remembered images of that class, those whose features have the smallest angle to the image's first
    remembered   how many images of that class memory holds, the task's where there is one; None without a memory
    """

    picture: UInt8[np.ndarray, "h w c"]
    task: int | None
    label: int
    name: str
    confidences: tuple[tuple[str, float], ...]
    saliency: Float[np.ndarray, "h w"]
    neighbours: tuple[Neighbour, ...]
    remembered: int | None
    method: str

    @property
    def confidence(self) -> float:
        return self.confidences[0][1]

    @property
    def basis(self) -> str:
        """What is remembered of the class, in words."""
        if self.remembered is None:
            return f"{self.method} has no episodic memory that this could rest on"
        if not self.remembered:
            where = "the memory" if self.task is None else f"the memory of task {self.task + 1}"
            return f"{where} holds no image of {self.name}"
        held = "1 image" if self.remembered == 1 else f"{self.remembered:,} images"
        return f"nearest of {held} of {self.name} in memory"

    def lines(self) -> list[str]:
        """All of it in words."""
        others = [f"{name} {share:.1%}" for name, share in self.confidences[1:SHOWN_CLASSES]]
        return [
            f"{self.name}, {self.confidence:.1%} sure" + (f"; else {', '.join(others)}" if others else ""),
            self.basis + (":" if self.neighbours else ""),
            *(f"  {number}  {neighbour}" for number, neighbour in enumerate(self.neighbours, start=1)),
        ]

    def __repr__(self) -> str:
        return f"Explanation({self.name}, {self.confidence:.1%} sure, {len(self.neighbours)} neighbours)"

    def _repr_png_(self) -> bytes:
        from samc.report.explanation_picture import draw_explanation  # noqa: PLC0415  (matplotlib takes long)

        return draw_explanation(self)

    def _repr_html_(self) -> str:
        words = html.escape("; ".join(self.lines()[:2]), quote=True)
        content = base64.b64encode(self._repr_png_()).decode()
        return f'<img src="data:image/png;base64,{content}" alt="{words}" style="max-width:100%">'


@torch.no_grad()
def explain(
    learner: Any,
    image: Any,
    task: TaskId | None = None,
    *,
    neighbours: int = NEIGHBOURS,
    class_names: Sequence[str] | None = None,
) -> Explanation:
    """What a learner, such as `samc.load` makes, makes of one image of a task, or of one without a task, and why.

    `image` is one image as the learner takes it, or an image file, which is resized as --image-size does. The learner
    stays as it is.
    """
    if not isinstance(learner, NetworkLearner):
        raise ConfigError(f"explain takes a learner, such as samc.load makes; got {type(learner).__name__}")
    if neighbours < 0:
        raise ConfigError(f"so many neighbours are shown, 0 or more; got {neighbours}")
    with learner.guard.lock, in_mode(learner.answering.model, "eval"):
        learner.check_asked(task)
        batch, number = one_image(learner, image), told_task(task)
        x, model = learner.as_images(batch), learner.answering.model
        label = int(learner.predict(batch, task))
        classes = model.heads.choices[model.heads.head_of(number)]
        shares = learner.scores(x, number).double().softmax(1)[0].tolist()
        named = [(name_of(known, class_names), share) for known, share in zip(classes, shares, strict=True)]
        wanted = torch.tensor([label], device=learner.device)
        maps = as_bytes(saliency_map(model, x, wanted, number)).cpu().numpy()
        asked = None if task is None else number
        found, remembered = nearest(learner, x, asked, label, neighbours)
    return Explanation(
        picture=as_picture(learner.as_bytes(batch)[0]),
        task=asked,
        label=label,
        name=name_of(label, class_names),
        confidences=tuple(sorted(named, key=lambda item: -item[1])),
        saliency=upsampled(maps, *learner.image_shape[1:])[0] / MAX_LEVEL,
        neighbours=found,
        remembered=remembered,
        method=type(learner).__name__,
    )


def one_image(learner: NetworkLearner, image: Any) -> Tensor:
    """A batch of one, as the learner takes it."""
    if isinstance(image, str | Path):
        return torch.from_numpy(read_fitted(Path(image), learner.image_shape)[None])
    if not isinstance(image, Tensor | np.ndarray):
        raise DataError(f"an image is an array, a tensor or the path of a file; got {type(image).__name__}")
    batch = learner.in_order(image[None] if image.ndim == 3 else image)
    if len(batch) != 1:
        raise DataError(f"one image is explained at a time; got {len(batch)}")
    return batch


def nearest(
    learner: NetworkLearner, x: Float[Tensor, "1 c h w"], task: int | None, label: int, count: int
) -> tuple[tuple[Neighbour, ...], int | None]:
    """Of a class's remembered images, of one task or of all, the most alike in features; and how many there are."""
    if not isinstance(learner, RehearsalLearner):
        return (), None
    memory = learner.memory
    tasks = memory.tasks if task is None else [task]
    held = [image for known in tasks if known in memory.by_task for image in memory.by_task[known].images]
    stored = [image for image, known in zip(held, memory.labels(held), strict=True) if known == label]
    found: list[Neighbour] = []
    for start in range(0, len(stored), EVALUATION_BATCH):
        part = stored[start : start + EVALUATION_BATCH]
        images, masks = memory.codec.decode([image.blob for image in part])
        replayed = learner.complete(images, masks)
        alike = F.cosine_similarity(embedded(learner, x), embedded(learner, replayed)).clamp(-1, 1).tolist()
        pixels = (255 * replayed).round().clamp(0, 255).to(torch.uint8).cpu().numpy()
        for row, image in enumerate(part):
            found.append(Neighbour(as_picture(pixels[row]), masks[row], alike[row], image.nbytes))
        found = sorted(found, key=lambda neighbour: -neighbour.alike)[:count]
    return tuple(found), len(stored)


def embedded(learner: NetworkLearner, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
    """What the heads see of images: the pooled features."""
    return learner.answering.model.pooled(learner.answering.features(x)).float()


def as_picture(image: UInt8[np.ndarray, "c h w"]) -> UInt8[np.ndarray, "h w d"]:
    """Channels last, one or three of them; any other number is shown as its mean."""
    shown = image if len(image) in (1, 3) else image.mean(0, keepdims=True).astype(np.uint8)
    return np.ascontiguousarray(shown.transpose(1, 2, 0))
