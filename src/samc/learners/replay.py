"""Replay: what a step draws from memory, and how much that counts beside the batch."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from samc.engine import Batch, Engine, Held
from samc.learners.augmentation import augmented
from samc.learners.live import LiveMemory
from samc.learners.sampling import mixed, pick


def nothing() -> None:
    return None


@dataclass
class Replay:
    """Memories of past tasks, dense and on the device while a task lasts, and how a step uses them.

    augment   what is done to an image whenever it is drawn
    size      images that are drawn for a step; 0: as many as the batch has
    weight    loss = mean over the batch + weight·mean over the replay; 0: one mean over all images
    current   what there is of the current task's own memory, if that is replayed too
    held      the teacher that old heads are held to, if there is one
    """

    random: torch.Generator
    augment: str
    size: int = 0
    weight: float = 0.0
    current: Callable[[], LiveMemory | None] = nothing
    held: Callable[[], Held | None] = nothing
    past: list[Batch] = field(default_factory=list)
    pool: list[Batch] = field(default_factory=list)  # all of the past as one batch

    def prepare(self, past: list[Batch]) -> None:
        """From now on these are the memories of past tasks."""
        self.past, self.pool = past, [mixed(past)] if past else []

    def draw(self, beside: int) -> list[Batch]:
        """Images to learn together with a batch of so many: one batch of them, or none where nothing is remembered.

        A uniform sample without replacement of all that is remembered.
        """
        return self.located_draw(beside)[1]

    def located_draw(self, beside: int) -> tuple[list[int], list[Batch]]:
        """The same, and where its images are among all: first those of past tasks in order, then the current one's."""
        current, past = self.current(), sum(len(memory.y) for memory in self.pool)
        count = past + (len(current) if current else 0)
        if not count:
            return [], []
        rows = torch.randperm(count, generator=self.random)[: self.size or beside].sort().values
        old, new = rows[rows < past], rows[rows >= past] - past
        drawn = [pick(self.pool, old)] if len(old) else []
        drawn += [current.pick(new)] if current and len(new) else []
        return rows.tolist(), [self.augmented(mixed(drawn) if len(drawn) > 1 else drawn[0])]

    def memories(self) -> list[Batch]:
        """One batch per past task: all of its memory, or as many images of it as a step draws."""
        if not self.size:
            return [self.augmented(memory) for memory in self.past]
        rows = [torch.randperm(len(memory.y), generator=self.random)[: self.size] for memory in self.past]
        return [self.augmented(pick([memory], some)) for memory, some in zip(self.past, rows, strict=True)]

    def augmented(self, batch: Batch) -> Batch:
        return batch if self.augment == "none" else batch._replace(x=augmented(batch.x, self.augment, self.random))

    def gradients(
        self, engine: Engine, batch: Batch, memories: list[list[Batch]]
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, "k p"], Float[Tensor, ""]]:
        """The batch's own gradient, that of each memory, and the batch's loss; the batch alone holds old heads."""
        with engine.clock("gradients"):
            if (held := self.held()) is None:
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
