"""Replay: what a step draws from memory, and how much that counts beside the batch."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from samc.engine import Batch, Engine, Held
from samc.learners.live import LiveMemory
from samc.learners.sampling import mixed


def nothing() -> None:
    return None


@dataclass
class Replay:
    """Memories of past tasks, dense and on the device while a task lasts, and how a step uses them.

    augmented   what is done to images whenever they are drawn
    size        images that are drawn for a step; 0: as many as the batch has
    weight      loss = mean over the batch + weight·mean over the replay; 0: one mean over all images
    alone       whether each image that is drawn goes through the network by itself
    current     what there is of the current task's own memory, if that is replayed too
    held        the teacher that old heads are held to, if there is one
    """

    random: torch.Generator
    augmented: Callable[[Batch], Batch]
    size: int = 0
    weight: float = 0.0
    alone: bool = False
    current: Callable[[], LiveMemory | None] = nothing
    held: Callable[[], Held | None] = nothing
    pool: list[Batch] = field(default_factory=list)  # all of the past as one batch
    past: list[Batch] = field(default_factory=list)  # the same by task: parts of that batch, no copies

    def prepare(self, past: list[Batch]) -> None:
        """From now on these are the memories of past tasks."""
        self.pool, self.past = [], []
        if past:
            pool, sizes = mixed(past), [len(memory.y) for memory in past]
            parts = zip(pool.x.split(sizes), pool.y.split(sizes), past, strict=True)
            self.pool, self.past = [pool], [Batch(x, y, memory.task) for x, y, memory in parts]

    @property
    def nbytes(self) -> int:
        return sum(memory.x.nbytes + memory.y.nbytes + memory.tasks.nbytes for memory in self.pool)

    def draw(self, beside: int) -> list[Batch]:
        """Images to learn together with a batch of so many: one batch of them, or none where nothing is remembered.

        A uniform sample without replacement of all that is remembered. Images that go through the network alone are
        batches of one, in random order.
        """
        drawn = self.located_draw(beside)[1]
        return [image for batch in drawn for image in self.singles(batch)] if self.alone else drawn

    def singles(self, batch: Batch) -> list[Batch]:
        shuffled = picked(batch, torch.randperm(len(batch.y), generator=self.random))
        images = zip(shuffled.x.split(1), shuffled.y.split(1), shuffled.tasks.split(1), strict=True)
        return [Batch(x, y, task) for x, y, task in images]

    def located_draw(self, beside: int) -> tuple[list[int], list[Batch]]:
        """The same, and where its images are among all: first those of past tasks in order, then the current one's."""
        current, past = self.current(), sum(len(memory.y) for memory in self.pool)
        count = past + (len(current) if current else 0)
        if not count:
            return [], []
        rows = torch.randperm(count, generator=self.random)[: self.size or beside].sort().values
        old, new = rows[rows < past], rows[rows >= past] - past
        drawn = [picked(memory, old) for memory in self.pool if len(old)]
        drawn += [current.pick(new)] if current and len(new) else []
        return rows.tolist(), [self.augmented(mixed(drawn) if len(drawn) > 1 else drawn[0])]

    def memories(self, most: float = math.inf) -> list[Batch]:
        """One batch per past task, of `most` tasks at most: all of its memory, or as many images as a step draws."""
        past = self.past
        if len(past) > most:
            chosen = torch.randperm(len(past), generator=self.random)[: int(most)].sort().values
            past = [past[place] for place in chosen.tolist()]
        if self.size:
            rows = [torch.randperm(len(memory.y), generator=self.random)[: self.size] for memory in past]
            past = [picked(memory, some.sort().values) for memory, some in zip(past, rows, strict=True)]
        return [self.augmented(memory) for memory in past]

    def gradients(
        self, engine: Engine, batch: Batch, memories: list[list[Batch]]
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, "k p"], Float[Tensor, ""]]:
        """The batch's own gradient, that of each memory, and the batch's loss; the batch alone holds old heads."""
        held = self.held()
        with engine.clock("gradients"):
            if held is None:
                rows, loss = engine.gradients(memories, batch)
                return rows[-1], rows[:-1], loss
            *others, last = memories
            rows, _ = engine.gradients(others, mixed(last))
            g, loss = engine.gradient([batch], held=held)
            return g, rows, loss

    def weights(self, batch: Batch, drawn: list[Batch]) -> Float[Tensor, "b"] | None:
        """Of each image of the batch and then of those drawn, in a mean over all of them."""
        replayed = sum(len(part.y) for part in drawn)
        if not self.weight or not replayed:
            return None
        count = len(batch.y) + replayed
        share = torch.full((count,), count / len(batch.y))
        share[len(batch.y) :] = self.weight * count / replayed
        return share


def picked(memory: Batch, rows: Int64[Tensor, "n"]) -> Batch:
    """Some images of a batch, by their place in it."""
    places = rows.to(memory.y.device)
    tasks = memory.task if isinstance(memory.task, int) else memory.task[places]
    return Batch(memory.x[places], memory.y[places], tasks)
