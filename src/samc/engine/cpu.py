"""The fast way on a CPU: one core per group, a program forward and then back by hand, straight into the group's row.

A core per group is cheaper than all cores on one group after the other. autograd would make every weight gradient,
cast it, keep it and leave it to be copied; here it goes to its place at once, gradients pass a ReLU and are added up
where they are, and all groups of a step share one cast of the weights.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from samc.engine.batch_norm import BatchMoments, Moments
from samc.engine.program import IMAGES, Conv, Norm, Program
from samc.models.classifier import Batch, Classifier, equal_shares

PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}
# what --reference-precision may be
Result = TypeVar("Result")
Work = Callable[[], object]

STARTING = threading.Lock()
# threads that ask for the pool at once shall get the same one


GradViews = Mapping[Tensor, Tensor]
# where in a group's row each parameter's gradient goes, in the parameter's shape


@torch.no_grad()
def gradients(
    model: Classifier,
    program: Program,
    groups: Sequence[Sequence[Batch]],
    rows: Sequence[GradViews],
    precisions: Sequence[str],
) -> tuple[Float[Tensor, "g"], list[Moments]]:
    """Fills each group's row; returns the losses and what batch norm saw. One core per group, where that pays."""
    weights = {
        name: {layer: layer.weight.detach().to(PRECISIONS[name]) for layer in program.convs} for name in set(precisions)
    }
    jobs = [
        partial(group_gradient, model, program, group, row, weights[name], name)
        for group, row, name in zip(groups, rows, precisions, strict=True)
    ]
    sizes = [sum(len(batch.y) for batch in group) for group in groups]
    losses, moments = zip(*in_parallel(jobs, sizes), strict=True)
    return torch.stack(losses), list(moments)


@torch.no_grad()
def group_gradient(
    model: Classifier,
    program: Program,
    group: Sequence[Batch],
    row: GradViews,
    weights: Mapping[nn.Conv2d, Tensor],
    precision: str,
) -> tuple[Tensor, Moments]:
    """Forward and back; what follows the features is short and left to autograd."""
    tape = Tape(program, weights, row, do_aside)
    x, y = torch.cat([batch.x for batch in group]), torch.cat([batch.y for batch in group])
    x = x if model.mean is None else model.normalised(x)
    features = tape.forward(x.to(PRECISIONS[precision])).requires_grad_()
    heads = list(model.heads.parameters())
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        loss = model.loss_by_task(features, group, equal_shares(y))
    grad, *head_grads = torch.autograd.grad(loss, [features, *heads])
    torch._foreach_copy_([row[parameter] for parameter in heads], head_grads)
    tape.backward(torch.empty_like(features).copy_(grad))
    return loss.detach(), tape.moments()


