"""Avalanche's GEM, AGEM and Replay strategies and ours: the same network, data, order and memory, task by task in turn.

Theirs is a whole training loop, with its data loading, without loggers and metrics; ours is `observe`. The last row is
one step of GEM alone, with more past tasks, and of Avalanche the plugin's work without its loop. Accuracies are over
all tasks at the end, task known; p is Welch's. Not called avalanche.py, since that would stand in the way of what it
imports.
"""

import statistics
import time
import warnings
from types import SimpleNamespace
from typing import Any

import torch

from avalanche_import import import_avalanche
from common import (
    BATCH,
    LR,
    SIDE,
    Row,
    as_torch_comes,
    dense,
    learner,
    network,
    options,
    report,
    rounds,
    steps,
    synchronise,
)
from samc.config import preset_values
from samc.engine import Batch
from samc.learners import LEARNERS
from samc.report.numbers import DASH
from samc.report.student import welch_p
from samc.streams import split_synthetic

MARGIN = 0.5
NAMES = {"gem": "GEM", "agem": "A-GEM", "er": "Replay (our ER)"}
CLAIM = "On the same data and in the same memory our GEM is faster than Avalanche's, and as accurate."
PER_CLASS, SEEDS = 50, 3


class OneHead(torch.nn.Module):
    """The network with all classes in one head, as a plugin that knows no tasks wants it."""

    def __init__(self, tasks: int, device: torch.device):
        super().__init__()
        self.inner = network(tasks, device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner.heads.linear(self.inner.pooled(self.inner.features(x)))


class Avalanche:
    """What a strategy of Avalanche is to a plugin, and its step."""

    def __init__(self, plugin: Any, memories: list[Batch]):
        past, device = len(memories), memories[0].x.device
        model = OneHead(past + 1, device).train()
        self.strategy = SimpleNamespace(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=LR),
            device=device,
            _criterion=torch.nn.CrossEntropyLoss(),
            clock=SimpleNamespace(train_exp_counter=past),
        )
        self.plugin = plugin
        for memory in memories:
            plugin.memory_x[memory.task], plugin.memory_y[memory.task] = memory.x, memory.y
            plugin.memory_tid[memory.task] = torch.full_like(memory.y, memory.task)

    def observe(self, x: torch.Tensor, y: torch.Tensor, task: int) -> None:
        with as_torch_comes():
            strategy = self.strategy
            x, y = x.to(strategy.device).float() / 255, y.to(strategy.device)
            self.plugin.before_training_iteration(strategy)
            strategy.optimizer.zero_grad()
            strategy._criterion(strategy.model(x), y).backward()
            self.plugin.after_backward(strategy)
            strategy.optimizer.step()


