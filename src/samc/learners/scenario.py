"""The scenario: among which classes an image's loss and its answer run, and what a learner is told of tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from samc.errors import ConfigError

SCENARIOS = ("task", "class", "domain")
BOUNDARIES = ("told", "hidden")
UNTOLD = 0
# the number of the one task that there is where boundaries are hidden
Declared = tuple[int, Sequence[int]]
# a task's number and its classes


@dataclass(frozen=True)
class Scenario:
    """task: an image comes with its task, and its class is one of that task's (a head per task).

    class: it comes alone, and its class is one of all that have been seen (one head).
    domain: the same, where every task has the same classes, which are known from the start.
    Where boundaries are hidden, batches come without a task too: all that comes is one task that goes on.
    """

    name: str
    boundaries: str

    @cached_property
    def one_head(self) -> bool:
        return self.name != "task"

    @cached_property
    def told(self) -> bool:
        return self.boundaries == "told"

    @cached_property
    def open(self) -> bool:
        """Whether classes are known only once they have come."""
        return self.name == "class"

    @cached_property
    def holds_all(self) -> bool:
        """Whether an average holds the logits of every class: none can be told to be of an old task alone."""
        return self.name == "domain" or not self.told

    def check_observed(self, task: Any) -> None:
        """Refuse a batch that comes with a task, or without, where it is the other way round."""
        if self.told and task is None:
            remedy = "name it, or make the learner with scenario='class', boundaries='hidden'"
            raise ConfigError(f"observe needs the task that the images are of; {remedy}")
        if not self.told and task is not None:
            raise ConfigError("boundaries are hidden from this learner: observe takes images and labels, and no task")

    def check_asked(self, task: Any) -> None:
        if not self.one_head and task is None:
            remedy = "name it, or make the learner with scenario='class'"
            raise ConfigError(f"predict needs the task that the images are of; {remedy}")
        if self.one_head and task is not None:
            raise ConfigError(f"in scenario {self.name!r} an image comes without its task; leave the task out")

    def check_boundary(self) -> None:
        if not self.told:
            raise ConfigError("boundaries are hidden from this learner: no task begins or ends; call observe alone")

    def check_told(self, tasks: Sequence[Sequence[int]]) -> None:
        """Refuse what a constructor is told of tasks where nobody tells them; the classes of domains are one task's."""
        if not self.told and len(tasks) > (0 if self.open else 1):
            why = "task_classes says which classes each task has, which hidden boundaries do not tell"
            raise ConfigError(f"{why}; leave it out, num_classes says how many there are")

    def check_classes(self, task: int, classes: Iterable[int], others: Iterable[Sequence[int]]) -> None:
        """Refuse a task with other classes than those before it, where all have the same."""
        if self.name == "domain" and any(set(other) != set(classes) for other in others):
            remedy = "take a stream such as rotated-split-cifar10 or split-cifar100-domains, or scenario class"
            raise ConfigError(f"in scenario 'domain' every task has the same classes, task {task} has others; {remedy}")

    def declared(self, tasks: Iterable[Declared]) -> list[Declared]:
        """What a learner may know of tasks to come: numbers and classes, or, of hidden ones, no more than classes."""
        given = list(tasks)
        for number, classes in given:
            self.check_classes(number, classes, [given[0][1]])
        if self.told:
            return given
        return [] if self.open else [(UNTOLD, given[0][1])]

    def terms(self) -> dict[str, Any]:
        """What is not as it was before there were scenarios: records and states from then stay valid."""
        return {
            **({"scenario": self.name} if self.one_head else {}),
            **({} if self.told else {"boundaries": self.boundaries}),
        }
