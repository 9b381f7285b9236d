"""Rehearsal: what methods share that replay past tasks, with a dense working set and an episodic memory behind it."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Integer, Shaped, UInt8
from torch import Tensor

from samc.errors import unknown
from samc.gradients import Batch
from samc.learners.base import NetworkLearner, StepStats
from samc.learners.later import Queue
from samc.memory import Accounting, EpisodicMemory, budget_of, parse, whole
from samc.streams.base import Task

TERMS = ("buffer_size", "memory_bytes", "accounting")
# the settings that say how much may be kept
KEEPS = ("newest", "sample")
# what a full memory holds of a task: its newest images, or a uniform sample of all


class ReplayLearner(NetworkLearner):
    """Uses images of past tasks in every step. A method says which (`recall`) and how (`replay_rule`)."""

    def __init__(self, num_classes: int, image_shape: tuple[int, int, int], **network: Any):
        super().__init__(num_classes, image_shape, **network)
        self.working_set: list[Batch] | None = None
        self.working_set_bytes = 0

    def start(self, task: int) -> None:
        super().start(task)
        self.working_set = None

    def end_task(self, task: Task) -> None:
        super().end_task(task)
        self.working_set = None  # what completes memories may have changed, and dense images need not lie about

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        g, loss = self.replayed_gradient(Batch(*self.admit(x, y, task), task))
        self.step(g)
        self.remember(x, y, task)
        return StepStats(loss)

    def past(self) -> list[Batch]:
        """The memories of all other tasks, dense and on the device; made once a task."""
        if self.working_set is None:
            self.working_set = self.recall()
            self.working_set_bytes = sum(memory.x.nbytes + memory.y.nbytes for memory in self.working_set)
        return self.working_set

    def recall(self) -> list[Batch]:
        raise TypeError(f"{type(self).__name__} does not say what it replays: define recall")

    def remember(self, x: Tensor, y: Tensor, task: int) -> None:
        """Keep something of a batch, as it came, after its step; nothing, unless a method says so."""

    def replayed_gradient(self, batch: Batch) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        """The batch's gradient, changed so that past tasks are heard; and the batch's loss."""
        if memories := self.past():
            return self.replay_rule(batch, memories)
        with self.clock("current gradient"):
            return self.engine.gradient([batch])

    def replay_rule(self, batch: Batch, memories: list[Batch]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        raise TypeError(f"{type(self).__name__} does not say how it replays: define replay_rule")

    def sample(self, memories: list[Batch], size: int) -> list[Batch]:
        """A uniform sample without replacement over all remembered images, sorted by task."""
        count = sum(len(memory.y) for memory in memories)
        return chosen(memories, torch.randperm(count, generator=self.random)[:size])

    def memory_report(self) -> dict[str, Any]:
        return super().memory_report() | {"working_set_bytes": self.working_set_bytes}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"working_set_bytes": self.working_set_bytes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.working_set_bytes = state["working_set_bytes"]
        self.working_set = None  # made anew from what is kept, bit for bit the same


class RehearsalLearner(ReplayLearner):
    """Replays images from an episodic memory; keeps each batch whole after its step, unless a method chooses."""

    settings = (*NetworkLearner.settings, *TERMS, "codec", "keeps")
    default_codec = "raw"
    default_keeps = "newest"

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        budget_images: int = 10,
        memory_bytes: str | None = None,
        accounting: Accounting = "bytes",
        codec: str | None = None,
        keeps: str | None = None,
        **network: Any,
    ):
        super().__init__(num_classes, image_shape, **network)
        if keeps not in (None, *KEEPS):
            raise unknown("choice of kept images", keeps, KEEPS)
        self.budget_images = budget_images if memory_bytes is None else None
        budget = budget_of(image_shape, num_classes, budget_images, accounting, memory_bytes)
        reservoir = self.random if (keeps or self.default_keeps) == "sample" else None
        how = parse(codec or self.default_codec, image_shape)
        self.store = EpisodicMemory(how, num_classes, budget, accounting, reservoir)
        self.soon = Queue(lag=1 if self.device.type == "cuda" else 0)

    @property
    def memory(self) -> EpisodicMemory:
        """The episodic memory; what is still on its way into it arrives first."""
        self.soon.settle()
        return self.store

    def start(self, task: int) -> None:
        super().start(task)
        self.memory.shelf(task)  # a common budget is shared out before anything is chosen for it

    def recall(self) -> list[Batch]:
        found = []
        for task in self.memory.tasks:
            if task != self.current_task:
                images, masks, labels = self.memory.recall(task)
                found.append(Batch(self.complete(images, masks), torch.from_numpy(labels).to(self.device), task))
        return found

    def complete(
        self, images: UInt8[np.ndarray, "n c h w"], masks: Bool[np.ndarray, "n h w"]
    ) -> Float[Tensor, "n c h w"]:
        """Remembered images as the network takes them."""
        return torch.from_numpy(images).to(self.device, memory_format=torch.channels_last).float() / 255

    def remember(self, x: Tensor, y: Tensor, task: int) -> None:
        """Offer a batch to the memory of its task, all of its pixels."""
        with self.clock.on_host("encoding"):
            self.memory.add(task, as_bytes(x), whole(len(y), *self.image_shape[1:]), as_array(y))

    def memory_parts(self) -> dict[str, int]:
        return self.memory.nbytes_by_part

    def memory_report(self) -> dict[str, Any]:
        images = self.memory.images_per_task
        return super().memory_report() | {
            "budget_images": self.budget_images,
            "budget_bytes": self.memory.budget_bytes,
            "codec": self.memory.codec.spec,
            "images_per_task": [images[task] for task in sorted(images)],
            "accounting": self.memory.accounting,
        }

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"memory": self.memory.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.memory.load_state_dict(state["memory"])  # may draw; what follows sets the random state
        super().load_state_dict(state)


def chosen(batches: list[Batch], rows: Int64[Tensor, "n"]) -> list[Batch]:
    """Some images of several batches, by their place in all of them together; batches without any are left out."""
    rows, found, first = rows.sort().values, [], 0
    for batch in batches:
        last = first + len(batch.y)
        mine = (rows[(rows >= first) & (rows < last)] - first).to(batch.y.device)
        if len(mine):
            found.append(Batch(batch.x[mine], batch.y[mine], batch.task))
        first = last
    return found


def as_bytes(x: Shaped[Tensor, "b c h w"]) -> UInt8[np.ndarray, "b c h w"]:
    """Images as the bytes that memory keeps: as they came, or rounded from [0, 1]."""
    x = x if x.dtype == torch.uint8 else (x * 255).round().to(torch.uint8)
    return x.cpu().numpy()


def as_array(y: Integer[Tensor, "b"]) -> Int64[np.ndarray, "b"]:
    return y.cpu().numpy().astype(np.int64)
