"""Avalanche's experiences as tasks: their number, and their samples as pairs of image and label."""

from typing import Any

import torch
from avalanche.benchmarks import OnlineCLExperience
from torch.utils.data import Dataset


def task_number(experience: Any) -> int:
    """The place of an experience in its stream.

    Of a small part of an experience it is the whole one's; where boundaries are not told, all parts are one task.
    """
    if not isinstance(experience, OnlineCLExperience):
        return int(experience.current_experience)
    return int(experience.origin_experience.current_experience) if tells_boundaries(experience) else 0


def tells_boundaries(experience: Any) -> bool:
    """Whether a strategy may know where an experience ends."""
    return not isinstance(experience, OnlineCLExperience) or bool(experience.access_task_boundaries)


def image_shape(x: torch.Tensor) -> tuple[int, int, int]:
    """Channels, height and width of a batch's images."""
    _, channels, height, width = x.shape
    return channels, height, width


class Pairs(Dataset):
    """A dataset's samples as (image, label), in eval mode: no random transform; the task's label is left out."""

    def __init__(self, dataset: Any):
        self.dataset = dataset.eval()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> tuple[Any, int]:
        image, label = self.dataset[place][:2]
        return image, int(label)


def task_labels(dataset: Any) -> torch.Tensor:
    """Avalanche's task label of each sample; zeros where a benchmark has none."""
    labels = getattr(dataset, "targets_task_labels", None)
    return torch.zeros(len(dataset), dtype=torch.int64) if labels is None else torch.tensor([int(t) for t in labels])
