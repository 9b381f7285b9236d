"""The fast way on a GPU: groups of images that go through a network's program together, each as if it were alone.

Weights are shared, so convolutions take all images at once. What belongs to a group is kept apart: the statistics of
batch norm, and the gradients, which are written into the group's own row.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from samc.engine.batch_norm import BatchMoments, Moments
from samc.engine.cpu import PRECISIONS
from samc.engine.flat import trainable
from samc.engine.graphs import Constants
from samc.engine.program import IMAGES, Conv, Program
from samc.models.classifier import Classifier, Wanted

CHUNK_PIXELS = 8 << 20
# of all images that are between forward and backward at once: about 2,000 bytes each, 16 GiB in all


class Plan:
    """What follows from the sizes of the groups alone; made once, outside of any recording."""

    def __init__(self, sizes: Sequence[int], device: torch.device):
        starts, counts = torch.tensor([0, *accumulate(sizes)], dtype=torch.int32), torch.tensor(sizes)
        self.starts = starts.to(device)
        self.shares = torch.repeat_interleave(1 / counts, counts).to(device)
        # images of a group side by side, filled up with one that does not exist
        places = torch.arange(max(sizes))[None]
        self.members = torch.where(places < counts[:, None], places + starts[:-1, None], sum(sizes)).to(device)

    def by_group(self, values: Float[Tensor, "b k"]) -> Float[Tensor, "g n k"]:
        """Rows of a batch by their group, filled up with zeros."""
        return torch.cat([values, values.new_zeros(1, values.shape[1])])[self.members]


class FoldedBatch:
    """One folded batch on its way through the program."""

    def __init__(self, folding: "Folding", plan: Plan, rows: Float[Tensor, "g p"], precision: str, back: bool = True):
        self.folding = folding
        self.plan = plan
        self.rows = rows
        self.dtype = PRECISIONS[precision]
        self.weights = folding.weights(self.dtype, back)
        self.moments: Moments = {}
        # every layer depends on it, so that autograd goes back through all of them though no parameter requires a grad
        self.anchor = torch.zeros(0, device=rows.device, requires_grad=True)

    def forward(self, x: Tensor) -> Tensor:
        values = {IMAGES: x}
        for number, operation in enumerate(self.folding.program.operations, start=1):
            x = values[operation.source]
            if isinstance(operation, Conv):
                values[number] = ConvFunction.apply(x.to(self.dtype), self.anchor, operation.layer, self)
            else:
                residual = None if operation.residual is None else values[operation.residual]
                values[number] = NormFunction.apply(x, residual, operation.layer, operation.relu, self)
        return values[number]

    def place(self, first: Tensor, last: Tensor | None = None) -> Float[Tensor, "g n"]:
        """Where in the rows a parameter's gradients belong, or those of all from one to another."""
        places = self.folding.places
        return self.rows[:, places[first].start : places[last if last is not None else first].stop]


class ConvFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: nn.Conv2d, batch: FoldedBatch) -> Tensor:
        ctx.layer, ctx.batch = layer, batch
        ctx.save_for_backward(x)
        return batch.folding.convolution.convolve(x, batch.weights[layer], *stride_and_padding(layer))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x,), layer, batch = ctx.saved_tensors, ctx.layer, ctx.batch
        convolution, how = batch.folding.convolution, stride_and_padding(layer)
        dy = dy.contiguous(memory_format=torch.channels_last)
        dx = convolution.convolve_back(dy, batch.weights[layer], x, *how) if ctx.needs_input_grad[0] else None
        convolution.weight_gradients(x, dy, batch.plan.starts, layer.weight.shape, *how, batch.place(layer.weight))
        return dx, None, None, None


class NormFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor | None, layer: nn.BatchNorm2d, relu: bool, batch: FoldedBatch
    ) -> Tensor:
        weight, bias = layer.weight.detach(), layer.bias.detach()
        y, mean, variance, deviation = batch.folding.batch_norm.normalise(
            x, residual, weight, bias, layer.eps, batch.plan.starts, relu
        )
        batch.moments[layer] = BatchMoments(mean, variance, x.shape[2] * x.shape[3])
        ctx.layer, ctx.batch, ctx.relu, ctx.has_residual = layer, batch, relu, residual is not None
        ctx.save_for_backward(x, y, mean, deviation)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x, y, mean, deviation), layer, batch = ctx.saved_tensors, ctx.layer, ctx.batch
        dy = dy.contiguous(memory_format=torch.channels_last)
        dx, dresidual, grads = batch.folding.batch_norm.normalise_back(
            dy,
            x,
            y,
            layer.weight.detach(),
            layer.bias.detach(),
            mean,
            deviation,
            batch.plan.starts,
            ctx.relu,
            ctx.has_residual,
        )
        batch.place(layer.weight, layer.bias).copy_(grads.flatten(1))
        return dx, dresidual, None, None, None


class Folding:
    """Folded batches of one network."""

    def __init__(self, model: Classifier, program: Program, constants: Constants):
        # Triton is only where a GPU is
        from samc.engine.kernels import batch_norm, convolution, warmup  # noqa: PLC0415

        self.convolution: ModuleType = convolution
        self.batch_norm: ModuleType = batch_norm
        self.warmup: ModuleType = warmup
        self.model = model
        self.program = program
        self.places: dict[Tensor, slice] = {}
        last = 0
        for parameter in trainable(model):
            self.places[parameter] = slice(last, last := last + parameter.numel())
        self.length = last
        self.convs = program.convs
        self.turned = convolution.turned_places([layer.weight for layer in self.convs])
        self.constants = constants
        self.warm: set[tuple[tuple[int, ...], torch.dtype | None]] = set()

    def gradients(
        self,
        sizes: tuple[int, ...],
        precisions: tuple[str, ...],
        x: Float[Tensor, "b c h w"],
        y: Tensor,
        masks: Tensor,
        shares: Tensor | None = None,
        held: Wanted | None = None,
    ) -> tuple[Float[Tensor, "g p"], Float[Tensor, "g"], list[Moments]]:
        """Rows, losses and batch moments of all groups: in one batch, or in as few as memory allows.

        `held` is as in `Classifier.loss`, for a single group.
        """
        x = self.model.normalised(x.contiguous(memory_format=torch.channels_last))
        rows = torch.empty(len(sizes), self.length, device=x.device)
        losses, moments, first = [], [], 0
        for groups in chunks(sizes, x.shape[2] * x.shape[3], precisions):
            part = slice(first, first := first + sum(sizes[groups]))
            some = None if shares is None else shares[part]
            loss, seen = self.fold(
                rows[groups], sizes[groups], precisions[groups.start], x[part], y[part], masks[part], some, held
            )
            losses.append(loss)
            moments.append(seen)
        return rows, torch.cat(losses), moments

    def fold(
        self, rows: Float[Tensor, "g p"], sizes: tuple[int, ...], precision: str, x: Float[Tensor, "b c h w"],
        y: Tensor, masks: Tensor, shares: Tensor | None = None, held: Wanted | None = None,
    ) -> tuple[Float[Tensor, "g"], Moments]:  # fmt: skip
        """Forward and back; fills the rows, returns the losses of the groups and their batch moments."""
        self.compile(x, PRECISIONS[precision])
        plan = self.plan(sizes, x.device)
        batch = FoldedBatch(self, plan, rows, precision)
        with torch.enable_grad():
            features = batch.forward(x)
        losses, grads = self.head(batch, features.detach(), y, masks, plan.shares if shares is None else shares, held)
        torch.autograd.grad(features, batch.anchor, grads, allow_unused=True)
        return losses, batch.moments

    def plan(self, sizes: tuple[int, ...], device: torch.device) -> Plan:
        return self.constants.get(("plan", sizes), lambda: Plan(sizes, device))

    @torch.no_grad()
    def batch_logits(self, x: Float[Tensor, "b c h w"], plan: Plan) -> Float[Tensor, "b n"]:
        """Logits of all classes on the statistics of these very images; no running statistics move."""
        x = self.model.normalised(x.contiguous(memory_format=torch.channels_last))
        self.compile(x, torch.float32)
        features = FoldedBatch(self, plan, x.new_empty(0, 0), "float32", back=False).forward(x)
        return self.model.heads.linear(features.mean((2, 3)))

    def compile(self, x: Float[Tensor, "b c h w"], dtype: torch.dtype | None) -> None:
        """Make the kernels ready for gradients from such images, or, with None, for inference on them."""
        wanted = tuple(x.shape[1:]), dtype
        if x.device.type == "cuda" and wanted not in self.warm:
            self.warmup.warm_up(self, *wanted, x.device)
            self.warm.add(wanted)

    @torch.no_grad()
    def head(
        self,
        batch: FoldedBatch,
        features: Tensor,
        y: Tensor,
        masks: Tensor,
        shares: Tensor,
        held: Wanted | None,
    ) -> tuple[Float[Tensor, "g"], Float[Tensor, "b c h w"]]:
        """The losses of the groups and the gradient at the features; by hand, since each group has a row of its own."""
        linear, pooled, by_group = self.model.heads.linear, features.float().mean((2, 3)), batch.plan.by_group
        logits = F.linear(pooled, linear.weight, linear.bias)
        log_probs = logits.masked_fill(~masks, -torch.inf).log_softmax(1)
        right = y[:, None] == torch.arange(log_probs.shape[1], device=y.device)
        losses = -torch.where(right, log_probs, 0).sum(1) * shares
        grads = (log_probs.exp() - right.float()) * shares[:, None]
        if held is not None:
            away, weights = logits - held.logits, held.steady(pooled) / len(y)
            losses += away.square() @ weights
            grads += 2 * away * weights
        grads_by_group = by_group(grads)
        batch.place(linear.weight).copy_((grads_by_group.mT @ by_group(pooled)).flatten(1))
        batch.place(linear.bias).copy_(grads_by_group.sum(1))
        back = (grads @ linear.weight / features[0, 0].numel()).to(features.dtype)
        return by_group(losses[:, None]).sum((1, 2)), back[:, :, None, None].expand_as(features)

    def infer(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        """Features on running statistics: a convolution waits for the batch norm that follows, and the two are one."""
        x = self.model.normalised(x)
        self.compile(x, None)
        weights = self.weights(torch.float32, back=False)
        values, conv = {IMAGES: x}, None
        for number, operation in enumerate(self.program.operations, start=1):
            if isinstance(operation, Conv):
                conv, source = operation.layer, operation.source
                continue
            assert conv is not None
            residual = None if operation.residual is None else values[operation.residual]
            after = self.convolution.After(operation.layer, residual, operation.relu)
            images = values[source].contiguous(memory_format=torch.channels_last)
            values[number] = self.convolution.convolve(images, weights[conv], *stride_and_padding(conv), after)
            for unused in (*self.program.last_use[number - 1], *self.program.last_use[number - 2]):
                values.pop(unused, None)
        return values[number]

    @torch.no_grad()
    def weights(self, dtype: torch.dtype, back: bool = True) -> dict[nn.Module, Any]:
        """The convolutions' weights as their kernels take them, for the way back too or not."""
        weights, turned = [layer.weight for layer in self.convs], self.turned if back else None
        return dict(zip(self.convs, self.convolution.split(weights, turned, dtype), strict=True))


def chunks(sizes: tuple[int, ...], pixels: int, precisions: tuple[str, ...]) -> Iterator[slice]:
    """Neighbouring groups of one precision, as many as a chunk's memory holds."""
    first, held = 0, 0
    for number, size in enumerate(sizes):
        full = (held + size) * pixels > CHUNK_PIXELS
        if number > first and (full or precisions[number] != precisions[first]):
            yield slice(first, number)
            first, held = number, 0
        held += size
    yield slice(first, len(sizes))


def stride_and_padding(layer: nn.Conv2d) -> tuple[int, int]:
    return layer.stride[0], layer.padding[0]  # type: ignore[return-value]
