"""One whole GEM step of ours against the loop of public implementations: references, gradient, projection, SGD.

The loop is in a process of its own, which knows nothing of how ours treats memory and threads; the two take turns.
"""

import argparse
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from common import BATCH, CLASSES, LR, SIDE, dense, learner, network, options, report, rounds, steps, synchronise
from samc.engine import Batch, flat_parameters
from samc.models import Classifier
from samc.projection import solve_dual

MARGIN, RIDGE = 0.5, 1e-3
quadprog = import_module("quadprog") if find_spec("quadprog") else None
CLAIM = "A whole GEM step is faster than the loop of public implementations."


class PublicGEM:
    """One task after the other by backward(), a column of a matrix each; the cone by numpy and quadprog on the host.

    Of any classifier; of the one that our learners start from, where none is given.
    """

    def __init__(self, memories: list[Batch], model: Classifier | None = None):
        device = memories[0].x.device
        self.memories = memories
        self.model = (network(len(memories) + 1, device) if model is None else model).train()
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=LR)
        self.sizes = [parameter.numel() for parameter in self.model.parameters()]
        self.columns = torch.zeros(sum(self.sizes), len(memories) + 1, device=device)
        self.ring = torch.zeros_like(memories[0].x)

    def observe(self, x: torch.Tensor, y: torch.Tensor, task: int) -> None:
        now = Batch(x.to(self.columns.device).float() / 255, y.to(self.columns.device), task)
        self.ring[: len(now.x)].copy_(now.x[: len(self.ring)])
        self.gradients(now)
        past, current = self.columns[:, :-1], self.columns[:, -1:]
        if (current.T @ past < 0).any():
            current.copy_(self.projected(past, current))
            self.overwrite(current)
        self.optimiser.step()

    def gradients(self, now: Batch) -> torch.Tensor:
        """One column per memory, and last the batch's own."""
        for column, batch in enumerate([*self.memories, now]):
            self.model.zero_grad()
            F.cross_entropy(self.model(batch.x, batch.task), batch.y - CLASSES * batch.task).backward()
            self.store(column)
        return self.columns

    def store(self, column: int) -> None:
        first = 0
        for parameter, size in zip(self.model.parameters(), self.sizes, strict=True):
            self.columns[first : first + size, column].copy_(parameter.grad.flatten())
            first += size

    def projected(self, past: torch.Tensor, current: torch.Tensor) -> torch.Tensor:
        """The nearest gradient within the cone, in double precision on the host."""
        references, gradient = past.cpu().t().double().numpy(), current.cpu().flatten().double().numpy()
        weights = cone(references @ references.T, references @ gradient)
        return torch.from_numpy(weights @ references + gradient).float()[:, None].to(current.device)

    def overwrite(self, current: torch.Tensor) -> None:
        first = 0
        for parameter, size in zip(self.model.parameters(), self.sizes, strict=True):
            parameter.grad.copy_(current[first : first + size].view_as(parameter))
            first += size


def cone(gram: np.ndarray, overlaps: np.ndarray) -> np.ndarray:
    """The weight of each reference, by quadprog; by our own solver where that is not installed."""
    if quadprog is None:
        return solve_dual(gram, overlaps, MARGIN, RIDGE)
    size = len(overlaps)
    definite = (gram + gram.T) / 2 + RIDGE * np.eye(size)
    return quadprog.solve_qp(definite, -overlaps, np.eye(size), np.full(size, MARGIN))[0]


def precisions(device: torch.device) -> list[str]:
    """bf16 only where the processor has it: emulated it would be slower than float32."""
    if device.type == "cuda":
        return ["float32", "bf16"]
    flags = Path("/proc/cpuinfo")
    words = set(flags.read_text().split()) if flags.exists() else set()
    return ["float32", "bf16"] if words & {"avx512_bf16", "amx_bf16"} else ["float32"]


def moved(model: torch.nn.Module, step: Callable[[], object]) -> torch.Tensor:
    """How the first step changes the parameters."""
    before = flat_parameters(model)
    step()
    return flat_parameters(model) - before


def serve(line: Connection, past: int, side: int, kind: str) -> None:
    """The loop's process: what its first step changes, then a step whenever it is asked for one."""
    device = torch.device(kind)
    public = PublicGEM([dense(task, 0, device, BATCH, side) for task in range(past)])
    step = steps(public.observe, past, side)
    line.send(moved(public.model, step).cpu().numpy())
    while line.recv():
        step()
        synchronise(device)
        line.send(True)


@contextmanager
def elsewhere(past: int, side: int, device: torch.device) -> Iterator[tuple[torch.Tensor, Callable[[], object]]]:
    """The loop in a process of its own: how its first step changes the parameters, and a call that takes a step."""
    context = multiprocessing.get_context("spawn")
    line, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, past, side, device.type), daemon=True)
    process.start()

    def step() -> object:
        line.send(True)
        return line.recv()

    yield torch.from_numpy(line.recv()).to(device), step
    line.send(False)
    process.join()


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    past, side = (2, 16) if given.quick else (19 if given.device.type == "cuda" else 10, SIDE)
    with elsewhere(past, side, given.device) as (expected, loop):
        measure(given, past, side, expected, loop)


def measure(
    given: argparse.Namespace, past: int, side: int, expected: torch.Tensor, loop: Callable[[], object]
) -> None:
    # all start from the same parameters, memories and batch: the first step says whether they compute the same
    cases = {"loop": loop}
    alone = rounds(cases, given.device, given.quick)["loop"]  # before ours, and its threads, are there to disturb it
    ours = {
        name: learner("gem", past, given.device, side, reference_precision=name) for name in precisions(given.device)
    }
    cases |= {name: steps(gem.observe, past, side) for name, gem in ours.items()}
    apart = {name: moved(gem.model, cases[name]) - expected for name, gem in ours.items()}
    spent = rounds(cases, given.device, given.quick)
    rows = [
        {
            "reference precision": name,
            "past tasks": past,
            "images each": BATCH,
            "pixels per side": side,
            "loop alone ms": 1000 * alone,
            "loop ms": 1000 * spent["loop"],
            "ours ms": 1000 * spent[name],
            "loop / ours": spent["loop"] / spent[name],
            "first step apart": float(apart[name].norm() / expected.norm()),
            "loop's solver": "ours" if quadprog is None else "quadprog",
        }
        for name in ours
    ]
    times = " and ".join(f"{row['loop / ours']:.2f} ({row['reference precision']} references)" for row in rows)
    found = f"With {past} past tasks of {BATCH} images the loop takes {times} times as long as ours."
    report(__file__, CLAIM, rows, found, given)


if __name__ == "__main__":
    main()
