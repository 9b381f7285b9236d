"""Rehearsal: a learner with an episodic memory, a dense working set made of it, and a rule that replays that set."""

import math
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from samc.errors import ConfigError, unknown
from samc.gradients import Batch, gradient, reference_gradients
from samc.learners.base import NetworkLearner
from samc.memory import CODECS, EpisodicMemory
from samc.memory.buffer import Accounting
from samc.projection import RIDGE, project
from samc.streams.base import Task

Replay = Literal["gem", "agem", "er"]


class RehearsalLearner(NetworkLearner):
    """Keeps images of past tasks and uses them in every step.

    The replay rule says how: `gem` projects onto the cone of all past tasks' gradients, `agem` onto the half-space
    of one mixed sample's gradient, `er` averages over the batch and as large a sample of memory.
    """

    settings = (*NetworkLearner.settings, "buffer_size", "accounting", "replay", "memory_strength")

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        budget_images: int = 10,
        accounting: Accounting = "bytes",
        codec: str = "raw",
        replay: Replay = "gem",
        memory_strength: float = 0.5,
        seed: int = 0,
        **network: Any,
    ):
        super().__init__(num_classes, image_shape, seed=seed, **network)
        if replay not in get_args(Replay):
            raise unknown("replay rule", replay, get_args(Replay))
        if codec not in CODECS:
            raise unknown("codec", codec, CODECS)
        self.memory = EpisodicMemory(CODECS[codec](image_shape), num_classes, budget_images, accounting)
        self.replay: Replay = replay
        if not 0 <= memory_strength < math.inf:
            raise ConfigError(f"memory-strength is at least 0, got {memory_strength}; the paper uses 0.5")
        self.memory_strength = memory_strength
        self.random = torch.Generator().manual_seed(seed)
        self.working_set: list[Batch] | None = None
        self.working_set_bytes = 0

    def start(self, task: int) -> None:
        super().start(task)
        self.working_set = None

    def end_task(self, task: Task) -> None:
        super().end_task(task)
        self.working_set = None  # what completes memories may have changed, and dense images need not lie about

    def past(self) -> list[Batch]:
        """The memories of all other tasks, dense and on the device; made once a task."""
        if self.working_set is None:
            self.working_set = []
            for task in self.memory.tasks:
                if task != self.current_task:
                    images, masks, labels = self.memory.recall(task)
                    y = torch.from_numpy(labels).to(self.device)
                    self.working_set.append(Batch(self.complete(images, masks), y, task))
            self.working_set_bytes = sum(memory.x.nbytes + memory.y.nbytes for memory in self.working_set)
        return self.working_set

    def complete(
        self, images: UInt8[np.ndarray, "n c h w"], masks: Bool[np.ndarray, "n h w"]
    ) -> Float[Tensor, "n c h w"]:
        """Remembered images as the network takes them."""
        return torch.from_numpy(images).to(self.device, memory_format=torch.channels_last).float() / 255

    def replayed_gradient(self, batch: Batch) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        """The batch's gradient, changed so that past tasks are heard; and the batch's loss."""
        memories = self.past()
        if not memories:
            with self.clock("current gradient"):
                return gradient(self.model, [batch])
        if self.replay == "er":
            with self.clock("current gradient"):
                return gradient(self.model, [batch, *self.sample(memories, len(batch.y))])
        with self.clock("reference gradients"):
            if self.replay == "gem":
                references = reference_gradients(self.model, memories)
            else:
                references = gradient(self.model, self.sample(memories, len(batch.y)))[0][None]
        with self.clock("current gradient"):
            g, loss = gradient(self.model, [batch])
        with self.clock("projection"):
            # A-GEM's single constraint has no margin and needs no ridge
            margin, ridge = (self.memory_strength, RIDGE) if self.replay == "gem" else (0.0, 0.0)
            return project(g, references, margin, ridge), loss

    def sample(self, memories: list[Batch], size: int) -> list[Batch]:
        """A uniform sample without replacement over all remembered images, sorted by task."""
        offsets = np.cumsum([0, *(len(memory.y) for memory in memories)])
        drawn = torch.randperm(int(offsets[-1]), generator=self.random)[:size].sort().values
        chosen = []
        for memory, first, last in zip(memories, offsets, offsets[1:], strict=False):
            rows = drawn[(drawn >= first) & (drawn < last)] - first
            if len(rows):
                rows = rows.to(self.device)
                chosen.append(Batch(memory.x[rows], memory.y[rows], memory.task))
        return chosen

    def remember(self, batch: Batch, masks: Bool[Tensor, "b h w"]) -> None:
        """Put a batch's kept pixels into the memory of its task."""
        with self.clock("encoding"):
            self.memory.add(batch.task, as_bytes(batch.x), masks.cpu().numpy(), as_array(batch.y))

    def memory_report(self) -> dict[str, Any]:
        images = self.memory.images_per_task
        return super().memory_report() | {
            "budget_images": self.memory.budget_images,
            "budget_bytes": self.memory.budget_bytes,
            "bytes": self.memory.nbytes,
            "bytes_by_part": self.memory.nbytes_by_part,
            "images_per_task": [images[task] for task in sorted(images)],
            "accounting": self.memory.accounting,
            "working_set_bytes": self.working_set_bytes,
        }

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "memory": self.memory.state_dict(),
            "random": self.random.get_state(),
            "working_set_bytes": self.working_set_bytes,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.memory.load_state_dict(state["memory"])
        self.random.set_state(state["random"])
        self.working_set_bytes = state["working_set_bytes"]
        self.working_set = None  # made anew from the memory, bit for bit the same


def as_bytes(x: Float[Tensor, "b c h w"]) -> UInt8[np.ndarray, "b c h w"]:
    """Images in [0, 1] as the bytes that memory keeps; exact for images that came as bytes."""
    return (x * 255).round().to(torch.uint8).cpu().numpy()


def as_array(y: Int64[Tensor, "b"]) -> Int64[np.ndarray, "b"]:
    return y.cpu().numpy()
