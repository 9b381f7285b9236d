"""A folded batch: groups of images that go through the network together, each as if it were alone.

Weights are shared, so convolutions take all images at once. What belongs to a group is kept apart: the statistics of
batch norm, and the gradients, which are written into the group's own row.
"""

from collections.abc import Sequence
from itertools import accumulate
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from samc.gradients.graph import Constants
from samc.gradients.statistics import Found, Statistics
from samc.gradients.warmup import warm_up

PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}
# what --reference-precision may be


class Plan:
    """What follows from the sizes of the groups alone; made once, outside of any recording."""

    def __init__(self, sizes: Sequence[int], device: torch.device):
        starts, each = torch.tensor([0, *accumulate(sizes)], dtype=torch.int32), torch.tensor(sizes)
        self.starts = starts.to(device)
        self.shares = torch.repeat_interleave(1 / each, each).to(device)
        # images of a group side by side, filled up with one that does not exist
        places = torch.arange(max(sizes))[None]
        self.members = torch.where(places < each[:, None], places + starts[:-1, None], sum(sizes)).to(device)

    def by_group(self, values: Float[Tensor, "b k"]) -> Float[Tensor, "g n k"]:
        """Rows of a batch by their group, filled up with zeros."""
        return torch.cat([values, values.new_zeros(1, values.shape[1])])[self.members]


class Fold:
    """How a network's layers treat one folded batch; models/layers.py has how they treat a plain one."""

    def __init__(self, folding: "Folding", plan: Plan, rows: Float[Tensor, "g p"], precision: str):
        self.folding = folding
        self.plan = plan
        self.rows = rows
        self.type = PRECISIONS[precision]
        self.weights = folding.weights(self.type)
        self.statistics: Statistics = {}
        # what every layer depends on, so that autograd goes back through all of them though no parameter asks it to
        self.spark = torch.zeros(0, device=rows.device, requires_grad=True)

    def convolve(self, layer: nn.Conv2d, x: Tensor) -> Tensor:
        return Convolution.apply(x.to(self.type), self.spark, layer, self)

    def normalise(self, layer: nn.BatchNorm2d, x: Tensor, beside: Tensor | None = None, rectify: bool = True) -> Tensor:
        return Normalisation.apply(x, beside, layer, rectify, self)

    def place(self, first: nn.Parameter, last: nn.Parameter | None = None) -> Float[Tensor, "g n"]:
        """Where in the rows a parameter's gradients belong, or those of all from one to another."""
        places = self.folding.places
        return self.rows[:, places[first].start : places[last if last is not None else first].stop]


class Steady:
    """Layers on running statistics, with the same kernels: for looking at images, not for learning from them.

    A convolution waits for the batch norm that follows it, and the two are one kernel.
    """

    def __init__(self, folding: "Folding", x: Float[Tensor, "b c h w"]):
        folding.compile(x, None)
        self.convolution, self.weights = folding.convolution, folding.weights(torch.float32, back=False)

    def convolve(self, layer: nn.Conv2d, x: Tensor) -> Any:
        return layer, x.contiguous(memory_format=torch.channels_last)

    def normalise(self, layer: nn.BatchNorm2d, x: Any, beside: Tensor | None = None, rectify: bool = True) -> Tensor:
        convolution, images = x
        after = self.convolution.After(layer, beside, rectify)
        return self.convolution.convolve(images, self.weights[convolution], *strides(convolution), after)


class Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, spark: Tensor, layer: nn.Conv2d, fold: Fold) -> Tensor:
        ctx.layer, ctx.fold = layer, fold
        ctx.save_for_backward(x)
        return fold.folding.convolution.convolve(x, fold.weights[layer], *strides(layer))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x,), layer, fold = ctx.saved_tensors, ctx.layer, ctx.fold
        convolution, how = fold.folding.convolution, strides(layer)
        dy = dy.contiguous(memory_format=torch.channels_last)
        dx = convolution.convolve_back(dy, fold.weights[layer], x, *how) if ctx.needs_input_grad[0] else None
        convolution.weight_gradients(x, dy, fold.plan.starts, layer.weight.shape, *how, fold.place(layer.weight))
        return dx, None, None, None


