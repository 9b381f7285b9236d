"""What a network makes of its own memory: some images of each task, asked for at the task's end and at the run's.

It looks on and nothing else: the run is the same to the last bit, and its memory does not count what is noted here.
"""

import hashlib
import io
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from samc.errors import DataError
from samc.experiments.diagnosis import evenly_spread
from samc.files import open_regular
from samc.learners.contract import Learner, StepStats
from samc.learners.rehearsal import RehearsalLearner
from samc.learners.scenario import UNTOLD
from samc.memory.buffer import EpisodicMemory
from samc.memory.gist import Gist
from samc.memory.masked import MaskedCodec
from samc.memory.stored import StoredImage
from samc.protocol import Watcher
from samc.similarity import psnr
from samc.streams.base import Stream, Task
from samc.streams.npz import read_npz
from samc.streams.task import ArrayTask
from samc.values import is_count

FILE = "recollection.npz"
# its name in the folder of a run; it holds pixels that memories were completed with
MOST_IMAGES = 600
MOST_PIXELS = 2**20
# of all images together: what a page can show
STEPS_PER_IMAGE = 4.0
# that a run has at the least, so that asking takes less than a hundredth of its time
MOST_READ = 20_000
# images of a file; of more tasks than MOST_IMAGES it holds one each
UNKNOWN = -1
# a class that was not asked for


@dataclass(frozen=True, eq=False)
class Recollection:
    """Some remembered images, in the order of the memory's file: which they are, and what the network says of them.

    `then` is the class that was predicted when the image's task had just been learnt, `now` at the end of the run;
    `psnr` is of the image as it is replayed against the true one, NaN where that is not known, infinite where they are
    equal. `saliency` are the maps by which pixels were kept, where `salient`. `pixels` are the images as they are
    replayed, empty where that is as the codec gives them back.
    """

    task: Int64[np.ndarray, "n"]
    place: Int64[np.ndarray, "n"]
    label: Int64[np.ndarray, "n"]
    then: Int64[np.ndarray, "n"]
    now: Int64[np.ndarray, "n"]
    psnr: Float[np.ndarray, "n"]
    salient: Bool[np.ndarray, "n"]
    saliency: UInt8[np.ndarray, "n i j"]
    pixels: UInt8[np.ndarray, "m c h w"]

    def pack(self) -> bytes:
        """The content of one file."""
        file = io.BytesIO()
        arrays: Any = {item.name: getattr(self, item.name) for item in fields(self)}
        np.savez_compressed(file, **arrays)
        return file.getvalue()


