"""Do the same images and parameters give the same gradients to the last bit, beside other processes too?

A process computes the gradients of all past tasks and of a batch again and again, and compares each with its first.
First alone, then with others on the same device that do the same: a kernel that reads what is not there yet, or no
longer, mostly shows when the device is busy.
"""

import multiprocessing
from contextlib import nullcontext

import torch

from common import BATCH, SIDE, Row, dense, network, options, report
from samc.device import choose
from samc.engine import Engine
from samc.experiments.local import ON_A_GPU, threads_each
from samc.experiments.sharing import shared_gpu

CLAIM = "The same images and parameters give the same gradients to the last bit, however busy the device is."
KEPT = 43
# images of a past task that SAMC holds at the paper's threshold


def count_other(kind: str, threads: int, past: int, images: int, side: int, times: int) -> int:
    """How many of so many repetitions are not the first one's equal."""
    device = choose(kind)
    torch.set_num_threads(threads)
    model = network(past + 1, device).to(memory_format=torch.channels_last)
    engine = Engine(model)
    memories = [[dense(task, 0, device, images, side)] for task in range(past)]
    batch, other = dense(past, 0, device, BATCH, side), torch.zeros((), dtype=torch.int64, device=device)
    first = engine.gradients(memories, batch)[0].clone()
    for _ in range(times):
        rows, _ = engine.gradients(memories, batch)
        other += (rows != first).any()
    return int(other)


def side_by_side(processes: int, kind: str, *task: int) -> int:
    sharing = shared_gpu() if kind == "cuda" and processes > 1 else nullcontext()
    with sharing, multiprocessing.get_context("spawn").Pool(processes) as pool:
        return sum(pool.starmap(count_other, [(kind, *task)] * processes, chunksize=1))


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments, "--processes", "--repetitions")
    kind, on_gpu = given.device.type, given.device.type == "cuda"
    many = int(given.processes or (ON_A_GPU if on_gpu else 2))
    past, images, side, times = (2, 4, 16, 3) if given.quick else (19, KEPT, SIDE, 500) if on_gpu else (4, 10, SIDE, 50)
    times = int(given.repetitions or times)
    rows: list[Row] = []
    for processes in (1, many):
        other = side_by_side(processes, kind, threads_each(many), past, images, side, times)
        rows.append({"processes": processes, "past tasks": past, "images each": images, "pixels per side": side,
                     "repetitions": times * processes, "not as the first": other})  # fmt: skip
    alone, beside = (f"{row['not as the first']:,} of {row['repetitions']:,}" for row in rows)
    report(__file__, CLAIM, rows, f"Alone {alone} repetitions differ from the first, {many} at once {beside}.", given)


if __name__ == "__main__":
    main()
