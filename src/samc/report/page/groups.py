"""Runs in groups that may stand side by side: on equal terms but for the bytes, which are an axis of the page."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from samc.errors import printable
from samc.metrics import as_matrix
from samc.record import RunRecord
from samc.report.comparison import MethodRow, rows_of
from samc.report.curves import NAMES
from samc.report.found import Run
from samc.report.measures import Measure, percent
from samc.report.runs import BUDGET
from samc.report.spread import Spread

AXES = (*BUDGET, "accounting")
STREAMS = {
    "split-synthetic": "the embedded stream",
    "split-cifar10": "Split CIFAR-10",
    "split-cifar100": "Split CIFAR-100",
    "split-mini-imagenet": "Split mini-ImageNet",
}


@dataclass(frozen=True)
class Method:
    """One row of a group: a method's seeds; `colour` is its place among the page's colours."""

    name: str
    row: MethodRow
    colour: int
    runs: tuple[Run, ...]

    @property
    def records(self) -> tuple[RunRecord, ...]:
        return self.row.records

    @property
    def first(self) -> RunRecord:
        return self.row.records[0]

    def over_seeds(self, measure: Measure) -> Spread:
        return self.row.over_seeds(measure)

    @cached_property
    def matrices(self) -> np.ndarray:
        """Accuracies in percent: seeds, rows (the first untrained), tasks; NaN where a task was not tested yet."""
        return 100 * np.stack([as_matrix(record.accuracy_matrix) for record in self.records])

    @property
    def seeds(self) -> str:
        """All of them, or the first and the last of a row."""
        seeds = [record.config.get("seed") for record in self.records]
        first = seeds[0]
        if len(seeds) > 2 and first is not None and seeds == list(range(first, first + len(seeds))):
            return f"{first}–{seeds[-1]}"
        return ", ".join("–" if seed is None else str(seed) for seed in seeds)


@dataclass(frozen=True)
class Group:
    """Methods on one stream, the best first."""

    number: int
    title: str
    methods: tuple[Method, ...]

    @property
    def record(self) -> RunRecord:
        """One of its records, for what is the same in all."""
        return self.methods[0].first

    @property
    def stream(self) -> str:
        return self.record.fingerprint["stream"]

    @property
    def classes(self) -> list[list[int]]:
        return self.record.fingerprint["class_order"]

    def task_names(self, task: int) -> list[str]:
        """The classes of a task, by name."""
        return [printable(self.record.class_name(label)) for label in self.classes[task]]


def grouped(runs: Sequence[Run]) -> list[Group]:
    """Groups in the order of their first run."""
    families: dict[str, list[Run]] = {}
    for run in runs:
        terms = {name: value for name, value in run.record.fingerprint.items() if name not in AXES}
        families.setdefault(json.dumps(terms, sort_keys=True), []).append(run)
    return [group_of(number, family) for number, family in enumerate(families.values())]


def group_of(number: int, runs: Sequence[Run]) -> Group:
    by_record = {id(run.record): run for run in runs}
    methods = tuple(
        Method(display_name(row.method), row, place, tuple(by_record[id(record)] for record in row.records))
        for place, row in enumerate(rows_of([run.record for run in runs]))
    )
    terms = runs[0].record.fingerprint
    tasks = len(terms["class_order"])
    images = terms.get("training_images")
    count = f", {sum(images):,} training images" if images else ""
    stream = STREAMS.get(terms["stream"], printable(terms["stream"]))
    return Group(number, f"{stream}: {tasks} {'task' if tasks == 1 else 'tasks'}{count}", methods)


def display_name(method: str) -> str:
    """A row's name with its method as the field writes it, and what tells it from others after a comma."""
    model, _, rest = printable(method).partition(" ")
    written = NAMES.get(model, "SAMC" if model == "samc" else model)
    return f"{written}, {rest}" if rest else written


def acc(method: Method) -> Spread:
    return method.over_seeds(percent("acc"))
