"""Encoded episodes: what an encoder made of a task's images, as bytes under a budget; centroids where not all fit."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64, UInt8
from torch import Tensor

from samc.errors import ConfigError
from samc.memory.codec import label_type

COUNT_TYPE = np.dtype("<u2")
ROUNDS = 10
# of k-means; the centroids hardly move after that


@dataclass(frozen=True)
class Episodes:
    """Encodings of images, one byte a number; or centroids of many, with how far and how many lie around each.

    `spreads` and `counts` have no rows where each code is one image's own.
    """

    codes: UInt8[np.ndarray, "n d"]
    spreads: UInt8[np.ndarray, "m d"]
    counts: np.ndarray
    labels: np.ndarray
    scale: Float32[np.ndarray, "2"]

    @property
    def nbytes_by_part(self) -> dict[str, int]:
        name = "centroids" if len(self.spreads) else "encodings"
        others = {"spreads": self.spreads, "counts": self.counts, "labels": self.labels, "scales": self.scale}
        return {name: self.codes.nbytes} | {part: array.nbytes for part, array in others.items()}

    @staticmethod
    def bytes_of(several: Iterable["Episodes"]) -> dict[str, int]:
        """The bytes of several tasks' episodes, by part."""
        parts: Counter[str] = Counter()
        for episodes in several:
            parts.update(episodes.nbytes_by_part)
        return dict(parts)

    def state_dict(self) -> dict[str, Tensor]:
        return {item.name: torch.from_numpy(getattr(self, item.name).copy()) for item in fields(self)}

    @classmethod
    def of(cls, state: dict[str, Tensor]) -> "Episodes":
        return cls(**{item.name: state[item.name].cpu().numpy() for item in fields(cls)})

    def draw(self, count: int, random: torch.Generator) -> tuple[Float[Tensor, "b d"], Int64[Tensor, "b"]]:
        """Codes to paint from, and their labels: encodings as they are, or points around centroids."""
        weights = torch.from_numpy(self.counts.astype(np.float64)) if len(self.counts) else torch.ones(len(self.codes))
        rows = torch.multinomial(weights, count, replacement=True, generator=random)
        low, step = self.scale.tolist()
        codes = low + step * torch.from_numpy(self.codes).float()[rows]
        if len(self.spreads):
            spreads = step * torch.from_numpy(self.spreads).float()[rows]
            codes = codes + spreads * torch.randn(codes.shape, generator=random)
        return codes, torch.from_numpy(self.labels.astype(np.int64))[rows]


def keep(
    codes: Float[Tensor, "n d"],
    labels: Int64[Tensor, "n"],
    num_classes: int | None,
    budget_bytes: int,
    random: torch.Generator,
) -> Episodes:
    """All encodings if the budget has room for them, else as many centroids as fit, shared by the classes."""
    kind = label_type(num_classes)
    low, high = float(codes.min()), float(codes.max())
    scale = np.array([low, max(high - low, 1e-12) / 255], np.float32)

    def in_bytes(values: Tensor) -> UInt8[np.ndarray, "m d"]:
        return (values / float(scale[1])).round().clamp(0, 255).to(torch.uint8).numpy()

    width, room = codes.shape[1], budget_bytes - scale.nbytes
    if len(codes) * (width + kind.itemsize) <= room:
        nothing = np.zeros((0, width), np.uint8), np.zeros(0, COUNT_TYPE)
        return Episodes(in_bytes(codes - low), *nothing, labels.numpy().astype(kind), scale)
    classes = sorted(set(labels.tolist()))
    check_room(len(classes), width, num_classes, budget_bytes)
    most = room // centroid_bytes(width, num_classes)
    parts = []
    for number, label in enumerate(classes):
        share = most // len(classes) + (number < most % len(classes))
        means, spreads, counts = clusters(codes[labels == label], share, random)
        parts.append(
            (
                in_bytes(means - low),
                in_bytes(spreads),
                counts.clip(max=np.iinfo(COUNT_TYPE).max).astype(COUNT_TYPE),
                [label] * len(counts),
            )
        )
    centroids, around, sizes, names = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Episodes(centroids, around, sizes, names.astype(kind), scale)


def centroid_bytes(width: int, num_classes: int | None) -> int:
    """A centroid, how far its images lie around it, how many they are, and their label."""
    return 2 * width + COUNT_TYPE.itemsize + label_type(num_classes).itemsize


def check_room(classes: int, width: int, num_classes: int | None, budget_bytes: int) -> None:
    """Refuse a budget that has no room for one centroid a class."""
    needed = classes * centroid_bytes(width, num_classes) + 2 * np.dtype(np.float32).itemsize
    if needed > budget_bytes:
        raise ConfigError(
            f"a task of {classes} classes needs {needed:,} bytes, one centroid each, and has {budget_bytes:,}; "
            f"raise buffer-size or memory-bytes"
        )


def clusters(
    points: Float[Tensor, "n d"], most: int, random: torch.Generator
) -> tuple[Float[Tensor, "k d"], Float[Tensor, "k d"], Int64[np.ndarray, "k"]]:
    """k-means: at most so many means, the deviation along each axis around them, and how many points each has."""
    means = points[torch.randperm(len(points), generator=random)[:most]]
    for _ in range(ROUNDS):
        nearest = torch.cdist(points, means).argmin(1)
        held = nearest.unique()  # a mean that nobody is nearest to is given up
        means = torch.stack([points[nearest == number].mean(0) for number in held])
    nearest = torch.cdist(points, means).argmin(1)
    groups = [points[nearest == number] for number in nearest.unique()]
    spreads = torch.stack([group.std(0, correction=0) for group in groups])
    return torch.stack([g.mean(0) for g in groups]), spreads, np.array([len(g) for g in groups])
