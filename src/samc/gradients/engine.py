"""The engine behind a learner's gradients: many groups of images at once, on all cores or as one recorded graph."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from samc.errors import unknown
from samc.gradients import cores
from samc.gradients.flat import Batch, gradient
from samc.gradients.fold import PRECISIONS, Folding, Steady
from samc.gradients.graph import Constants, Recorder
from samc.gradients.statistics import Running
from samc.gradients.tape import Places

CHUNK_PIXELS = 8 << 20
# of all images that are between forward and backward at once: about 2,000 bytes each, 16 GiB in all
SMALLEST = 8
# pixels a side: up to here the last feature map is a single pixel


class Engine:
    """Gradients of one network, whose parameters stay where they are in memory while it learns.

    Every group of images gets a gradient as if it were alone, with the batch statistics of its own images. Running
    statistics move once a group, in the order of the groups.
    """

    def __init__(self, model: Any, precision: str = "float32"):
        if precision not in PRECISIONS:
            raise unknown("reference precision", precision, PRECISIONS)
        self.model = model
        self.precision = precision
        self.parameters: list[nn.Parameter] = list(model.parameters())
        self.length = sum(parameter.numel() for parameter in self.parameters)
        self.device = self.parameters[0].device
        constants = Constants()
        self.running = Running(model, constants)
        self.folding = Folding(model, constants) if self.device.type == "cuda" else None
        self.recorder = Recorder(self.device, constants)
        self.parts: list[Batch] = []
        self.past: tuple[Tensor, ...] = ()
        self.space = torch.empty(0, self.length)
        self.places: list[Places] = []

    def gradient(
        self, batches: Sequence[Batch], weights: Sequence[float] | None = None
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        """The gradient of the mean loss over all the images as one group; `weights`, one a batch, scale the losses."""
        sizes = [len(batch.y) for batch in batches]
        if self.folding is None or lonely(batches[0].x, [sum(sizes)]):
            return gradient(self.model, batches, weights)
        scales = torch.tensor([1.0] * len(sizes) if weights is None else weights) / sum(sizes)
        shares = torch.repeat_interleave(scales, torch.tensor(sizes)).to(self.device)
        function = partial(self.folded, (sum(sizes),), 0)
        rows, losses = self.recorder(("one", sum(sizes)), function, *self.joined(batches), shares)
        return rows[0], losses[0].clone()

    def gradients(
        self, memories: Sequence[Sequence[Batch]], batch: Batch
    ) -> tuple[Float[Tensor, "g p"], Float[Tensor, ""]]:
        """One row a memory, of whatever batches it consists, and last the batch's own; and the batch's loss.

        The batch's row is always in float32. The rows are overwritten by the next call.
        """
        groups = [*memories, [batch]]
        sizes = tuple(sum(len(part.y) for part in group) for group in groups)
        if lonely(batch.x, sizes):
            alone = [gradient(self.model, group) for group in groups]
            return torch.stack([row for row, _ in alone]), alone[-1][1]
        if self.folding is None:
            return self.by_core(groups, sizes)
        parts = [part for group in memories for part in group]
        if len(parts) != len(self.parts) or any(a is not b for a, b in zip(parts, self.parts, strict=True)):
            self.parts, self.past = parts, self.joined(parts)  # which stay the same for a whole task
        function = partial(self.folded_together, sizes)
        rows, losses = self.recorder(("many", sizes), function, *self.past, *self.joined([batch]))
        return rows, losses[-1].clone()

    def looking(self, x: Float[Tensor, "b c h w"]) -> dict[str, Any]:
        """How a network in eval mode is to treat a batch, so that it is quick on this device."""
        return {} if self.folding is None else {"layers": Steady(self.folding, x)}

    def look(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        """The features of images, from a network in eval mode."""
        return self.model.features(x, **self.looking(x))

    def joined(self, batches: Sequence[Batch]) -> tuple[Tensor, Tensor, Tensor]:
        """Images, labels, and among which classes each image's is."""
        tasks = [torch.full_like(batch.y, batch.task) for batch in batches]
        x, y = torch.cat([batch.x for batch in batches]), torch.cat([batch.y for batch in batches])
        return x, y, self.model.choices(torch.cat(tasks))

    def by_core(self, groups: Sequence[Sequence[Batch]], sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """On a CPU: rows are the same place every time, since fresh pages cost more than writing them."""
        if len(self.space) < len(groups):
            self.space = torch.empty(len(groups), self.length)
            self.places = [self.split(row) for row in self.space]
        self.model.train()
        precisions = [*[self.precision] * (len(groups) - 1), "float32"]
        losses, statistics = cores.gradients(self.model, groups, self.places[: len(groups)], precisions)
        self.running.move(sizes, statistics)
        return self.space[: len(groups)], losses[-1]

    def split(self, row: Float[Tensor, "p"]) -> Places:
        """Where in a row each parameter's gradient goes, in the parameter's shape."""
        parts = row.split([parameter.numel() for parameter in self.parameters])
        return {parameter: part.view_as(parameter) for part, parameter in zip(parts, self.parameters, strict=True)}

    def folded_together(self, sizes: tuple[int, ...], *images: Tensor) -> tuple[Tensor, Tensor]:
        past, now = images[:3], images[3:]
        return self.folded(sizes, 1, *(torch.cat(pair) for pair in zip(past, now, strict=True)))

    def folded(
        self, sizes: tuple[int, ...], exact: int, x: Tensor, y: Tensor, choices: Tensor, shares: Tensor | None = None
    ) -> tuple[Float[Tensor, "g p"], Float[Tensor, "g"]]:
        """On a GPU: all groups in one batch, or in as few as memory allows; the last `exact` groups in float32."""
        assert self.folding is not None
        self.model.train()
        x = x.contiguous(memory_format=torch.channels_last)
        rows = torch.empty(len(sizes), self.length, device=self.device)
        losses, statistics, first = [], [], 0
        for groups, precision in chunks(sizes, x.shape[2] * x.shape[3], self.precision, exact):
            part = slice(first, first := first + sum(sizes[groups]))
            weights = None if shares is None else shares[part]
            loss, found = self.folding(rows[groups], sizes[groups], precision, x[part], y[part], choices[part], weights)
            losses.append(loss)
            statistics.append(found)
        self.running.move(sizes, statistics)
        return rows, torch.cat(losses)


def lonely(x: Tensor, sizes: Sequence[int]) -> bool:
    """Whether a group may end in a single value a channel, which has no variance: models/resnet.py knows what to do."""
    return min(sizes) == 1 and max(x.shape[2:]) <= SMALLEST


def chunks(sizes: tuple[int, ...], pixels: int, precision: str, exact: int) -> Iterator[tuple[slice, str]]:
    """Neighbouring groups of one precision, as many as a chunk's memory holds."""
    rough = len(sizes) if precision == "float32" else len(sizes) - exact
    first, held = 0, 0
    for number, size in enumerate(sizes):
        if number > first and ((held + size) * pixels > CHUNK_PIXELS or number == rough):
            yield slice(first, number), precision if first < rough else "float32"
            first, held = number, 0
        held += size
    yield slice(first, len(sizes)), precision if first < rough else "float32"