class Tape:
    """One group's pass through a program, remembered for the way back.

    Batch norm hands its statistics over instead of moving the common ones. Nothing on the way back waits for the
    gradients of convolutions' weights: `aside` gets that work and does it, or sees that somebody does.
    """

    def __init__(
        self, program: Program, weights: Mapping[nn.Conv2d, Tensor], row: GradViews, aside: Callable[[Work], None]
    ):
        self.program = program
        self.weights = weights
        self.row = row
        self.aside = aside
        self.values: dict[int, Tensor] = {}
        self.grads: dict[int, Tensor] = {}
        self.statistics: dict[int, tuple[Tensor, Tensor]] = {}  # mean and 1/deviation by number of the norm's value

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        self.values[IMAGES] = x
        for number, operation in enumerate(self.program.operations, start=1):
            x = self.values[operation.source]
            if isinstance(operation, Conv):
                layer = operation.layer
                y = torch.conv2d(x, self.weights[layer], None, layer.stride, layer.padding)
            else:
                y = self.normalise(number, operation, x)
            self.values[number] = y
        return y

    def normalise(self, number: int, operation: Norm, x: Tensor) -> Tensor:
        layer = operation.layer
        y, mean, inverse = torch.native_batch_norm(x, layer.weight, layer.bias, None, None, True, 0.0, layer.eps)
        self.statistics[number] = mean, inverse
        if operation.residual is not None:
            y = y.add_(self.values[operation.residual])  # in place: the way back needs what came in, not this
        return y.relu_() if operation.relu else y

    def backward(self, grad: Tensor) -> None:
        """From the gradient at what came out last, which is overwritten."""
        self.areas = {number: self.values[number][0, 0].numel() for number in self.statistics}
        self.grads[len(self.program.operations)] = grad
        for number, operation in reversed(list(enumerate(self.program.operations, start=1))):
            back = self.conv_back if isinstance(operation, Conv) else self.norm_back
            back(number, operation)  # type: ignore[arg-type]
            del self.values[number]  # all who needed it have been passed

    def conv_back(self, number: int, operation: Conv) -> None:
        layer, x, dy = operation.layer, self.values[operation.source], self.grads.pop(number)
        weight, place = self.weights[layer], self.row[layer.weight]
        self.aside(lambda: place.copy_(conv_grad(layer, weight, x, dy, of_input=False)))
        if operation.source != IMAGES:
            self.add(operation.source, conv_grad(layer, weight, x, dy, of_input=True))

    def norm_back(self, number: int, operation: Norm) -> None:
        layer, dy, (mean, inverse) = operation.layer, self.grads.pop(number), self.statistics[number]
        if operation.relu:
            torch.ops.aten.threshold_backward.grad_input(dy, self.values[number], 0, grad_input=dy)
        dx, weight, bias = torch.ops.aten.native_batch_norm_backward(
            dy, self.values[operation.source], layer.weight, None, None, mean, inverse, True, layer.eps, (True,) * 3
        )
        self.row[layer.weight].copy_(weight)
        self.row[layer.bias].copy_(bias)
        self.add(operation.source, dx)
        if operation.residual is not None:
            self.add(operation.residual, dy)

    def add(self, number: int, grad: Tensor) -> None:
        """In place, for nobody else reads either of them any more."""
        self.grads[number] = self.grads[number].add_(grad) if number in self.grads else grad

    def moments(self) -> Moments:
        """Of all layers in a few calls, since each is short and a call is not."""
        means, inverses = zip(*self.statistics.values(), strict=True)
        norms = self.program.norms
        variances = (torch.cat(inverses) ** -2 - norms[0].eps).clamp_min(0).split([len(mean) for mean in means])
        rows = zip(norms, means, variances, self.areas.values(), strict=True)
        return {layer: BatchMoments(mean[None], variance[None], area) for layer, mean, variance, area in rows}


def conv_grad(layer: nn.Conv2d, weight: Tensor, x: Tensor, dy: Tensor, *, of_input: bool) -> Tensor:
    """The gradient at what went into a convolution, or at its weights."""
    wanted = (of_input, not of_input, False)
    grads = torch.ops.aten.convolution_backward(
        dy, x, weight, None, layer.stride, layer.padding, layer.dilation, False, (0, 0), layer.groups, wanted
    )
    return grads[not of_input]


class SideWork(threading.local):
    """Who does a job's side work: the job itself, or in the end whatever thread of the pool is free."""

    pool: ThreadPoolExecutor | None = None
    handed_over: list[Future]


SIDE_WORK = SideWork()


def do_aside(work: Work) -> None:
    """Work of a job whose result the job does not need: done at once, or by a thread that has nothing else to do."""
    if SIDE_WORK.pool is None:
        work()
    else:
        SIDE_WORK.handed_over.append(SIDE_WORK.pool.submit(work))


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
        SIDE_WORK.pool, SIDE_WORK.handed_over = (threads if place in helped else None), handed_over
        return jobs[place]()

    results = dict(zip(small, threads.map(perform, small), strict=True))
    for work in handed_over:
        work.result()
    return [results[place] if place in results else jobs[place]() for place in range(len(jobs))]


@cache
def pool(cores: int) -> ThreadPoolExecutor:
    """Threads that work with one core each."""
    together = threading.Barrier(cores + 1)

    def take_one_core() -> None:
        torch.get_num_threads()  # a thread takes over the common number when it is first asked; later is too late
        torch.set_num_threads(1)
        together.wait()

    threads = ThreadPoolExecutor(cores, "samc")
    waiting = [threads.submit(take_one_core) for _ in range(cores)]
    together.wait()
    for thread in waiting:
        thread.result()
    torch.set_num_threads(cores)  # threads that start later, and some libraries, have heard of the 1
    return threads