class Normalisation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, beside: Tensor | None, layer: nn.BatchNorm2d, rectify: bool, fold: Fold) -> Tensor:
        weight, bias = layer.weight.detach(), layer.bias.detach()
        y, mean, variance, deviation = fold.folding.normalisation.normalise(
            x, beside, weight, bias, layer.eps, fold.plan.starts, rectify
        )
        fold.statistics[layer] = Found(mean, variance, x.shape[2] * x.shape[3])
        ctx.layer, ctx.fold, ctx.rectify, ctx.has_beside = layer, fold, rectify, beside is not None
        ctx.save_for_backward(x, y, mean, deviation)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x, y, mean, deviation), layer, fold = ctx.saved_tensors, ctx.layer, ctx.fold
        dy = dy.contiguous(memory_format=torch.channels_last)
        dx, dbeside, slopes = fold.folding.normalisation.normalise_back(
            dy,
            x,
            y,
            layer.weight.detach(),
            layer.bias.detach(),
            mean,
            deviation,
            fold.plan.starts,
            ctx.rectify,
            ctx.has_beside,
        )
        fold.place(layer.weight, layer.bias).copy_(slopes.flatten(1))
        return dx, dbeside, None, None, None


class Folding:
    """Folded batches of one network."""

    def __init__(self, model: Any, constants: Constants):
        from samc.gradients import convolution, normalisation  # noqa: PLC0415  (Triton is only where a GPU is)

        self.convolution: ModuleType = convolution
        self.normalisation: ModuleType = normalisation
        self.model = model
        self.places: dict[nn.Parameter, slice] = {}
        last = 0
        for parameter in model.parameters():
            self.places[parameter] = slice(last, last := last + parameter.numel())
        self.layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
        self.turned = convolution.turned_places([layer.weight for layer in self.layers])
        self.constants = constants
        self.warm: set[tuple[tuple[int, ...], torch.dtype | None]] = set()

    def __call__(
        self, rows: Float[Tensor, "g p"], sizes: tuple[int, ...], precision: str, x: Float[Tensor, "b c h w"],
        y: Tensor, choices: Tensor, shares: Tensor | None = None,
    ) -> tuple[Float[Tensor, "g"], Statistics]:  # fmt: skip
        """Forward and back; fills the rows, returns the losses of the groups and their batch statistics."""
        self.compile(x, PRECISIONS[precision])
        plan = self.constants.get(("plan", sizes), lambda: Plan(sizes, x.device))
        fold = Fold(self, plan, rows, precision)
        with torch.enable_grad():
            features = self.model.features(x, fold)
        losses, slopes = self.head(fold, features.detach(), y, choices, plan.shares if shares is None else shares)
        torch.autograd.grad(features, fold.spark, slopes, allow_unused=True)
        return losses, fold.statistics

    def compile(self, x: Float[Tensor, "b c h w"], kind: torch.dtype | None) -> None:
        """Make ready for gradients of a kind from such images, or, with None, for looks at them."""
        wanted = tuple(x.shape[1:]), kind
        if x.device.type == "cuda" and wanted not in self.warm:
            warm_up(self, *wanted, x.device)
            self.warm.add(wanted)

    @torch.no_grad()
    def head(
        self, fold: Fold, features: Tensor, y: Tensor, choices: Tensor, shares: Tensor
    ) -> tuple[Float[Tensor, "g"], Float[Tensor, "b c h w"]]:
        """The losses of the groups and the gradient at the features; by hand, since each group has a row of its own."""
        linear, pooled, by_group = self.model.linear, features.float().mean((2, 3)), fold.plan.by_group
        scores = F.linear(pooled, linear.weight, linear.bias)
        chances = scores.masked_fill(~choices, -torch.inf).log_softmax(1)
        right = y[:, None] == torch.arange(chances.shape[1], device=y.device)
        losses = -torch.where(right, chances, 0).sum(1) * shares
        slopes = (chances.exp() - right.float()) * shares[:, None]
        sorted_slopes = by_group(slopes)
        fold.place(linear.weight).copy_((sorted_slopes.mT @ by_group(pooled)).flatten(1))
        fold.place(linear.bias).copy_(sorted_slopes.sum(1))
        back = (slopes @ linear.weight / features[0, 0].numel()).to(features.dtype)
        return by_group(losses[:, None]).sum((1, 2)), back[:, :, None, None].expand_as(features)

    @torch.no_grad()
    def weights(self, kind: torch.dtype, back: bool = True) -> dict[nn.Module, Any]:
        """The convolutions' weights as their kernels take them, for the way back too or not."""
        weights, turned = [layer.weight for layer in self.layers], self.turned if back else None
        return dict(zip(self.layers, self.convolution.split(weights, turned, kind), strict=True))


def strides(layer: nn.Conv2d) -> tuple[int, int]:
    return layer.stride[0], layer.padding[0]  # type: ignore[return-value]
