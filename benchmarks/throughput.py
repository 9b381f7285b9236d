"""Images per second and peak memory of a learner with ten past tasks, by method.

Speed is measured in rounds in one process. Memory is measured with each method alone in a process of its own, since a
process remembers only its highest point; finetune's is what torch and the network take anyway.
"""

import multiprocessing
from typing import Any

import torch

from common import BATCH, SIDE, learner, options, process_bytes, report, rounds, steps, synchronise
from samc.device import choose

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "finetune": ("finetune", {}),
    "er": ("er", {}),
    "agem": ("agem", {}),
    "gem": ("gem", {}),
    "samc": ("samc", {}),
    "samc --preset paper": ("samc", {"preset": "paper"}),
}
PAST = 10
STEPS = 10
CLAIM = "What a step of each method needs of time and memory, side by side."


def peaks(method: str, past: int, side: int, kind: str) -> tuple[int, int]:
    """The most bytes that were resident on the host, and allocated on the device."""
    name, settings = METHODS[method]
    device = choose(kind)
    step = steps(learner(name, past, device, side, **settings).observe, past, side)
    for _ in range(STEPS):
        step()
    synchronise(device)
    return process_bytes("VmHWM"), torch.cuda.max_memory_allocated() if device.type == "cuda" else 0


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    past, side, kind = (2, 16, given.device.type) if given.quick else (PAST, SIDE, given.device.type)
    most = {}
    for method in METHODS:
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            most[method] = alone.apply(peaks, (method, past, side, kind))
    made = {method: learner(name, past, given.device, side, **more) for method, (name, more) in METHODS.items()}
    cases = {name: steps(method.observe, past, side) for name, method in made.items()}
    spent = rounds(cases, given.device, given.quick)
    rows = [
        {
            "method": method,
            "past tasks": past,
            "step ms": 1000 * spent[method],
            "images per second": BATCH / spent[method],
            "step / finetune": spent[method] / spent["finetune"],
            "peak resident MB": most[method][0] / 1e6,
            "peak on the device MB": most[method][1] / 1e6 if kind == "cuda" else None,
        }
        for method in METHODS
    ]
    speeds = ", ".join(f"{row['method']} {row['images per second']:,.0f}" for row in rows)
    report(__file__, CLAIM, rows, f"Images per second with {past} past tasks: {speeds}.", given)


if __name__ == "__main__":
    main()
