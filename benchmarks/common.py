"""What all benchmarks share: options, images, learners with full memories, timing in rounds, and results.

What a script compares runs interleaved in one process; medians are compared. A result is a small JSON file in
benchmarks/results, from which table.py makes its table.
"""

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

import torch
from torch import nn

from samc.device import choose
from samc.engine import Batch
from samc.files import write_whole
from samc.learners import LEARNERS, NetworkLearner
from samc.learners.inputs import as_labels
from samc.learners.rehearsal import RehearsalLearner
from samc.learners.samc import SAMC
from samc.machine import describe_device, versions
from samc.memory import full_selection
from samc.models import Classifier, Heads, ReducedResNet18, probe
from samc.models.start import seeded
from samc.record import RunRecord
from samc.report.numbers import DASH
from samc.report.tables import Column, Table, TableRow, markdown_grid

RESULTS = Path(__file__).parent / "results"
BATCH, SIDE, CLASSES = 10, 32, 5
# images per step, pixels per side, classes per task: those of Split CIFAR-100
LR = 0.01
Row = dict[str, Any]


def options(description: str | None, arguments: list[str] | None, *more: str) -> argparse.Namespace:
    """The options of every script; `more` names those with a value that only one has. `device` is made ready."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for trying; kept only with --results")
    parser.add_argument("--results", type=Path, help="folder for the JSON file")
    for name in more:
        parser.add_argument(name)
    found = parser.parse_args(arguments)
    found.device = choose(found.device)
    return found


def batch(task: int, seed: int, images: int = BATCH, side: int = SIDE) -> tuple[torch.Tensor, torch.Tensor]:
    """Random images of a task, uint8, and their labels."""
    random = torch.Generator().manual_seed(1000 * task + seed)
    x = torch.randint(0, 256, (images, 3, side, side), generator=random, dtype=torch.uint8)
    return x, torch.arange(images) % CLASSES + CLASSES * task


def dense(task: int, seed: int, device: torch.device, images: int = BATCH, side: int = SIDE) -> Batch:
    """The same as the network takes them."""
    x, y = batch(task, seed, images, side)
    return Batch(x.to(device).float() / 255, y.to(device), task)


def task_classes(tasks: int) -> list[range]:
    return [range(CLASSES * task, CLASSES * (task + 1)) for task in range(tasks)]


def network(
    tasks: int, device: torch.device, side: int = SIDE, backbone: Callable[[], nn.Module] = ReducedResNet18
) -> Classifier:
    """The network that a learner of so many tasks starts from, laid out as torch does."""
    with seeded(0):
        images_to_features = backbone()
        found = probe(images_to_features, (3, side, side))
        model = Classifier(images_to_features, Heads(found.width, CLASSES * tasks), found).to(device)
    for task, classes in enumerate(task_classes(tasks)):
        model.heads.assign(task, classes)
    return model


def learner(
    name: str, past: int, device: torch.device, side: int = SIDE, heads: int | None = None, **settings: Any
) -> NetworkLearner:
    """A method with so many past tasks and a full memory of each, without the cost of learning them.

    `heads` are the tasks that the network is made for; one more than are past, unless it is to be the same for several.
    """
    shape, classes = (3, side, side), task_classes(heads or past + 1)
    made = LEARNERS[name](CLASSES * len(classes), shape, task_classes=classes, lr=LR, device=device, **settings)
    made.begun_tasks = list(range(past))
    if isinstance(made, RehearsalLearner):
        for task in range(past):
            fill(made, task, side)
    return made


def fill(made: RehearsalLearner, task: int, side: int) -> None:
    """Give a task's memory random images until it holds no more: a batch, or, of parts of images, many."""
    random, held = torch.Generator().manual_seed(task), -1
    for seed in count():
        x, y = batch(task, seed, BATCH, side)
        kept = full_selection(BATCH, side, side)
        if isinstance(made, SAMC):
            # maps of noise keep about as many pixels as those of a network that has learnt: a sixth at 0.7
            maps = torch.randint(0, 256, (BATCH, *made.model.found.grid), generator=random, dtype=torch.uint8)
            kept, _ = made.select(maps.numpy())
        made.memory.add(task, made.as_bytes(x), kept, as_labels(y))
        before, held = held, made.memory.images_per_task[task]
        if held <= before or not isinstance(made, SAMC):
            return


