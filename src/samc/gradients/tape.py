"""One group of images on a CPU: forward layer by layer, then back by hand, straight into the group's row.

autograd would make every weight gradient, cast it, keep it and leave it to be copied; here it goes to its place at
once, slopes are rectified and added up where they are, and all groups of a step share one cast of the weights.
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from samc.gradients.statistics import Found, Statistics

Weights = Mapping[nn.Conv2d, Tensor]
Places = Mapping[Tensor, Tensor]
Work = Callable[[], object]


class Tape:
    """How a network's layers treat the group; models/layers.py has how they treat any batch.

    Batch norm hands its statistics over instead of moving the common ones. Nothing on the way back waits for the
    gradients of convolutions' weights: `side` gets that work and does it, or sees that somebody does.
    """

    def __init__(self, weights: Weights, places: Places, side: Callable[[Work], None]):
        self.weights = weights
        self.places = places
        self.parameters: set[Tensor] = set()  # those whose gradients are found here, not by who takes over
        self.side = side
        self.ways_back: list[Work] = []
        self.slopes: dict[int, Tensor] = {}  # by id of what they are slopes of, which a way back keeps alive
        self.found: list[tuple[nn.BatchNorm2d, Tensor, Tensor, int]] = []

    def convolve(self, layer: nn.Conv2d, x: Tensor) -> Tensor:
        weight = self.weights[layer]
        self.parameters.add(layer.weight)
        y = torch.conv2d(x, weight, None, layer.stride, layer.padding)
        inner = bool(self.ways_back)  # what comes in first is images, whose slope nobody wants
        self.ways_back.append(partial(self.convolve_back, layer, weight, x, y, inner))
        return y

    def normalise(self, layer: nn.BatchNorm2d, x: Tensor, beside: Tensor | None = None, rectify: bool = True) -> Tensor:
        y, mean, inverse = torch.native_batch_norm(x, layer.weight, layer.bias, None, None, True, 0.0, layer.eps)
        self.parameters |= {layer.weight, layer.bias}
        self.found.append((layer, mean, inverse, x.shape[2] * x.shape[3]))
        y = y if beside is None else y.add_(beside)  # in place: the way back needs what came in, not this
        y = y.relu_() if rectify else y
        self.ways_back.append(partial(self.normalise_back, layer, x, mean, inverse, beside, y, rectify))
        return y

    def back(self, y: Tensor, slope: Tensor) -> None:
        """From the slope of what came out last, which is overwritten."""
        self.slopes[id(y)] = slope
        while self.ways_back:
            self.ways_back.pop()()  # and what it held is free

    def convolve_back(self, layer: nn.Conv2d, weight: Tensor, x: Tensor, y: Tensor, inner: bool) -> None:
        dy = self.slopes.pop(id(y))
        self.side(lambda: self.places[layer.weight].copy_(slopes(layer, weight, x, dy, False)))
        if inner:
            self.add(x, slopes(layer, weight, x, dy, True))

    def normalise_back(
        self, layer: nn.BatchNorm2d, x: Tensor, mean: Tensor, inverse: Tensor, beside: Tensor | None, y: Tensor,
        rectify: bool,
    ) -> None:  # fmt: skip
        dy = self.slopes.pop(id(y))
        if rectify:
            torch.ops.aten.threshold_backward.grad_input(dy, y, 0, grad_input=dy)
        dx, weight, bias = torch.ops.aten.native_batch_norm_backward(
            dy, x, layer.weight, None, None, mean, inverse, True, layer.eps, (True, True, True)
        )
        self.places[layer.weight].copy_(weight)
        self.places[layer.bias].copy_(bias)
        self.add(x, dx)
        if beside is not None:
            self.add(beside, dy)

    def add(self, x: Tensor, slope: Tensor) -> None:
        """In place, for nobody else reads either of them any more."""
        self.slopes[id(x)] = self.slopes[id(x)].add_(slope) if id(x) in self.slopes else slope

    def statistics(self) -> Statistics:
        """Of all layers in a few calls, since each is short and a call is not."""
        layers, means, inverses, areas = zip(*self.found, strict=True)
        widths = [len(mean) for mean in means]
        variances = (torch.cat(inverses) ** -2 - layers[0].eps).clamp_min(0).split(widths)
        return {
            layer: Found(mean[None], variance[None], area)
            for layer, mean, variance, area in zip(layers, means, variances, areas, strict=True)
        }


def slopes(layer: nn.Conv2d, weight: Tensor, x: Tensor, dy: Tensor, inner: bool) -> Tensor:
    """Of what went into a convolution, or of its weights."""
    wanted = (inner, not inner, False)
    found = torch.ops.aten.convolution_backward(
        dy, x, weight, None, layer.stride, layer.padding, (1, 1), False, (0, 0), 1, wanted
    )
    return found[not inner]