def memory_of(name: str, tasks: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ten images per task, in Avalanche's words and in ours; replay shares all of them out over what has come."""
    if name == "gem":
        return {"patterns_per_exp": BATCH, "memory_strength": MARGIN}, {"buffer_size": BATCH, "memory_strength": MARGIN}
    if name == "agem":
        return {"patterns_per_exp": BATCH, "sample_size": BATCH * tasks}, {"buffer_size": BATCH}
    return {"mem_size": BATCH * tasks}, {"memory_bytes": str(BATCH * tasks * (3 * SIDE * SIDE + 1))}


def side_by_side(name: str, seed: int, device: torch.device, quick: bool) -> dict[str, list[float]]:
    """Of both: accuracy in the end, and seconds of a step in the last task."""
    from avalanche_side import WithHeads, as_batches, benchmark_of, strategy_of  # noqa: PLC0415  (they need Avalanche)

    stream = split_synthetic(seed, train_per_class=4 if quick else PER_CLASS, n_tasks=2 if quick else None)
    theirs, ours = memory_of(name, len(stream))
    lr = preset_values("embedded", stream.name, name)["lr"]
    made = LEARNERS[name](stream.num_classes, stream.image_shape, task_classes=stream.task_classes, lr=lr, seed=seed,
                          device=device, **ours)  # fmt: skip
    torch.manual_seed(seed)
    strategy = strategy_of(name, WithHeads(made).to(device), lr, BATCH, device=device, **theirs)
    benchmark = benchmark_of(as_batches(stream, BATCH))
    for task, experience in zip(stream, benchmark.train_stream, strict=True):
        seconds = []
        synchronise(device)
        start = time.perf_counter()
        with as_torch_comes(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            strategy.train(experience, shuffle=False)
        synchronise(device)
        seconds.append(time.perf_counter() - start)
        made.begin_task(task)
        start = time.perf_counter()
        for x, y in task.batches(BATCH):
            made.observe(x, y, task.id)
        synchronise(device)
        seconds.append(time.perf_counter() - start)
        made.end_task(task)
    count = task.steps(BATCH)
    return {"seconds": [spent / count for spent in seconds], "accuracy": accuracies(stream, strategy.model, made)}


@torch.no_grad()
def accuracies(stream: Any, model: torch.nn.Module, made: Any) -> list[float]:
    """Over all tasks, in percent: Avalanche's model, and ours."""
    model.eval()
    theirs, ours = [], []
    for task in stream:
        x, y = task.test_x.to(made.device), task.test_y.to(made.device)
        answers = model(x.float() / 255, torch.full_like(y, task.id)).argmax(1)
        theirs.append((answers == y).float().mean().item())
        ours.append((made.predict(x, task.id) == y).float().mean().item())
    return [100 * statistics.fmean(values) for values in (theirs, ours)]


def row_of(name: str, given: Any) -> Row:
    found = [side_by_side(name, seed, given.device, given.quick) for seed in range(2 if given.quick else SEEDS)]
    theirs, ours = zip(*(run["accuracy"] for run in found), strict=True)
    slow, fast = zip(*(run["seconds"] for run in found), strict=True)
    p = welch_p(theirs, ours)
    return {
        "method": NAMES[name],
        "past tasks": (2 if given.quick else 5) - 1,
        "avalanche ms": 1000 * statistics.median(slow),
        "ours ms": 1000 * statistics.median(fast),
        "avalanche / ours": statistics.median(one / other for one, other in zip(slow, fast, strict=True)),
        "ACC % avalanche": spread(theirs),
        "ACC % ours": spread(ours),
        "p": DASH if p is None else f"{p:.2f}",
    }


def spread(values: tuple[float, ...]) -> str:
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}"


def step_row(given: Any) -> Row:
    """One step of GEM with a full memory of many past tasks, without Avalanche's loop."""
    from avalanche.training.plugins import GEMPlugin  # noqa: PLC0415

    past, side = (2, 16) if given.quick else (19 if given.device.type == "cuda" else 10, SIDE)
    theirs = Avalanche(GEMPlugin(BATCH, MARGIN), [dense(task, 0, given.device, BATCH, side) for task in range(past)])
    ours = learner("gem", past, given.device, side)
    cases = {"avalanche": steps(theirs.observe, past, side), "ours": steps(ours.observe, past, side)}
    spent = rounds(cases, given.device, given.quick)
    return {
        "method": "GEM, one step",
        "past tasks": past,
        "avalanche ms": 1000 * spent["avalanche"],
        "ours ms": 1000 * spent["ours"],
        "avalanche / ours": spent["avalanche"] / spent["ours"],
        "ACC % avalanche": DASH,
        "ACC % ours": DASH,
        "p": DASH,
    }


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    avalanche = import_avalanche()
    if avalanche is None:
        print("Avalanche is not installed, so nothing is compared with it: pip install 'samc[avalanche]'")
        return
    rows = [*(row_of(name, given) for name in NAMES), step_row(given)]
    whole, step = rows[0], rows[-1]
    ratios = [f"{row['avalanche / ours']:.2f} times with {row['past tasks']}" for row in (whole, step)]
    apart = ", ".join(row["p"] for row in rows[:-1])
    found = (
        f"A step of Avalanche {avalanche.__version__}'s GEM takes {ratios[0]} past tasks of {BATCH} images as long as "
        f"ours, its loop included, and {ratios[1]}, its loop left out; accuracies differ with p {apart}."
    )
    report(__file__, CLAIM, rows, found, given)


if __name__ == "__main__":
    main()
