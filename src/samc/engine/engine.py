"""The engine behind a learner: gradients of many groups of images at once, features, and what a device needs for them.

Where it knows the network (program.py) it takes the fast way of its device, else the plain way; the numbers are the
same. What a learner calls here says what is computed, never how.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from samc.clock import Clock
from samc.engine import cpu, plain
from samc.engine.batch_norm import RunningStats
from samc.engine.cpu import GradViews
from samc.engine.cuda import Folding
from samc.engine.deferred import DeferredQueue
from samc.engine.flat import flat_gradient, trainable
from samc.engine.graphs import Constants, CudaGraphCache
from samc.engine.program import compile_program
from samc.models.classifier import Batch, Classifier, Wanted, equal_shares, in_mode

FAST = {"cpu": "a core per past task, gradients by hand", "cuda": "all past tasks in one recorded batch"}
PLAIN = {"cpu": "one past task after the other by autograd", "cuda": "one past task after the other, as a graph"}


class Held(NamedTuple):
    """Logits that are held to another network's: whose, how much each class counts, and the step size (`Wanted`)."""

    teacher: "Engine"
    weights: Float[Tensor, "n"]
    lr: Float[Tensor, ""]


class Engine:
    """Gradients of one network, whose parameters stay where they are in memory while it learns.

    Every group of images gets a gradient as if it were alone, with the batch statistics of its own images. Running
    statistics move once per group, in the order of the groups. Past tasks' gradients may be of less `precision`.
    """

    def __init__(self, model: Classifier, precision: str = "float32"):
        self.model = model
        self.precision = precision
        self.device = next(model.parameters()).device
        self.clock = Clock(self.device)
        self.deferred = DeferredQueue(lag=1 if self.device.type == "cuda" else 0)
        self.when_on_host = self.deferred.when_on_host
        self.refresh()

    def refresh(self) -> None:
        """Look at the network again: its parameters may lie elsewhere, be more than before, or be frozen."""
        self.deferred.flush()
        self.parameters = trainable(self.model)
        self.length = sum(parameter.numel() for parameter in self.parameters)
        constants = Constants()
        self.graphs = CudaGraphCache(self.device, constants)
        self.program, self.why_plain = compile_program(self.model)
        norms = self.program.norms if self.program else ()
        self.running_stats = RunningStats(norms, constants if self.device.type == "cuda" else None)
        self.folding: Folding | None = None
        if self.program and self.device.type == "cuda":
            self.folding = Folding(self.model, self.program, constants)
        self.known: list[int] = []
        self.parts: list[Batch] = []
        self.past: tuple[Tensor, ...] = ()
        self.space = torch.empty(0, self.length)
        self.views: list[GradViews] = []

    @property
    def way(self) -> str:
        """Which way gradients take, and why, in one line."""
        if self.program:
            return f"fast: {FAST[self.device.type]}"
        recorded = f"; not recorded: {self.graphs.refusal}" if self.graphs.refusal else ""
        return f"plain: {PLAIN[self.device.type]} ({self.why_plain}{recorded})"

    def step(self, gradient: Float[Tensor, "p"], lr: float) -> None:
        """One step of plain SGD."""
        self.recorded(self.descend, gradient, lr=lr)

    def descend(self, gradient: Float[Tensor, "p"], *, lr: float) -> tuple[()]:
        descend(self.parameters, gradient, lr)
        return ()

    def gradient(
        self,
        batches: Sequence[Batch],
        weights: Float[Tensor, "b"] | None = None,
        held: Held | None = None,
        *,
        apart: bool = False,
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        """The gradient of the mean loss over all images as one group, and that loss.

        `weights`, one per image, scale its loss before the mean is taken. With `held`, logits are held to a teacher's.
        With `apart` each batch is a group of its own, one after the other; the mean is over all images as before.
        """
        if apart:
            return self.gradient_apart(batches, weights, held)
        if self.device.type == "cpu" or self.single_value([sum(len(batch.y) for batch in batches)]):
            given = (held.teacher.model, held.weights, held.lr) if held else None
            return plain.gradient(self.model, batches, weights, given)
        x, y, masks = self.model.joined(batches)
        shares = equal_shares(y) if weights is None else weights.to(y.device) / len(y)
        teacher, counts = (held.teacher, held[1:]) if held else (None, ())
        inputs = x, y, masks, shares, *counts
        if self.folding is None:
            grad, loss = self.recorded(self.masked_gradient, *inputs, teacher=teacher)
            return grad.clone(), loss.clone()
        function = partial(self.folded, (len(y),), ("float32",), teacher=teacher)
        rows, losses = self.graphs(("one", len(y), teacher), function, *inputs)
        return rows[0], losses[0].clone()

    def gradient_apart(
        self, batches: Sequence[Batch], weights: Tensor | None, held: Held | None
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        """Batch after batch; on a GPU each is recorded by its size."""
        sizes = [len(batch.y) for batch in batches]
        parts = [None] * len(sizes) if weights is None else weights.split(sizes)
        total: Any = 0.0
        mean: Any = 0.0
        for batch, own, size in zip(batches, parts, sizes, strict=True):
            grad, loss = self.gradient([batch], own, held)
            share = size / sum(sizes)
            total = total + share * grad  # a copy: the next gradient may lie in the same place
            mean = mean + share * loss
        return total, mean

    def gradients(
        self, memories: Sequence[Sequence[Batch]], batch: Batch
    ) -> tuple[Float[Tensor, "g p"], Float[Tensor, ""]]:
        """One row per memory, of whatever batches it consists, and last the batch's own; and the batch's loss.

        The batch's row is always in float32. The rows are overwritten by the next call.
        """
        groups = [*memories, [batch]]
        sizes = tuple(sum(len(part.y) for part in group) for group in groups)
        precisions = (*[self.precision] * len(memories), "float32")
        if self.device.type == "cpu":
            return self.on_cpu(groups, sizes, precisions)
        if not memories:
            g, loss = self.gradient([batch])
            return g[None], loss
        parts = [part for group in memories for part in group]
        known = [self.model.heads.version, *(id(values) for part in parts for values in part)]
        if known != self.known:  # which stays the same for a whole task
            self.parts = parts  # held, so that no other gets their id
            self.known, self.past = known, self.model.joined(parts)
        folded = self.folding is not None and not self.single_value(sizes)
        function = partial(self.together, self.folded if folded else self.one_by_one, sizes, precisions)
        rows, losses = self.graphs(("many", sizes), function, *self.past, *self.model.joined([batch]))
        return rows, losses[-1].clone()

    def on_cpu(
        self, groups: Sequence[Sequence[Batch]], sizes: tuple[int, ...], precisions: tuple[str, ...]
    ) -> tuple[Tensor, Tensor]:
        """Rows are the same place every time, since fresh pages cost more than writing them."""
        if len(self.space) < len(groups):
            self.space = torch.empty(len(groups), self.length)
            self.views = [self.grad_views(row) for row in self.space]
        rows = self.space[: len(groups)]
        if self.program is None or self.single_value(sizes):
            for views, group, precision in zip(self.views, groups, precisions, strict=False):
                with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                    loss = plain.gradient_into(views, self.model, group)
            return rows, loss
        self.model.train()
        losses, moments = cpu.gradients(self.model, self.program, groups, self.views[: len(groups)], precisions)
        self.running_stats.update(sizes, moments)
        return rows, losses[-1]

    def grad_views(self, row: Float[Tensor, "p"]) -> GradViews:
        parts = row.split([parameter.numel() for parameter in self.parameters])
        return {parameter: part.view_as(parameter) for part, parameter in zip(parts, self.parameters, strict=True)}

    def together(
        self, gradients: Callable[..., tuple[Tensor, Tensor]], sizes: tuple[int, ...], precisions: tuple[str, ...],
        *images: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        past, now = images[:3], images[3:]
        return gradients(sizes, precisions, *(torch.cat(pair) for pair in zip(past, now, strict=True)))

    def folded(
        self, sizes: tuple[int, ...], precisions: tuple[str, ...], x: Tensor, y: Tensor, masks: Tensor,
        shares: Tensor | None = None, *held: Tensor, teacher: "Engine | None" = None,
    ) -> tuple[Float[Tensor, "g p"], Float[Tensor, "g"]]:  # fmt: skip
        """On a GPU the fast way; the mode is set here, not at every step: it takes a while, and a recording has it."""
        assert self.folding is not None
        self.model.train()
        wanted = None
        if teacher is not None:  # of one group: all images go through the teacher together too
            assert teacher.folding is not None
            plan = self.folding.plan(sizes, x.device)  # of this engine, whose recordings keep it
            wanted = Wanted(teacher.folding.batch_logits(x, plan), *held)
        rows, losses, moments = self.folding.gradients(sizes, precisions, x, y, masks, shares, wanted)
        self.running_stats.update(sizes, moments)
        return rows, losses

    def one_by_one(
        self, sizes: tuple[int, ...], precisions: tuple[str, ...], x: Tensor, y: Tensor, masks: Tensor
    ) -> tuple[Float[Tensor, "g p"], Float[Tensor, "g"]]:
        """On a GPU the plain way: the loop of public implementations, in a form that can be recorded."""
        parts = x.split(sizes), y.split(sizes), masks.split(sizes)
        found = []
        for precision, images, labels, classes in zip(precisions, *parts, strict=True):
            with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
                found.append(self.masked_gradient(images, labels, classes, equal_shares(labels)))
        rows, losses = zip(*found, strict=True)
        return torch.stack(rows), torch.stack(losses)

    def masked_gradient(
        self, x: Tensor, y: Tensor, masks: Tensor, shares: Tensor, *held: Tensor, teacher: "Engine | None" = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        given = (teacher.model, held[0], held[1]) if teacher is not None else None
        return plain.masked_gradient(self.model, x, y, masks, shares, given)

    def single_value(self, sizes: Sequence[int]) -> bool:
        """Whether a group may end in a single value per channel, which has no variance: BatchNorm knows what to do."""
        return min(sizes) == 1 and self.model.found.grid == (1, 1)

    def features(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b ..."]:
        """Of images, from the network in eval mode."""
        with in_mode(self.model, "eval"):
            return self.model.features(x) if self.folding is None else self.folding.infer(x)

    def recorded(
        self, function: Callable[..., tuple[Tensor, ...]], *tensors: Tensor, **fixed: Hashable
    ) -> tuple[Tensor, ...]:
        """function(*tensors, **fixed), on a GPU recorded once for each value of `fixed` and each shape of the tensors.

        What it returns is overwritten by the next call. What else it reads must stay where it is; the heads' classes
        are looked after here.
        """
        if not self.graphs.active:
            return function(*tensors, **fixed)
        shapes = tuple(tensor.shape for tensor in tensors)
        key = (function.__qualname__, shapes, tuple(fixed.items()), self.model.heads.version)
        return self.graphs(key, partial(function, **fixed), *tensors)

    def gradient_of(
        self, loss: Callable[..., Float[Tensor, ""]], *tensors: Tensor, **fixed: Hashable
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        """The gradient of loss(*tensors, **fixed), whatever that is, and its value; the network is in train mode."""
        grad, value = self.recorded(self.autograd, *tensors, loss=loss, **fixed)
        return grad, value.clone()

    def autograd(self, *tensors: Tensor, loss: Callable[..., Tensor], **fixed: Hashable) -> tuple[Tensor, Tensor]:
        self.model.train()
        return flat_gradient(self.model, loss(*tensors, **fixed))


@torch.no_grad()
def descend(parameters: list[nn.Parameter], gradient: Float[Tensor, "p"], lr: float) -> None:
    """One step of plain SGD along a flat gradient of these parameters."""
    parts = gradient.split([parameter.numel() for parameter in parameters])
    grads = [part.view_as(parameter) for part, parameter in zip(parts, parameters, strict=True)]
    torch._foreach_sub_(list[Tensor](parameters), grads, alpha=lr)
