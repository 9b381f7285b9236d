"""Gradients of several groups on a CPU: one core to a group, which is cheaper than all cores on one after the other."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from samc.gradients.flat import Batch, loss_of
from samc.gradients.statistics import Found, Statistics

Result = TypeVar("Result")

STARTING = threading.Lock()
# threads that ask for the pool at once shall get the same one


class Apart:
    """Layers as torch has them, but that batch norm hands its statistics over instead of moving the common ones."""

    def __init__(self) -> None:
        self.statistics: Statistics = {}

    def convolve(self, layer: nn.Conv2d, x: Tensor) -> Tensor:
        return layer(x)

    def normalise(self, layer: nn.BatchNorm2d, x: Tensor, beside: Tensor | None = None, rectify: bool = True) -> Tensor:
        y, mean, inverse = torch.native_batch_norm(x, layer.weight, layer.bias, None, None, True, 0.0, layer.eps)
        variance = (inverse.detach() ** -2 - layer.eps).clamp_min(0)
        self.statistics[layer] = Found(mean.detach()[None], variance[None], x.shape[2] * x.shape[3])
        y = y if beside is None else y.add_(beside)  # in place: batch norm's way back needs what came in, not this
        return y.relu_() if rectify else y


def gradients(
    model: nn.Module, groups: Sequence[Sequence[Batch]], rows: Sequence[list[Tensor]], precisions: Sequence[str]
) -> tuple[Float[Tensor, "g"], list[Statistics]]:
    """Fills each group's row, given as the places of all parameters; returns losses and batch statistics."""
    jobs = [partial(one, model, *job) for job in zip(groups, rows, precisions, strict=True)]
    sizes = [sum(len(batch.y) for batch in group) for group in groups]
    losses, statistics = zip(*in_parallel(jobs, sizes), strict=True)
    return torch.stack(losses), list(statistics)


def one(model: nn.Module, group: Sequence[Batch], row: list[Tensor], precision: str) -> tuple[Tensor, Statistics]:
    apart = Apart()
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        loss = loss_of(model, group, layers=apart)
    torch._foreach_copy_(row, torch.autograd.grad(loss, list(model.parameters())))
    return loss.detach(), apart.statistics


def in_parallel(jobs: Sequence[Callable[[], Result]], sizes: Sequence[int]) -> list[Result]:
    """The results in order; as many at a time as torch may use cores. An error in one of them is raised here.

    All cores together do what would keep one of them busy alone: a job larger than a core's share, and what is left
    over after full rounds.
    """
    cores = torch.get_num_threads()
    small = [place for place, size in enumerate(sizes) if size * cores <= sum(sizes)]
    if 2 * (left := len(small) % cores) <= cores:
        small = small[: len(small) - left]
    if cores == 1 or not small:
        return [job() for job in jobs]
    with STARTING:
        threads = pool(cores)
    found = dict(zip(small, threads.map(lambda place: jobs[place](), small), strict=True))
    return [found[place] if place in found else jobs[place]() for place in range(len(jobs))]


@cache
def pool(cores: int) -> ThreadPoolExecutor:
    """Threads that work with one core each."""
    together = threading.Barrier(cores + 1)

    def alone() -> None:
        torch.get_num_threads()  # a thread takes over the common number when it is first asked; later is too late
        torch.set_num_threads(1)
        together.wait()

    made = ThreadPoolExecutor(cores, "samc")
    waiting = [made.submit(alone) for _ in range(cores)]
    together.wait()
    for thread in waiting:
        thread.result()
    torch.set_num_threads(cores)  # threads that start later, and some libraries, have heard of the 1
    return made
