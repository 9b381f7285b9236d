"""Avalanche's GEM, AGEM and Replay strategies and ours: the same network, data, order and memory, task by task in turn.

Both learn a whole task, from its beginning to what is done for the memory at its end: theirs is `strategy.train`, with
its data loading, without loggers and metrics; ours is `begin_task`, `observe` for each batch, and `end_task`. What is
timed is the last task, over its steps; who goes first changes from task to task and from seed to seed. The last row is
one step of GEM alone, with more past tasks, and of Avalanche the plugin's work without its loop. Milliseconds are
medians over the seeds, and so is the ratio: of the ratios, each within one seed. Accuracies are over all tasks at the
end, task known; p is of the paired t test, since both sides share a seed's network, images and order. Not called
avalanche.py, since that would stand in the way of what it imports.
"""

import random
import statistics
import warnings
from collections.abc import Sequence
from functools import partial
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
    seconds,
    steps,
)
from samc.engine import Batch
from samc.learners import LEARNERS, Learner
from samc.presets import preset_values
from samc.report.numbers import DASH
from samc.report.student import paired_p
from samc.streams import Task, split_synthetic

MARGIN = 0.5
NAMES = {"gem": "GEM", "agem": "A-GEM", "er": "Replay (our ER)"}
CLAIM = "On the same data and in the same memory our GEM is faster than Avalanche's; accuracies are level."
PER_CLASS, TASKS, SEEDS = 50, 5, 10
QUICK_TASKS, QUICK_SEEDS = 2, 2


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
    """Ten images per task, in Avalanche's words and in ours; replay shares all of them out over what has come.

    A-GEM's sample is all of the memory: theirs takes an equal number of each past task, of four in the last one.
    """
    if name == "gem":
        return {"patterns_per_exp": BATCH, "memory_strength": MARGIN}, {"buffer_size": BATCH, "memory_strength": MARGIN}
    if name == "agem":
        return {"patterns_per_exp": BATCH, "sample_size": BATCH * (tasks - 1)}, {"buffer_size": BATCH}
    return {"mem_size": BATCH * tasks}, {"memory_bytes": str(BATCH * tasks * (3 * SIDE * SIDE + 1))}


def side_by_side(name: str, seed: int, device: torch.device, quick: bool) -> dict[str, list[float]]:
    """Of both: accuracy in the end, and seconds of a step in the last task."""
    from avalanche_side import WithHeads, as_batches, benchmark_of, strategy_of  # noqa: PLC0415  (they need Avalanche)

    stream = split_synthetic(seed, train_per_class=4 if quick else PER_CLASS, n_tasks=QUICK_TASKS if quick else TASKS)
    theirs, ours = memory_of(name, len(stream))
    lr = preset_values("embedded", stream.name, name)["lr"]
    made = LEARNERS[name](stream.num_classes, stream.image_shape, task_classes=stream.task_classes, lr=lr, seed=seed,
                          device=device, **ours)  # fmt: skip
    torch.manual_seed(seed)
    random.seed(seed)  # by which AGEM chooses what it keeps
    strategy = strategy_of(name, WithHeads(made).to(device), lr, BATCH, device=device, **theirs)
    benchmark = benchmark_of(as_batches(stream, BATCH))
    for task, experience in zip(stream, benchmark.train_stream, strict=True):
        sides = [partial(learn_theirs, strategy, experience), partial(learn_ours, made, task)]
        order = (0, 1) if (task.id + seed) % 2 else (1, 0)
        spent = {side: seconds(sides[side], device, 1) for side in order}
    count = task.steps(BATCH)
    return {"seconds": [spent[side] / count for side in (0, 1)], "accuracy": accuracies(stream, strategy.model, made)}


def learn_theirs(strategy: Any, experience: Any) -> None:
    with as_torch_comes(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strategy.train(experience, shuffle=False)


def learn_ours(made: Learner, task: Task) -> None:
    made.begin_task(task)
    for x, y in task.batches(BATCH):
        made.observe(x, y, task.id)
    made.end_task(task)


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
    seeds = range(QUICK_SEEDS if given.quick else SEEDS)
    found = [side_by_side(name, seed, given.device, given.quick) for seed in seeds]
    theirs, ours = zip(*(run["accuracy"] for run in found), strict=True)
    slow, fast = zip(*(run["seconds"] for run in found), strict=True)
    ratios = [one / other for one, other in zip(slow, fast, strict=True)]
    p = paired_p([one - other for one, other in zip(theirs, ours, strict=True)])
    return {
        "method": NAMES[name],
        "past tasks": (QUICK_TASKS if given.quick else TASKS) - 1,
        "avalanche ms": 1000 * statistics.median(slow),
        "ours ms": 1000 * statistics.median(fast),
        "avalanche / ours": statistics.median(ratios),
        "by seed": by_seed(ratios, 2),
        "ACC % avalanche": spread(theirs),
        "avalanche by seed": by_seed(theirs, 1),
        "ACC % ours": spread(ours),
        "ours by seed": by_seed(ours, 1),
        "p": DASH if p is None else f"{p:.2f}",
    }


def spread(values: tuple[float, ...]) -> str:
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}"


def by_seed(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


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
        **dict.fromkeys(("by seed", "ACC % avalanche", "avalanche by seed", "ACC % ours", "ours by seed"), DASH),
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
    apart = ", ".join(f"{row['method']} {row['p']}" for row in rows[:-1])
    found = (
        f"Avalanche {avalanche.__version__} takes {whole['avalanche / ours']:.2f} times as long as we do for a task of "
        f"GEM with {whole['past tasks']} past ones (by seed {whole['by seed']}), and "
        f"{step['avalanche / ours']:.2f} times for a step with {step['past tasks']}, its loop left out; "
        f"{BATCH} images remembered of each. p that accuracies are the same: {apart}."
    )
    report(__file__, CLAIM, rows, found, given)


if __name__ == "__main__":
    main()
