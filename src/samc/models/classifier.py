"""A classifier: any network that turns images into features, and heads that turn features into logits per task."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from samc.errors import ConfigError
from samc.models.backbones import describe_features
from samc.models.heads import Heads

PATCH = 4
# pixels per side of a cell, where a network has no map of its own and saliency is taken at the pixels
Mode = Literal["eval", "train", "batch"]
# "batch": train mode in which no running statistics move
Kind = Literal["map", "tokens", "vector"]
# "vector" also stands for tokens that lie on no grid: they too have no part of the image of their own


class Batch(NamedTuple):
    """Images in [0, 1], labels of the stream, and the one task they all belong to, or each image's own.

    `among` narrows the loss: to which of all classes each image's is confined, whatever else its head has.
    """

    x: Float[Tensor, "b c h w"]
    y: Int64[Tensor, "b"]
    task: int | Int64[Tensor, "b"]
    among: Bool[Tensor, "b n"] | None = None

    @property
    def tasks(self) -> Int64[Tensor, "b"]:
        """Of each image."""
        return self.task if isinstance(self.task, Tensor) else torch.full_like(self.y, self.task)

    @property
    def only_task(self) -> int:
        """That of a batch whose images all belong to one."""
        assert isinstance(self.task, int), "each image of this batch has a task of its own"
        return self.task

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The tasks in the order of the images, each with how many of them follow each other."""
        if isinstance(self.task, int):
            return [(self.task, len(self.y))]
        tasks, counts = self.task.unique_consecutive(return_counts=True)
        return list(zip(tasks.tolist(), counts.tolist(), strict=True))


class Features(NamedTuple):
    """What a network makes of images: which kind, how many numbers, on which grid its parts of the image lie.

    `prefix` counts the tokens before those of the grid, such as a class token. `channels_last` says that the network is
    faster on images, and with weights, that have their channels last in memory.
    """

    kind: Kind
    width: int
    grid: tuple[int, int]
    prefix: int = 0
    channels_last: bool = False


