"""What one online step costs, by method and by number of past tasks: ratios measured in one run."""

import statistics
import time

import torch
from rich.console import Console
from rich.table import Table

from samc.learners import LEARNERS
from samc.record import describe_device, versions

PAST_TASKS = (0, 1, 2, 5, 10)
METHODS = ("finetune", "er", "mer", "agem", "gem", "samc")
SHAPE, BATCH, REPEATS = (3, 32, 32), 10, 5


def batch(task: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (BATCH, *SHAPE), generator=random, dtype=torch.uint8)
    return x, torch.arange(BATCH) % 2 + 2 * task


def step_seconds(name: str, past: int) -> tuple[float, dict[str, float]]:
    """The median over repeats of one step with so many full memories, and the last steps' phases."""
    learner = LEARNERS[name](2 * max(PAST_TASKS) + 2, SHAPE)
    for task in range(past):
        for seed in range(8):  # enough to fill any memory
            learner.admit(*batch(task, seed), task)
            if hasattr(learner, "memory"):
                remember(learner, task, seed)
    for seed in range(2):
        learner.observe(*batch(past, 90 + seed), past)
    learner.clock.totals.clear()
    times = []
    for seed in range(REPEATS):
        start = time.perf_counter()
        learner.observe(*batch(past, seed), past)
        times.append(time.perf_counter() - start)
    return statistics.median(times), {k: v / REPEATS for k, v in learner.clock.seconds().items()}


def remember(learner, task: int, seed: int) -> None:
    """Fill a past task's memory without the cost of learning it; SAMC keeps its typical sixth of the pixels."""
    x, y = batch(task, seed)
    masks = torch.ones(BATCH, *SHAPE[1:], dtype=torch.bool)
    if hasattr(learner, "threshold"):
        masks[:] = False
        masks[:, 8:21, 8:21] = True
    learner.memory.add(task, x.numpy(), masks.numpy(), y.numpy())


def main() -> None:
    console = Console()
    table = Table(title=f"milliseconds a step, batch of {BATCH} at 32x32; in brackets, times finetune's")
    table.add_column("past tasks")
    for name in METHODS:
        table.add_column(name, justify="right")
    table.add_column("samc: saliency and encoding on top", justify="right")
    for past in PAST_TASKS:
        measured = {name: step_seconds(name, past) for name in METHODS}
        base = measured["finetune"][0]
        cells = [f"{1000 * seconds:.0f} ({seconds / base:.1f})" for seconds, _ in measured.values()]
        seconds, phases = measured["samc"]
        extra = sum(phases.get(phase, 0.0) for phase in ("saliency", "encoding", "completion"))
        table.add_row(str(past), *cells, f"{100 * extra / (seconds - extra):.1f} %")
    console.print(table)
    console.print(f"{describe_device(torch.device('cpu'))}, {versions()}", highlight=False)


if __name__ == "__main__":
    main()
