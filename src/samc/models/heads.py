"""Heads: one linear layer of all classes, of which a task sees its own, or all see every class; it grows with them."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from samc.errors import ConfigError
from samc.models.start import seeded
from samc.streams.pixels import MOST_CLASSES

ONE = 0
# the number of a shared head


class Heads(nn.Module):
    """Which classes a task chooses between, and the logits of those classes.

    `num_classes` fixes how many classes there are; with None there are as many as have been assigned. Each task has a
    head of its own; or, with `shared`, all have one, which chooses between the classes that have been seen so far.
    """

    def __init__(self, width: int, num_classes: int | None, seed: int = 0, *, shared: bool = False):
        super().__init__()
        self.width, self.seed, self.shared = width, seed, shared
        self.grows = num_classes is None
        self.build(num_classes or 0)
        self.task_classes: dict[int, tuple[int, ...]] = {}
        self.seen: tuple[int, ...] = ()  # what a shared head chooses between
        self.version = 0
        # of everything above: who has recorded a computation on the heads must record it again when this has changed
        self.table: tuple[Tensor, Tensor] | None = None  # both are made from the heads' classes, where they are needed
        self.ordered: dict[int, Tensor] = {}

    def build(self, count: int) -> None:
        """The parameters of so many classes, drawn as torch does."""
        self.linear = linear(self.width, count)

    @property
    def num_classes(self) -> int:
        return len(self.linear.weight)

    def check(self, task: int, classes: Sequence[int]) -> None:
        """Refuse classes that a task cannot choose between here."""
        if not classes:
            raise ConfigError(f"task {task} has no class; name those that it chooses between")
        if min(classes) < 0:
            raise ConfigError(f"classes are whole numbers from 0; task {task} has {min(classes)}")
        if max(classes) >= MOST_CLASSES:
            raise ConfigError(f"task {task} has class {max(classes)}; number them 0, 1, 2, ... below {MOST_CLASSES:,}")
        if max(classes) >= self.num_classes and not self.grows:
            raise ConfigError(
                f"task {task} has classes {tuple(classes)}, the network only 0 to {self.num_classes - 1}; make it with "
                f"num_classes={max(classes) + 1}, or without num_classes, and heads grow"
            )

    def assign(self, task: int, classes: Sequence[int]) -> None:
        """Say which classes a task chooses between."""
        self.check(task, classes)
        self.fit(max(classes) + 1)
        known = tuple(sorted(set(classes)))
        if self.task_classes.get(task) != known:
            self.task_classes[task] = known
            if not self.shared:
                self.changed(task)

    def see(self, classes: Sequence[int]) -> None:
        """From now on a shared head chooses between these classes too."""
        known = tuple(sorted({*self.seen, *classes}))
        if self.shared and known != self.seen:
            self.seen = known
            self.changed()

    @property
    def choices(self) -> dict[int, tuple[int, ...]]:
        """Each head's classes, in ascending order."""
        return {ONE: self.seen} if self.shared else self.task_classes

    def head_of(self, task: int) -> int:
        """The number of a task's head."""
        return ONE if self.shared else task

    def changed(self, *tasks: int) -> None:
        self.table, self.version = None, self.version + 1
        for task in tasks or tuple(self.ordered):
            self.ordered.pop(task, None)

    def fit(self, count: int) -> None:
        """Have room for so many classes, if heads grow."""
        if self.grows and count > self.num_classes:
            self.grow(count)

    @torch.no_grad()
    def grow(self, count: int) -> None:
        """More classes: old ones keep their parameters; new ones depend on the seed and on how many there were."""
        before = self.num_classes
        with seeded(self.seed + before):
            new = linear(self.width, count - before).to(self.linear.weight)
        self.linear.weight = nn.Parameter(torch.cat([self.linear.weight, new.weight]))
        self.linear.bias = nn.Parameter(torch.cat([self.linear.bias, new.bias]))
        self.linear.out_features = count
        self.changed()

    @torch.no_grad()
    def shrink(self, count: int) -> None:
        """Only the first classes: for a copy of an older state."""
        self.linear.weight = nn.Parameter(self.linear.weight[:count], self.linear.weight.requires_grad)
        self.linear.bias = nn.Parameter(self.linear.bias[:count], self.linear.bias.requires_grad)
        self.linear.out_features = count
        self.changed()

    def forward(self, pooled: Float[Tensor, "b d"], task: int) -> Float[Tensor, "b k"]:
        """Logits of the task's classes, in ascending order of class."""
        columns = self.columns(task)
        return F.linear(pooled, self.linear.weight[columns], self.linear.bias[columns])

    def columns(self, task: int) -> slice | Int64[Tensor, "k"]:
        """Where a task's classes are among all: neighbours as a slice, whose gradient is a copy, no scattered sum."""
        classes = self.choices[self.head_of(task)]
        if classes == tuple(range(classes[0], classes[-1] + 1)):
            return slice(classes[0], classes[-1] + 1)
        return self.in_order(task, self.linear.weight.device)

    def in_order(self, task: int, device: torch.device) -> Int64[Tensor, "k"]:
        """A task's classes on a device: sent there once, since nothing may be sent while a graph is recorded."""
        head = self.head_of(task)
        if head not in self.ordered or self.ordered[head].device != device:
            self.ordered[head] = torch.tensor(self.choices[head], device=device)
        return self.ordered[head]

    def positions(self, y: Int64[Tensor, "b"], task: int) -> Int64[Tensor, "b"]:
        """Labels of the stream as positions in the task's logits."""
        return torch.searchsorted(self.in_order(task, y.device), y)

    def masks(self, tasks: Int64[Tensor, "b"]) -> Bool[Tensor, "b n"]:
        """Which of all classes each image chooses between, by its task."""
        if self.table is None or self.table[0].device != tasks.device:
            numbers = sorted(self.choices)
            table = torch.zeros(len(numbers), self.num_classes, dtype=torch.bool)
            for row, head in zip(table, numbers, strict=True):
                row[list(self.choices[head])] = True
            self.table = torch.tensor(numbers).to(tasks.device), table.to(tasks.device)
        known, table = self.table
        return table[torch.zeros_like(tasks) if self.shared else torch.searchsorted(known, tasks)]

    def get_extra_state(self) -> dict:
        return {"task_classes": self.task_classes} | ({"seen": self.seen} if self.shared else {})

    def set_extra_state(self, state: dict) -> None:
        self.task_classes, self.seen = dict(state["task_classes"]), tuple(state.get("seen", ()))
        self.changed()


def linear(width: int, count: int) -> nn.Linear:
    """torch's own layer; one of no class at all is not drawn, torch would warn."""
    if count:
        return nn.Linear(width, count)
    empty = nn.Linear(width, 1)
    empty.weight, empty.bias = nn.Parameter(empty.weight[:0].detach()), nn.Parameter(empty.bias[:0].detach())
    return empty
