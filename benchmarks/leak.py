"""Whether memory grows while SAMC learns: what is held before and after 3,000 steps, once everything has been seen.

A few tasks come again and again, so that memories are full before it counts. How many images they hold still varies a
little, and with it the memory that gradients take; so both ends are medians over a few turns.
"""

import gc
import statistics
from collections.abc import Iterator
from itertools import count, islice

import torch

from common import CLASSES, batch, options, process_bytes, report, synchronise, task_classes
from samc.learners.samc import SAMC
from samc.streams import Task

TASKS, SIDE, IMAGES = 5, 16, 200
# images: of each task, so twenty steps of ten
MEMORY = 3
# whole images' worth per task
TURN = TASKS * IMAGES // 10
WARM, STEPS = 3 * TURN, 30 * TURN
ENDS = 5
ALLOWED = 0.02
CLAIM = "Memory does not grow while SAMC learns."


def tasks() -> list[Task]:
    """Random images; nobody tests them."""
    made = []
    for task, classes in enumerate(task_classes(TASKS)):
        x, y = batch(task, 0, IMAGES, SIDE)
        made.append(Task.from_arrays(x, y, id=task, classes=classes))
    return made


def endless(learner: SAMC) -> Iterator[None]:
    """One step each, through all tasks and from the start again."""
    stream = tasks()
    for number in count():
        task = stream[number % len(stream)]
        learner.begin_task(task)
        for x, y in task.batches(10):
            learner.observe(x, y, task.id)
            yield
        learner.end_task(task)


def held(device: torch.device) -> dict[str, int]:
    gc.collect()
    synchronise(device)
    found = {"resident": process_bytes("VmRSS")}
    return found | ({"device": torch.cuda.memory_allocated()} if device.type == "cuda" else {})


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    warm, steps, turn, ends = (4, 6, 3, 1) if given.quick else (WARM, STEPS, TURN, ENDS)
    shape = (3, SIDE, SIDE)
    settings = {"preset": "paper", "buffer_size": MEMORY, "autoencoder_steps": 5, "lr": 0.01}  # all that SAMC can do
    learner = SAMC(CLASSES * TASKS, shape, device=given.device, **settings)
    going = endless(learner)
    for _ in islice(going, warm):
        pass
    found = [held(given.device)]
    for number, _ in enumerate(islice(going, steps), 1):
        if number % turn == 0:
            found.append(held(given.device))
    before, after = (
        {name: statistics.median(bytes_held[name] for bytes_held in end) for name in found[0]}
        for end in (found[:ends], found[-ends:])
    )
    rows = [
        {
            "memory": name,
            "steps": steps,
            "before MB": before[name] / 1e6,
            "after MB": after[name] / 1e6,
            "after / before": after[name] / before[name],
        }
        for name in before
    ]
    grown = {row["memory"]: row["after / before"] - 1 for row in rows}
    shares = ", ".join(f"{name} {share:+.2%}" for name, share in grown.items())
    report(__file__, CLAIM, rows, f"After {steps} steps: {shares}; {ALLOWED:.0%} is allowed.", given)
    if not given.quick and max(grown.values()) > ALLOWED:
        raise SystemExit(f"memory grew by more than {ALLOWED:.0%}")


if __name__ == "__main__":
    main()
