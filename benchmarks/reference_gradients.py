"""Reference gradients alone, without the projection: ours against the loop of public implementations and the floor.

Made for a GPU; on a CPU only tiny sizes are tried. The loop runs as torch comes, with TF32 in its convolutions; ours
computes float32 as float32. How far each is from the loop in double precision stands beside the time.
"""

import copy
import gc
import statistics
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from against_loop import PublicGEM, precisions
from common import SIDE, Row, as_torch_comes, dense, network, options, report, rounds, synchronise
from samc.engine import Batch, Engine

TASKS = 19
CASES = ((10, 32), (43, 32), (43, 84))
# images per past task, pixels per side
GIGAFLOPS, TERAFLOPS = 0.336, 60
# of one image at 32x32, forward and backward; what the device gives in float32
CLAIM = "Reference gradients of all past tasks at once are faster than one task after the other, and near the floor."


class Ours(NamedTuple):
    call: Callable[[], torch.Tensor]
    peak_bytes: int | None


def ours(precision: str, memories: list[Batch], now: Batch) -> Ours:
    """The engine, ready, and the most memory it has reserved on the device, with nobody else there."""
    device = now.x.device
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_reserved()
    model = network(len(memories) + 1, device).to(memory_format=torch.channels_last)
    engine = Engine(model, precision)
    last = [batch._replace(x=batch.x.contiguous(memory_format=torch.channels_last)) for batch in (*memories, now)]
    groups = [[memory] for memory in last[:-1]]

    def call() -> torch.Tensor:
        return engine.gradients(groups, last[-1])[0]

    for _ in range(4):  # the third call records what all later ones replay
        call()
    synchronise(device)
    return Ours(call, torch.cuda.max_memory_reserved() - before if device.type == "cuda" else None)


def loop(public: PublicGEM, now: Batch) -> torch.Tensor:
    with as_torch_comes():
        return public.gradients(now)


def in_double(public: PublicGEM, now: Batch) -> torch.Tensor:
    """The loop's gradients, (past tasks and one, parameters), computed in double precision."""
    exact = copy.copy(public)
    exact.model, exact.columns = copy.deepcopy(public.model).double(), public.columns.double()
    exact.memories = [memory._replace(x=memory.x.double()) for memory in public.memories]
    return exact.gradients(now._replace(x=now.x.double())).T.clone()


def apart(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The median over tasks of the relative difference."""
    return statistics.median(((found.double() - exact).norm(dim=1) / exact.norm(dim=1)).tolist())


def measured(tasks: int, images: int, side: int, device: torch.device, quick: bool) -> list[Row]:
    memories = [dense(task, 0, device, images, side) for task in range(tasks)]
    now = dense(tasks, 0, device, side=side)
    ready = {name: ours(name, memories, now) for name in precisions(device)}
    public = PublicGEM(memories)
    cases: dict[str, Callable[[], torch.Tensor]] = {"loop": partial(loop, public, now)}
    cases |= {name: engine.call for name, engine in ready.items()}
    # all networks have the same parameters, and none learns
    exact = in_double(public, now) if side <= SIDE else None
    wrong = {
        name: None if exact is None else apart(call().T if name == "loop" else call(), exact)
        for name, call in cases.items()
    }
    spent = rounds(cases, device, quick)
    count = tasks * images + len(now.y)
    floor = count * GIGAFLOPS * (side / 32) ** 2 / TERAFLOPS / 1000
    rows = []
    for name, engine in ready.items():
        comparable = name == "float32" and device.type == "cuda"  # the floor is that of a GPU's float32
        rows.append({
            "images each": images,
            "pixels per side": side,
            "past tasks": tasks,
            "precision": name,
            "loop ms": 1000 * spent["loop"],
            "ours ms": 1000 * spent[name],
            "loop / ours": spent["loop"] / spent[name],
            "floor ms": 1000 * floor if comparable else None,
            "ours / floor": spent[name] / floor if comparable else None,
            "peak GB": None if engine.peak_bytes is None else engine.peak_bytes / 1e9,
            "ours from double": wrong[name],
            "loop from double": wrong["loop"],
        })  # fmt: skip
    return rows


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    given.quick = given.quick or given.device.type == "cpu"
    tasks, cases = (2, ((4, 16),)) if given.quick else (TASKS, CASES)
    rows: list[Row] = []
    for case in cases:
        rows += measured(tasks, *case, given.device, given.quick)
        times = ", ".join(
            f"{row['loop / ours']:.1f} ({row['images each']} images at {row['pixels per side']}, {row['precision']})"
            for row in rows
        )
        found = f"With {tasks} past tasks the loop takes so many times as long as ours: {times}."
        report(__file__, CLAIM, rows, found, given)  # after each case: a machine may be lent for a short time


if __name__ == "__main__":
    main()
