"""Avalanche's replay with our memory: a storage policy that keeps bytes of compressed images under a budget."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from avalanche.benchmarks.utils import AvalancheDataset, DataAttribute, TaskAwareSupervisedClassificationDataset
from avalanche.benchmarks.utils.classification_dataset import ClassificationDataset
from avalanche.training.plugins import ReplayPlugin
from avalanche.training.storage_policy import ExemplarsBuffer
from torch import Tensor
from torch.utils.data import Dataset

from samc.avalanche.experiences import Pairs, image_shape, task_labels, task_number
from samc.errors import ConfigError
from samc.memory import AUTO, Budget, EpisodicMemory, codec_for, full_selection, parse_budget, parse_codec
from samc.streams.pixels import Normalisation
from samc.streams.samples import one_image, read_dataset

AT_ONCE = 500
# images that are encoded together


class CompressedBuffer(ExemplarsBuffer):
    """A storage policy that keeps small pictures of whole images: a uniform sample of each experience, in its share.

    memory_bytes   600KB for all experiences together, or 30KB/task for each; `max_size` is that number of bytes
    codec          how an image is kept: auto (by the budget), raw, jpeg:Q, webp:Q, thumb:N, at N pixels a side with @N
    num_classes    how many there are, if that is known: labels of at most 256 classes take one byte instead of two
    mean, std      what the benchmark's transforms normalise images with, if they do
    transform      what is done to an image in [0, 1] whenever it is replayed, such as a random flip

    Images are stored as the benchmark's eval transforms give them, and come back like that, but for compression.
    """

    def __init__(
        self,
        memory_bytes: str,
        codec: str = AUTO,
        *,
        num_classes: int | None = None,
        mean: Any = None,
        std: Any = None,
        transform: Callable[[Tensor], Tensor] | None = None,
        seed: int = 0,
    ):
        self.budget, self.codec, self.num_classes = parse_budget(memory_bytes), codec, num_classes
        super().__init__(self.budget.total)
        self.normalisation, self.transform = Normalisation.of(mean, std), transform
        self.random = torch.Generator().manual_seed(seed)
        self.memory: EpisodicMemory | None = None
        self.groups: dict[tuple[int, int], int] = {}  # number and task label of an experience: its place in memory
        self.floats, self.task_aware = True, False

    def post_adapt(self, agent: Any, exp: Any) -> None:
        """Offer every image of an experience to the memory."""
        pairs, number, tasks = Pairs(exp.dataset), task_number(exp), task_labels(exp.dataset)
        x, y = read_dataset(pairs, f"the images of experience {number}", self.normalisation)
        self.task_aware = hasattr(exp.dataset, "targets_task_labels")
        if self.memory is None:
            self.floats = one_image(pairs[0][0], "images").is_floating_point()
            self.memory = self.made(image_shape(x))
        for label in tasks.unique().tolist():
            place = self.groups.setdefault((number, label), len(self.groups))
            for rows in torch.nonzero(tasks == label).flatten().split(AT_ONCE):
                images = np.ascontiguousarray(x[rows].numpy())
                everything = full_selection(len(rows), *images.shape[2:])
                self.memory.add(place, images, everything, y[rows].numpy())

    def made(self, shape: tuple[int, int, int]) -> EpisodicMemory:
        spec = codec_for(self.budget, shape, salient=False) if self.codec == AUTO else self.codec
        codec = parse_codec(spec, shape, (1, 1))
        if codec.selective:
            raise ConfigError(f"codec {spec!r} needs to know what is salient; use SAMCPlugin, or jpeg:10 here")
        return EpisodicMemory(codec, self.num_classes, self.budget, reservoir=self.random)

    @property
    def buffer(self) -> AvalancheDataset:
        """All that is remembered; an image is decoded when it is drawn."""
        if self.memory is None:
            return self._buffer
        remembered = Remembered(self.memory, self.normalisation, self.transform, self.floats)
        targets = DataAttribute(remembered.labels, "targets")
        if not self.task_aware:
            return ClassificationDataset([remembered], data_attributes=[targets])
        label_of = {place: label for (_, label), place in self.groups.items()}
        tasks = [label_of[place] for place, held in self.memory.by_task.items() for _ in held.images]
        shown = DataAttribute(tasks, "targets_task_labels", use_in_getitem=True)
        return TaskAwareSupervisedClassificationDataset([remembered], data_attributes=[targets, shown])

    def resize(self, strategy: Any, new_size: int) -> None:
        """Another budget, in bytes."""
        self.max_size, self.budget = new_size, Budget(new_size, self.budget.per_task)
        if self.memory is not None:
            self.memory.budget = self.budget
            for held in self.memory.by_task.values():
                self.memory.make_room(held, 0)


class Remembered(Dataset):
    """Everything that a memory holds now, image by image."""

    def __init__(
        self,
        memory: EpisodicMemory,
        normalisation: Normalisation | None,
        transform: Callable[[Tensor], Tensor] | None,
        floats: bool,
    ):
        images = [image for held in memory.by_task.values() for image in held.images]
        self.codec, self.blobs = memory.codec, [image.blob for image in images]
        self.labels: list[int] = memory.labels(images).tolist()
        self.normalisation, self.transform, self.floats = normalisation, transform, floats

    def __len__(self) -> int:
        return len(self.blobs)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        pixels, _ = self.codec.decode([self.blobs[place]])
        x = torch.from_numpy(pixels[0])
        x = x.float() / 255 if self.floats else x
        x = self.transform(x) if self.transform else x
        return self.normalisation.apply(x) if self.normalisation else x, self.labels[place]


class CompressedReplayPlugin(ReplayPlugin):
    """`plugins=[CompressedReplayPlugin("600KB")]`: Avalanche's ReplayPlugin whose memory is counted in bytes.

    It takes what `CompressedBuffer` takes, and how large the batches of data and memory are, as ReplayPlugin does.
    """

    def __init__(
        self,
        memory_bytes: str,
        codec: str = AUTO,
        *,
        batch_size: int | None = None,
        batch_size_mem: int | None = None,
        task_balanced_dataloader: bool = False,
        **kept: Any,
    ):
        buffer = CompressedBuffer(memory_bytes, codec, **kept)
        super().__init__(buffer.max_size, batch_size, batch_size_mem, task_balanced_dataloader, buffer)

    @property
    def memory(self) -> EpisodicMemory | None:
        """The episodic memory, once there is one."""
        return self.storage_policy.memory

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.storage_policy.post_adapt(strategy, strategy.experience)