class Wanted(NamedTuple):
    """Logits that others shall stay near to, how much that counts by class, and the step size that they learn with."""

    logits: Float[Tensor, "b n"]
    weights: Float[Tensor, "n"]
    lr: Float[Tensor, ""]

    def distance(self, logits: Float[Tensor, "b n"], pooled: Float[Tensor, "b d"]) -> Float[Tensor, ""]:
        """The mean over images of Σ_c weight_c·(logit_c − wanted_c)²."""
        return self.distance_by(self.steady(pooled), logits)

    def distance_by(self, weights: Float[Tensor, "n"], logits: Float[Tensor, "b n"]) -> Float[Tensor, ""]:
        return ((logits - self.logits).square() @ weights).mean()

    def steady(self, pooled: Float[Tensor, "b d"]) -> Float[Tensor, "n"]:
        """The weights, none so large that a step of the head overshoots: each would be further off than the last.

        A step takes lr·2·weight·P/b times the logits' distances away from them, where P holds the products of the
        images' features, 1 for the bias among them. P's Frobenius norm bounds its largest eigenvalue, and is near it.
        """
        products = 1 + pooled.detach() @ pooled.detach().T
        return torch.minimum(self.weights, len(products) / (self.lr * products.norm()))


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
        x = x if self.found.channels_last else x.contiguous()
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

    def joined(self, batches: Sequence[Batch]) -> tuple[Tensor, Tensor, Tensor]:
        """Images and labels of several batches, and among which of all classes each image's is."""
        x, y = torch.cat([batch.x for batch in batches]), torch.cat([batch.y for batch in batches])
        return x, y, self.masks(batches)

    def masks(self, batches: Sequence[Batch]) -> Bool[Tensor, "b n"]:
        """Among which of all classes each image's is: its head's, or fewer."""
        masks, among = self.heads.masks(torch.cat([batch.tasks for batch in batches])), confined(batches)
        return masks if among is None else masks & among

    def loss(
        self,
        features: Float[Tensor, "b ..."],
        y: Int64[Tensor, "b"],
        masks: Bool[Tensor, "b n"],
        shares: Float[Tensor, "b"],
        held: Wanted | None = None,
    ) -> Float[Tensor, ""]:
        """Cross-entropy of each image among its own task's classes, times its share, summed.

        With `held`, its distance is added.
        """
        pooled = self.pooled(features).float()
        logits = self.heads.linear(pooled)
        losses = F.cross_entropy(logits.masked_fill(~masks, -torch.inf), y, reduction="none")
        loss = (losses * shares).sum()
        return loss if held is None else loss + held.distance(logits, pooled)

    def loss_by_task(
        self,
        features: Float[Tensor, "b ..."],
        batches: Sequence[Batch],
        shares: Float[Tensor, "b"],
        held: Wanted | None = None,
    ) -> Float[Tensor, ""]:
        """The same loss from each task's own columns, in a form that cannot be recorded.

        To the last bit what a head alone gives: among all classes, sums are rounded otherwise, and learning blows that
        up within some steps. A shared head has no columns of a task's own.
        """
        if self.heads.shared:
            return self.loss(features, torch.cat([batch.y for batch in batches]), self.masks(batches), shares, held)
        pooled, losses, first = self.pooled(features), [], 0
        for batch in batches:
            parts = batch.y.split([count for _, count in batch.runs])
            for (task, count), y in zip(batch.runs, parts, strict=True):
                logits = self.heads(pooled[first : first + count], task)
                losses.append(F.cross_entropy(logits, self.heads.positions(y, task), reduction="none"))
                first += count
        loss = (torch.cat(losses) * shares).sum()
        return loss if held is None else loss + held.distance(self.heads.linear(pooled), pooled)

    def forward(self, x: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b k"]:
        return self.logits(self.features(x), task)


def confined(batches: Sequence[Batch]) -> Bool[Tensor, "b n"] | None:
    """To which of all classes the loss of each image of several batches is confined; None where none is."""
    classes = next((batch.among.shape[1] for batch in batches if batch.among is not None), None)
    if classes is None:
        return None
    return torch.cat([
        torch.ones(len(batch.y), classes, dtype=torch.bool, device=batch.y.device)
        if batch.among is None
        else batch.among
        for batch in batches
    ])  # fmt: skip


def equal_shares(y: Int64[Tensor, "b"]) -> Float[Tensor, "b"]:
    """Of every image in a mean."""
    return torch.full(y.shape, 1 / len(y), device=y.device)


@contextmanager
def in_mode(model: nn.Module, mode: Mode) -> Iterator[None]:
    """Train or eval mode, borrowed for a block of code: every module's own mode comes back after it.

    In `batch` mode buffers come back too, written to where they lie, so that a recording puts them back as well.
    """
    before = [(module, module.training) for module in model.modules()]
    buffers = list(model.buffers()) if mode == "batch" else []
    values = [buffer.clone() for buffer in buffers]
    model.train(mode != "eval")
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(buffers, values, strict=True):
                buffer.copy_(value)
        for module, training in before:
            module.training = training


@torch.no_grad()
def probe(backbone: nn.Module, image_shape: tuple[int, int, int]) -> Features:
    """One forward pass of empty images: what the network makes of them. Nothing in the network changes."""
    parameter = next(backbone.parameters(), torch.empty(0))
    x = torch.zeros(2, *image_shape, device=parameter.device, dtype=parameter.dtype)
    with in_mode(backbone, "eval"):
        try:
            features = backbone(x)
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(f"the network does not take images of {image_shape}: {reason}") from None
    found = described(features, image_shape, getattr(backbone, "num_prefix_tokens", None))
    return found._replace(channels_last=getattr(backbone, "channels_last", False))


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
