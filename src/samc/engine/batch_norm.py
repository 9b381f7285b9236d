"""Running statistics of batch norm, moved as if groups of images had been shown one after the other."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from samc.engine.graphs import Constants


class BatchMoments(NamedTuple):
    """What one layer saw, by group and channel; `area` is how many pixels an image had there."""

    mean: Float[Tensor, "g c"]
    variance: Float[Tensor, "g c"]
    area: int


Moments = dict[nn.Module, BatchMoments]


class RunningStats:
    """The running statistics of the batch norms of a program, which have one momentum."""

    def __init__(self, layers: Sequence[nn.BatchNorm2d], constants: Constants | None):
        self.layers = list(layers)
        self.widths = [layer.num_features for layer in self.layers]
        self.constants = constants

    @torch.no_grad()
    def update(self, sizes: tuple[int, ...], moments: Sequence[Moments]) -> None:
        """`moments` holds the groups' in their order, one or several groups per entry."""
        areas = tuple(moments[0][layer].area for layer in self.layers)
        if self.constants is None:  # nothing is recorded: they may be made anew
            kept, shares, unbiased = self.momentum(sizes, areas)
        else:
            kept, shares, unbiased = self.constants.get(("momentum", sizes, areas), lambda: self.momentum(sizes, areas))
        means = torch.cat([torch.cat([part[layer].mean for layer in self.layers], 1) for part in moments])
        variances = torch.cat([torch.cat([part[layer].variance for layer in self.layers], 1) for part in moments])
        for name, moved in (("running_mean", shares @ means), ("running_var", shares @ (variances * unbiased))):
            running = [getattr(layer, name) for layer in self.layers]
            torch._foreach_mul_(running, kept)
            torch._foreach_add_(running, list(moved.split(self.widths)))
        torch._foreach_add_([getattr(layer, "num_batches_tracked") for layer in self.layers], len(sizes))  # noqa: B009

    def momentum(self, sizes: tuple[int, ...], areas: tuple[int, ...]) -> tuple[float, Tensor, Tensor]:
        """How much of the running statistics stays, what each group adds, and n/(n − 1) by group and channel."""
        keep = 1 - float(self.layers[0].momentum or 0)
        shares = torch.tensor([(1 - keep) * keep**later for later in reversed(range(len(sizes)))])
        values = torch.tensor(sizes)[:, None] * torch.tensor(areas).repeat_interleave(torch.tensor(self.widths))
        device = self.layers[0].weight.device
        return keep ** len(sizes), shares.to(device), (values / (values - 1)).to(device)
