"""A classifier: any network that turns images into features, and heads that turn features into logits per task."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from samc.errors import ConfigError
from samc.models.backbones import describe_features
from samc.models.heads import Heads

PATCH = 4
# pixels per side of a cell, where a network has no map of its own and saliency is taken at the pixels
Mode = Literal["eval", "train"]
Kind = Literal["map", "tokens", "vector"]
# "vector" also stands for tokens that lie on no grid: they too have no part of the image of their own


class Batch(NamedTuple):
    """Images in [0, 1], labels of the stream, and the one task they all belong to."""

    x: Float[Tensor, "b c h w"]
    y: Int64[Tensor, "b"]
    task: int


class Features(NamedTuple):
    """What a network makes of images: which kind, how many numbers, on which grid its parts of the image lie.

    `prefix` counts the tokens before those of the grid, such as a class token. `channels_first` says that the network
    reads its images in that order only, where others also take them with their channels last in memory.
    """

    kind: Kind
    width: int
    grid: tuple[int, int]
    prefix: int = 0
    channels_first: bool = False


class Classifier(nn.Module):
    """`features` is the network, `logits` one task's head on its pooled features.

    Images come in [0, 1]; with `mean` and `std` the network sees them normalised.
    """

    mean: Tensor | None
    std: Tensor | None

    def __init__(
        self,
        backbone: nn.Module,
        heads: Heads,
        found: Features,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ):
        super().__init__()
        self.backbone = backbone
        self.heads = heads
        self.found = found
        for name, values in (("mean", mean), ("std", std)):
            tensor = None if values is None else torch.tensor(values, dtype=torch.float32)[:, None, None]
            self.register_buffer(name, tensor, persistent=False)

    def features(self, x: Float[Tensor, "b c h w"], **layers: Any) -> Float[Tensor, "b ..."]:
        """A map (b, d, i, j), tokens (b, n, d) or a vector (b, d)."""
        x = x.contiguous() if self.found.channels_first else x
        return self.backbone(self.normalised(x), **layers)

    def normalised(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        return x if self.mean is None or self.std is None else (x - self.mean) / self.std

    def pooled(self, features: Float[Tensor, "b ..."]) -> Float[Tensor, "b d"]:
        """One vector per image: the mean over the map or over all tokens."""
        if features.ndim == 4:
            return features.mean((2, 3))
        return features.mean(1) if features.ndim == 3 else features

    def logits(self, features: Float[Tensor, "b ..."], task: int) -> Float[Tensor, "b k"]:
        """Of the task's classes, in ascending order of class."""
        return self.heads(self.pooled(features), task)

    def loss(
        self, features: Float[Tensor, "b ..."], batches: Sequence[Batch], weights: Sequence[float] | None = None
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of all batches' images, each against its own task's classes, from their features.

        `weights`, one per batch, scale the losses of its images before the mean is taken.
        """
        losses, count = [], 0
        for number, batch in enumerate(batches):
            logits = self.logits(features[count : count + len(batch.y)], batch.task)
            loss = F.cross_entropy(logits, self.heads.positions(batch.y, batch.task), reduction="sum")
            losses.append(loss if weights is None else weights[number] * loss)
            count += len(batch.y)
        return torch.stack(losses).sum() / count

    def forward(self, x: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b k"]:
        return self.logits(self.features(x), task)


@contextmanager
def in_mode(model: nn.Module, mode: Mode) -> Iterator[None]:
    """Train or eval mode, borrowed for a block of code: every module's own mode comes back after it."""
    before = [(module, module.training) for module in model.modules()]
    model.train(mode == "train")
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@torch.no_grad()
def probe(backbone: nn.Module, image_shape: tuple[int, int, int]) -> Features:
    """One forward pass of empty images: what the network makes of them. Nothing in the network changes."""
    parameter = next(backbone.parameters(), torch.empty(0))
    x = torch.zeros(2, *image_shape, device=parameter.device, dtype=parameter.dtype)
    prefix = getattr(backbone, "num_prefix_tokens", None)
    with in_mode(backbone, "eval"):
        try:
            features = backbone(x)
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(f"the network does not take images of {image_shape}: {reason}") from None
        found = described(features, image_shape, prefix)
        try:
            backbone(x.contiguous(memory_format=torch.channels_last))
        except RuntimeError:  # such as view(b, -1) of a map
            return found._replace(channels_first=True)
    return found


def described(features: Any, image_shape: tuple[int, int, int], prefix: int | None) -> Features:
    _, height, width = image_shape
    kind, at_pixels = describe_features(features), (-(-height // PATCH), -(-width // PATCH))
    if kind == "map":
        return Features("map", features.shape[1], (features.shape[2], features.shape[3]))
    if kind == "tokens":
        count, grid = token_grid(features.shape[1], height, width, prefix)
        return Features("tokens" if grid else "vector", features.shape[2], grid or at_pixels, count)
    return Features("vector", features.shape[1], at_pixels)


def token_grid(tokens: int, height: int, width: int, prefix: int | None) -> tuple[int, tuple[int, int] | None]:
    """How many tokens come before those of the grid, and the grid: of the image's proportions, or none."""
    for count in (0, 1, 2, 4, 5) if prefix is None else (prefix,):
        for rows in range(1, tokens - count + 1):
            columns, rest = divmod(tokens - count, rows)
            if not rest and rows * width == columns * height:
                return count, (rows, columns)
    return prefix or 0, None
