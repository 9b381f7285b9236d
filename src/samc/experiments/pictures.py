"""Remembered images from the truth to what replay sees, collected during a run for pictures and nothing else."""

import io
from collections import deque
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from samc.config import LARGEST_IMAGE
from samc.errors import ConfigError, DataError
from samc.files import open_regular
from samc.learners.contract import Learner, StepStats
from samc.learners.samc import SAMC
from samc.memory.selection import MAX_LEVEL, upsampled
from samc.protocol import Watcher
from samc.streams import Stream, Task
from samc.streams.names import class_names, name_of
from samc.streams.npz import read_npz

PICTURES = "pictures.npz"
# the file that they travel in; it holds pixels of the data set
MOST_PICTURES = 1000
# in it; a run of twenty tasks leaves sixty


@dataclass(frozen=True)
class RememberedImage:
    """One remembered image, from the truth to what replay sees; float arrays in [0, 1], channels last."""

    task: int
    name: str
    truth: np.ndarray
    saliency: np.ndarray
    mask: np.ndarray
    completed: np.ndarray
    nbytes: int


class PictureCollector(Watcher):
    """Keeps the last images of each task aside, with their saliency as it was, for the picture and nothing else."""

    def __init__(self, last: int = 60):
        self.last = last
        self.seen: dict[int, deque[tuple[Tensor, np.ndarray]]] = {}

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None:
        if not isinstance(learner, SAMC) or not (learner.stored.codec.selective and learner.scenario.told):
            raise ConfigError("pictures show the pixels kept of each task; use SAMC with --preset paper")
        if learner.settings.keeps != "newest":
            raise ConfigError("pictures show the pixels kept of the newest images; use SAMC with --preset paper")
        self.stream, self.learner = stream, learner

    def step(self, task: Task, number: int, x: Tensor, stats: StepStats) -> None:
        assert stats.kept is not None
        pairs = self.seen.setdefault(task.id, deque(maxlen=self.last))
        pairs.extend(zip(x.cpu(), upsampled(stats.kept.maps, *x.shape[2:]) / MAX_LEVEL, strict=True))

    def state_dict(self) -> dict[str, Any]:
        return {"seen": {task: list(pairs) for task, pairs in self.seen.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = {task: deque(pairs, maxlen=self.last) for task, pairs in state["seen"].items()}

    def remembered(self, per_task: int) -> list[RememberedImage]:
        """The newest memories of each task, one per class as far as they go, as the next task would replay them."""
        assert isinstance(self.learner, SAMC)
        remembered, names = [], class_names(self.stream)
        for task, pairs in self.seen.items():
            images, masks, labels = self.learner.memory.recall(task)
            completed = self.learner.complete(images, masks).permute(0, 2, 3, 1).cpu().numpy()
            items = list(self.learner.memory.by_task[task].images)
            newest = range(1, min(len(labels), len(pairs)) + 1)
            # first in, first out: the newest memories are the newest images seen, in the same order
            by_class = {int(labels[-back]): back for back in reversed(newest)}
            for label, back in sorted(by_class.items())[:per_task]:
                truth, saliency = pairs[-back]
                remembered.append(
                    RememberedImage(
                        task=task,
                        name=name_of(label, names),
                        truth=truth.permute(1, 2, 0).numpy() / 255,
                        saliency=saliency,
                        mask=masks[-back],
                        completed=completed[-back],
                        nbytes=items[-back].nbytes,
                    )
                )
        return remembered

    def pack(self, per_task: int = 3) -> bytes:
        """What is remembered, as the content of one file."""
        columns = zip(*(astuple(image) for image in self.remembered(per_task)), strict=True)
        file = io.BytesIO()
        names = [field.name for field in fields(RememberedImage)]
        arrays: Any = {name: np.stack(column) for name, column in zip(names, columns, strict=True)}
        np.savez_compressed(file, **arrays)
        return file.getvalue()


def read_pictures(path: Path) -> list[RememberedImage]:
    """The remembered images of such a file, if they are what they should be."""
    remedy = "learn the run again, or remove the file"
    with open_regular(path, remedy) as file:
        arrays = read_npz(file, str(path), [field.name for field in fields(RememberedImage)])
    truth, mask = arrays["truth"], arrays["mask"]
    count, shape = len(truth) if truth.ndim else 0, truth.shape[:3]
    numbers = all(arrays[name].dtype.kind in "iu" and arrays[name].shape == (count,) for name in ("task", "nbytes"))
    pixels = [truth, arrays["completed"], arrays["saliency"]]
    if (
        not numbers
        or not 1 <= count <= MOST_PICTURES
        or (arrays["name"].dtype.kind, arrays["name"].shape) != ("U", (count,))
        or truth.ndim != 4
        or truth.shape[3] not in (1, 3)
        or not all(1 <= side <= LARGEST_IMAGE for side in shape[1:])
        or arrays["completed"].shape != truth.shape
        or arrays["saliency"].shape != shape
        or (mask.dtype, mask.shape) != (np.dtype(bool), shape)
        or not all(values.dtype.kind == "f" and ((values >= 0) & (values <= 1)).all() for values in pixels)
    ):
        raise DataError(f"{path} does not hold remembered images as a run leaves them; {remedy}")
    columns = [arrays[field.name] for field in fields(RememberedImage)]
    return [
        RememberedImage(int(task), str(name), truth, saliency, mask, completed, int(nbytes))
        for task, name, truth, saliency, mask, completed, nbytes in zip(*columns, strict=True)
    ]
