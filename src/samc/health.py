"""Whether learning goes anywhere: losses and parameters that are no numbers any more, and tasks that stay at chance."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from samc.engine.deferred import to_host_async
from samc.errors import DivergenceError
from samc.streams.base import Task

STEPS = 50
# whose losses are looked at together on a GPU, when as many more have been given it: the host never waits for one
LARGE_RATE = 0.1
# a step size above which there is no point in trying
SURE = 0.05
# a task is learnt if a guess would be as often right in less than this share of all tests


class LossMonitor:
    """Sees every step's loss and stops a run that has diverged; tells where, and what to do about it.

    On a GPU losses are looked at some steps late, `every` so many at once, so that it never waits; else at each step.
    Tasks and steps are counted from 1, as the bar counts them.
    """

    def __init__(self, learner: Any, every: int | None = None):
        self.learner, self.lr = learner, rate_of(learner)
        on_gpu = getattr(learner, "device", torch.device("cpu")).type == "cuda"
        self.every = every or (STEPS if on_gpu else 1)
        self.losses: list[Tensor] = []
        self.sent: tuple[int, Any] | None = None  # the first step, and the losses that are on their way to the host
        self.task, self.number = 0, 0

    def step(self, task: int, loss: Tensor) -> None:
        self.task, self.number = task, self.number + 1
        self.losses.append(loss.detach())
        if len(self.losses) >= self.every:
            self.look()
            self.send()
            if self.every == 1:
                self.look()

    def end_task(self, task: int) -> None:
        """All that is left, and whether the network that will be tested is one."""
        self.look()
        self.send()
        self.look()
        if not finite(self.networks()):
            raise DivergenceError(f"the network's parameters are not finite after task {task}; {self.remedy()}")
        self.number = 0

    def send(self) -> None:
        if self.losses:
            self.sent = self.number - len(self.losses), to_host_async(torch.stack(self.losses))
            self.losses = []

    def look(self) -> None:
        """At what has been sent before."""
        if self.sent is None:
            return
        (first, losses), self.sent = (self.sent[0], self.sent[1]()), None
        wrong = np.flatnonzero(~np.isfinite(losses))
        if len(wrong):
            place = f"step {first + int(wrong[0]) + 1} of task {self.task}"
            raise DivergenceError(f"the loss is {losses[wrong[0]]} at {place}; {self.remedy()}")

    def networks(self) -> Iterable[Tensor]:
        """The numbers of the network, and of its average if that answers."""
        average = getattr(self.learner, "average", None)
        for network in (getattr(self.learner, "model", None), getattr(average, "model", None)):
            if isinstance(network, torch.nn.Module):
                yield from (*network.parameters(), *network.buffers())

    def remedy(self) -> str:
        if self.lr is None:
            return "learning has diverged; take smaller steps"
        smaller = min(LARGE_RATE, self.lr / 10)
        return f"learning has diverged with lr {self.lr:g}; take a smaller one, such as --lr {smaller:.1g}"


def rate_of(learner: Any) -> float | None:
    """A learner's step size, if it tells."""
    return getattr(getattr(learner, "settings", None), "lr", None)


def finite(tensors: Iterable[Tensor]) -> bool:
    """Whether they hold nothing else than numbers; the host waits for the device once."""
    found = [tensor.detach().isfinite().all() for tensor in tensors if tensor.is_floating_point()]
    return not found or bool(torch.stack(found).all())


def at_chance(accuracy: float, tested: int, guess: float) -> bool:
    """Whether a guess that is right with this probability does as well, by a one-sided binomial test.

    False where the test cannot tell: of too few images a guess may have all right.
    """
    return guess**tested < SURE and binomial_tail(round(accuracy * tested), tested, guess) >= SURE


def binomial_tail(right: int, tested: int, guess: float) -> float:
    """The probability that at least so many of the tested are guessed right."""
    if guess >= 1 or right <= 0:
        return 1.0
    if right > tested:
        return 0.0
    if right <= tested * guess:
        return 1 - binomial_tail(tested - right + 1, tested, 1 - guess)
    log = (
        math.lgamma(tested + 1) - math.lgamma(right + 1) - math.lgamma(tested - right + 1)
        + right * math.log(guess) + (tested - right) * math.log1p(-guess)
    )  # fmt: skip
    term, total = math.exp(log), 0.0
    while term > total * sys.float_info.epsilon:  # beyond the mean each is smaller than the one before
        total += term
        term *= (tested - right) / (right + 1) * guess / (1 - guess)
        right += 1
    return total


class ChanceWatch:
    """Collects the tasks that have been learnt no better than a guess would do."""

    def __init__(self, learner: Any):
        self.lr = rate_of(learner)
        self.found: list[tuple[int, float, float]] = []

    def tested(self, task: Task, accuracy: float, count: int) -> None:
        """How well a task that has just been learnt is known, by so many test images."""
        guess = constant_guess(task)
        if at_chance(accuracy, count, guess):
            self.found.append((task.id, accuracy, guess))

    def notes(self) -> list[str]:
        """One line on all of them, or none."""
        if not self.found:
            return []
        tasks, accuracies, guesses = zip(*self.found, strict=True)
        which = ("task " if len(tasks) == 1 else "tasks ") + ", ".join(map(str, tasks))
        steps = "" if self.lr is None else f" with lr {self.lr:g}"
        right, guessed = (in_percent(shares) for shares in (accuracies, guesses))
        remedy = "try another --lr, more images or more epochs"
        return [f"not learnt{steps}: {which}; {right} of its test images right, where a guess has {guessed}; {remedy}"]


def in_percent(shares: Sequence[float]) -> str:
    low, high = (f"{100 * share:.1f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def constant_guess(task: Task) -> float:
    """How often the best guess is right that is the same for all test images; a blind one is right no more often."""
    counts = Counter(task.test_y.tolist()) if task.has_test else Counter()  # to read a loader again may take long
    return max(1 / len(task.classes), max(counts.values(), default=0) / max(1, counts.total()))