def steps(observe: Callable[..., Any], task: int, side: int = SIDE) -> Callable[[], Any]:
    """One online step per call, each with other images than the last."""
    batches = cycle([batch(task, seed, BATCH, side) for seed in range(16)])
    return lambda: observe(*next(batches), task)


def rounds(cases: Mapping[str, Callable[[], Any]], device: torch.device, quick: bool) -> dict[str, float]:
    """Median seconds of a call of each case; a round calls all, every second one in reverse order."""
    # several calls between two readings of a GPU's clock, since a training loop does not wait after each step either
    repetitions, calls = (2 if quick else 7), (3 if device.type == "cuda" and not quick else 1)
    for case in cases.values():
        for _ in range(4 if device.type == "cuda" else 1):  # kernels are compiled and graphs recorded before it counts
            case()
    spent: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(repetitions):
        for name in reversed(cases) if number % 2 else cases:
            spent[name].append(seconds(cases[name], device, calls))
    return {name: statistics.median(times) for name, times in spent.items()}


def seconds(function: Callable[[], Any], device: torch.device, calls: int) -> float:
    """Of one call on the mean over several; the device is idle before and after."""
    synchronise(device)
    start = time.perf_counter()
    for _ in range(calls):
        function()
    synchronise(device)
    return (time.perf_counter() - start) / calls


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


@contextmanager
def as_torch_comes() -> Iterator[None]:
    """Torch's own switches, under which public implementations run; ours are those of samc.device."""
    tf32, repeatable = torch.backends.cudnn.allow_tf32, torch.are_deterministic_algorithms_enabled()
    torch.backends.cudnn.allow_tf32 = True
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = tf32
        torch.use_deterministic_algorithms(repeatable)


def process_bytes(name: str) -> int:
    """What the system says of this process's memory: VmRSS is what is resident, VmHWM the most that ever was."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), flags=re.M)
    if found is None:
        raise SystemExit(f"this system does not say {name} in /proc/self/status")
    return 1024 * int(found[1])


def report(
    script: str, claim: str, rows: list[Row], found: str, options: argparse.Namespace, record: RunRecord | None = None
) -> None:
    """Print the rows and what they come to, and write both down; a quick try only where a folder is named.

    Machine and versions are those of the record that the rows are from, if there is one.
    """
    print(f"{claim}\n\n{markdown(rows)}\n\n{found}", flush=True)
    if options.quick and options.results is None:
        return
    device = record.device if record else describe_device(options.device)
    content = {"claim": claim, "found": found, "rows": rows, "device": device,
               "versions": record.versions if record else versions(), "threads": device.get("threads"),
               "quick": options.quick}  # fmt: skip
    where = "cpu" if device["type"] == "cpu" else re.sub(r"[^a-z0-9]+", "-", device["name"].lower()).strip("-")
    path = (options.results or RESULTS) / f"{Path(script).stem.replace('_', '-')}-{where}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode(), replace=True)


def markdown(rows: list[Row]) -> str:
    """A table whose columns are those of the first row; texts stand at the left."""
    columns = [
        Column(name, partial(cell, name), align="left" if isinstance(value, str) else "right")
        for name, value in rows[0].items()
    ]
    return markdown_grid(Table("", columns, [TableRow(row) for row in rows]))


def cell(name: str, row: Mapping[str, Any]) -> str:
    """Three digits of a small number, all but the fraction of a large one."""
    value = row[name]
    if value is None:
        return DASH
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
