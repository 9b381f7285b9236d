"""Gradients of several groups on a CPU: one core to a group, which is cheaper than all cores on one after the other."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from samc.gradients.flat import Batch, loss_of
from samc.gradients.fold import PRECISIONS
from samc.gradients.statistics import Statistics
from samc.gradients.tape import Places, Tape, Weights, Work

Result = TypeVar("Result")

STARTING = threading.Lock()
# threads that ask for the pool at once shall get the same one


class Help(threading.local):
    """Who does a job's side work: the job itself, or in the end whatever thread of the pool is free."""

    threads: ThreadPoolExecutor | None = None
    handed_over: list[Future]

    def on(self, work: Work) -> None:
        if self.threads is None:
            work()
        else:
            self.handed_over.append(self.threads.submit(work))


HELP = Help()


@torch.no_grad()
def gradients(
    model: Any, groups: Sequence[Sequence[Batch]], rows: Sequence[Places], precisions: Sequence[str]
) -> tuple[Float[Tensor, "g"], list[Statistics]]:
    """Fills each group's row, given as the places of all parameters; returns losses and batch statistics."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    weights = {
        name: {layer: layer.weight.detach().to(PRECISIONS[name]) for layer in layers} for name in set(precisions)
    }
    jobs = [
        partial(one, model, group, row, weights[name], name)
        for group, row, name in zip(groups, rows, precisions, strict=True)
    ]
    sizes = [sum(len(batch.y) for batch in group) for group in groups]
    losses, statistics = zip(*in_parallel(jobs, sizes), strict=True)
    return torch.stack(losses), list(statistics)


@torch.no_grad()
def one(model: Any, group: Sequence[Batch], row: Places, weights: Weights, precision: str) -> tuple[Tensor, Statistics]:
    """Forward and back; what follows the features is short and left to autograd."""
    tape = Tape(weights, row, HELP.on)
    features = model.features(torch.cat([batch.x for batch in group]).to(PRECISIONS[precision]), tape).requires_grad_()
    others = [parameter for parameter in row if parameter not in tape.parameters]
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        loss = loss_of(model, features, group)
    slope, *slopes = torch.autograd.grad(loss, [features, *others])
    torch._foreach_copy_([row[parameter] for parameter in others], slopes)
    tape.back(features, torch.empty_like(features).copy_(slope))
    return loss.detach(), tape.statistics()


def in_parallel(jobs: Sequence[Callable[[], Result]], sizes: Sequence[int]) -> list[Result]:
    """The results in order; as many at a time as torch may use cores. An error in one of them is raised here.

    All cores together do what would keep most of them idle: a job larger than a core's share, and a few jobs. In the
    last full round and what is left over after it, who is done helps the others with their side work.
    """
    cores = torch.get_num_threads()
    small = [place for place, size in enumerate(sizes) if size * cores <= sum(sizes)]
    if cores == 1 or 2 * len(small) <= cores:
        return [job() for job in jobs]
    with STARTING:
        threads = pool(cores)
    small.reverse()  # the batch's own comes last and takes longest where past tasks are in bf16: begin with it
    helped = set(small[-cores - len(small) % cores :])
    handed_over: list[Future] = []

    def perform(place: int) -> Result:
        HELP.threads, HELP.handed_over = (threads if place in helped else None), handed_over
        return jobs[place]()

    found = dict(zip(small, threads.map(perform, small), strict=True))
    for work in handed_over:
        work.result()
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