class Recollector(Watcher):
    """Asks the network that answers for the class of some of what it remembers."""

    def __init__(self) -> None:
        self.learner: RehearsalLearner | None = None
        self.then: dict[int, dict[bytes, int]] = {}
        self.digests: list[int] = []
        self.maps: list[UInt8[np.ndarray, "b i j"]] = []
        self.kept: list[Any] = []

    def begin(self, stream: Stream, learner: Learner, steps: Sequence[int]) -> None:
        if isinstance(learner, RehearsalLearner):
            self.stream, self.learner = stream, learner
            _, height, width = stream.image_shape
            most = min(MOST_IMAGES, MOST_PIXELS // (height * width), int(sum(steps) / STEPS_PER_IMAGE))
            self.told = learner.scenario.told  # else its memory is of one task, which all of the stream's are
            self.per_task = max(1, most // (len(stream) if self.told else 1))

    def step(self, task: Task, number: int, x: Tensor, stats: StepStats) -> None:
        # what was kept is asked for later: it would make the host wait for the device
        if self.learner is not None and stats.keeping is not None and isinstance(task, ArrayTask):
            self.digests += [zlib.crc32(image.tobytes()) for image in x.numpy()]
            self.kept.append(stats.keeping)

    def evaluated(self, tasks_learnt: int, accuracies: list[float]) -> None:
        if self.learner is None or not tasks_learnt:
            return
        self.settle()
        memory, task = self.learner.memory, self.stream[tasks_learnt - 1].id if self.told else UNTOLD
        if task in memory.tasks:
            images = [memory.by_task[task].images[place] for place in self.spread(memory, task)]
            predicted = self.predict(self.replayed(memory, images), task)
            asked = dict(zip(map(digest, images), predicted.tolist(), strict=True))
            self.then[task] = asked | self.then.get(task, {})  # the first answer stays

    def recollection(self) -> Recollection | None:
        """Of a run at its end, wherever it was taken up; None of a method without a memory."""
        if self.learner is None:
            return None
        self.settle()
        return self.take(self.learner.memory)

    def spread(self, memory: EpisodicMemory, task: int) -> list[int]:
        """So many places in a task's memory, from the oldest to the newest."""
        return sorted(evenly_spread(len(memory.by_task[task].images), self.per_task))

    def settle(self) -> None:
        self.maps += [selection().maps for selection in self.kept]
        self.kept.clear()

    def replayed(self, memory: EpisodicMemory, images: Sequence[StoredImage]) -> UInt8[np.ndarray, "n c h w"]:
        """Images as the next task would replay them, in bytes."""
        assert self.learner is not None
        completed = self.learner.complete(*memory.codec.decode([image.blob for image in images]))
        return (255 * completed).round().to(torch.uint8).cpu().contiguous().numpy()

    def predict(self, pixels: UInt8[np.ndarray, "n c h w"], task: int) -> Int64[np.ndarray, "n"]:
        assert self.learner is not None
        return self.learner.answers(torch.from_numpy(pixels), task).numpy()

    def take(self, memory: EpisodicMemory) -> Recollection | None:
        """All tasks, at the end of the run; None of a memory that is empty."""
        sources = {task.id: [task] for task in self.stream} if self.told else {UNTOLD: list(self.stream)}
        parts = [self.take_task(memory, task, sources[task]) for task in memory.tasks if task in sources]
        if not parts:
            return None
        taken = Recollection(*map(np.concatenate, zip(*parts, strict=True)))
        blobs = [memory.by_task[task].images[place].blob for task, place in zip(taken.task, taken.place, strict=True)]
        unchanged = np.array_equal(taken.pixels, memory.codec.decode(blobs)[0])
        return replace(taken, pixels=taken.pixels[:0]) if unchanged else taken

    def take_task(self, memory: EpisodicMemory, task: int, sources: Sequence[Task]) -> tuple[np.ndarray, ...]:
        """A task's columns: of the images that were asked about at a task's end, those that are still held."""
        held, known = memory.by_task[task].images, self.then.get(task, {})
        asked = [place for place, image in enumerate(held) if digest(image) in known] or list(range(len(held)))
        places = [asked[number] for number in sorted(evenly_spread(len(asked), self.per_task))]
        images = [held[place] for place in places]
        pixels, labels = self.replayed(memory, images), memory.labels(images)
        count, originals = len(places), self.originals(memory, images, labels, sources)
        salient, saliency = self.saliency(originals, count)
        return (
            np.full(count, task, np.int64),
            np.array(places, np.int64),
            labels,
            np.array([known.get(digest(image), UNKNOWN) for image in images], np.int64),
            self.predict(pixels, task),
            np.array([decibels(*pair) for pair in zip(pixels, originals, strict=True)]),
            salient,
            saliency,
            pixels,
        )

    def originals(
        self, memory: EpisodicMemory, images: Sequence[StoredImage], labels: np.ndarray, sources: Sequence[Task]
    ) -> list[UInt8[np.ndarray, "c h w"] | None]:
        """The training image behind each, where those that it may be are at hand."""
        at_hand = [task for task in sources if isinstance(task, ArrayTask)]
        if len(at_hand) < len(sources):
            return [None] * len(images)
        stored, masks = memory.codec.decode([image.blob for image in images])
        exact = isinstance(memory.codec, MaskedCodec | Gist)
        found: list[np.ndarray | None] = [None] * len(images)
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            candidates = np.concatenate([task.x[task.y == int(label)].numpy() for task in at_hand])
            if not len(candidates):  # a class of a run that this one goes on from
                continue
            for row, place in zip(rows, nearest(stored[rows], masks[rows], candidates), strict=True):
                original = candidates[place]
                if not exact or np.array_equal(stored[row][:, masks[row]], original[:, masks[row]]):
                    found[row] = original
        return found

    def saliency(self, originals: Sequence[np.ndarray | None], count: int) -> tuple[np.ndarray, np.ndarray]:
        """The map by which each image's pixels were kept, and whether it is known."""
        maps = np.concatenate(self.maps) if self.maps else np.zeros((0, 1, 1), np.uint8)
        rows = {number: row for row, number in enumerate(self.digests)}  # of an image seen twice, the newest
        found = [None if image is None else rows.get(zlib.crc32(image.tobytes())) for image in originals]
        salient = np.array([row is not None for row in found], bool)
        empty = np.zeros(maps.shape[1:], np.uint8)
        return salient, np.stack([empty if row is None else maps[row] for row in found])

    def state_dict(self) -> dict[str, Any]:
        self.settle()
        maps = np.concatenate(self.maps) if self.maps else None
        return {"then": self.then, "digests": np.array(self.digests, np.uint32), "maps": maps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        then, digests, maps = state["then"], state["digests"], state["maps"]
        answers = [pair for asked in then.values() for pair in asked.items()]
        if not all(type(image) is bytes and is_count(answer) for image, answer in answers):
            raise ValueError("its answers on remembered images are none")
        mapped = (np.uint8, 3, 0) if maps is None else (maps.dtype, maps.ndim, len(maps))
        if (digests.dtype, digests.ndim) != (np.uint32, 1) or mapped != (np.uint8, 3, len(digests)):
            raise ValueError("its saliency maps are none")
        self.then, self.digests, self.maps = then, digests.tolist(), [] if maps is None else [maps]


def digest(image: StoredImage) -> bytes:
    return hashlib.blake2b(image.blob + image.label, digest_size=16).digest()


def nearest(
    images: UInt8[np.ndarray, "n c h w"], masks: Bool[np.ndarray, "n h w"], candidates: UInt8[np.ndarray, "m c h w"]
) -> Int64[np.ndarray, "n"]:
    """For each image the candidate that differs least from it where it was kept."""
    x = torch.from_numpy(candidates.reshape(len(candidates), -1) / np.float32(255))
    kept = torch.from_numpy(np.broadcast_to(masks[:, None], images.shape).reshape(len(images), -1).astype(np.float32))
    stored = torch.from_numpy(images.reshape(len(images), -1) / np.float32(255))
    distances = kept @ (x * x).T - 2 * (kept * stored) @ x.T  # less what is the same for all candidates
    return distances.argmin(1).numpy()


def decibels(pixels: np.ndarray, original: np.ndarray | None) -> float:
    if original is None:
        return math.nan
    found = psnr(float(((pixels.astype(np.float64) - original) ** 2).mean()) / 255**2)
    assert found is not None
    return found


def read_recollection(path: Path) -> Recollection:
    """From such a file, if it is what it should be."""
    remedy = "learn the run again, or remove the file"
    with open_regular(path, remedy) as file:
        arrays = read_npz(file, str(path), [item.name for item in fields(Recollection)])
    count = len(arrays["label"]) if arrays["label"].ndim else 0
    kinds = {"psnr": "f", "salient": "b", "saliency": "u", "pixels": "u"}
    ranks = {"saliency": 3, "pixels": 4}
    lengths = {"pixels": (0, count)}
    for name, array in arrays.items():
        right = array.dtype.kind == kinds.get(name, "i") and array.ndim == ranks.get(name, 1)
        small = array.dtype.itemsize == 1 or array.ndim == 1
        if not right or not small or len(array) not in lengths.get(name, (count,)) or not 1 <= count <= MOST_READ:
            raise DataError(f"{path} does not hold what a run says of its memory; {remedy}")
    return Recollection(**arrays)
