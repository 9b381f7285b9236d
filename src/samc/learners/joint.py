"""Joint: every image is kept and all tasks are learnt at once: what a limited memory is measured by."""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor

from samc.engine import Batch
from samc.errors import ConfigError
from samc.learners.base import NetworkLearner
from samc.learners.contract import StepStats
from samc.learners.inputs import Images, Labels, TaskId
from samc.memory.codec import label_type


class Joint(NetworkLearner):
    """θ ← θ − α·∇ mean loss over the batch and as many images of every task before it.

    Where boundaries are hidden, all that came before is one task.
    """

    def setup(self) -> None:
        super().setup()
        self.images: dict[int, list[UInt8[Tensor, "c h w"]]] = {}
        self.labels: dict[int, list[int]] = {}

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch, told = self.augmented(self.as_batch(x, y, task)), self.scenario.told
        with self.clock("current gradient"):
            past = [self.draw(other, len(y)) for other in self.images if other != batch.only_task or not told]
            g, loss = self.engine.gradient([batch, *map(self.augmented, past)])
            self.step(g)
        self.images.setdefault(batch.only_task, []).extend(torch.from_numpy(self.as_bytes(x)))
        self.labels.setdefault(batch.only_task, []).extend(batch.y.tolist())
        return StepStats(loss)

    def draw(self, task: int, count: int) -> Batch:
        """Some of a task's images, at random."""
        rows = torch.randperm(len(self.labels[task]), generator=self.random)[:count].tolist()
        x = torch.stack([self.images[task][row] for row in rows])
        y = torch.tensor([self.labels[task][row] for row in rows])
        return Batch(self.as_images(x.to(memory_format=torch.channels_last)), y.to(self.device), task)

    def extra_parts(self) -> dict[str, int]:
        """All of it: the budget is for those who choose."""
        images = [image for images in self.images.values() for image in images]
        label_bytes = label_type(self.num_classes).itemsize
        return {"images": sum(image.nbytes for image in images), "labels": label_bytes * len(images)}

    def kept_labels(self) -> dict[int, Iterable[int]]:
        return {**self.labels}

    def memory_report(self) -> dict[str, Any]:
        return super().memory_report() | {"images_per_task": [len(self.labels[task]) for task in sorted(self.labels)]}

    def state_dict(self) -> dict[str, Any]:
        images = {task: torch.stack(images) for task, images in self.images.items()}
        return super().state_dict() | {"images": images, "labels": {k: list(v) for k, v in self.labels.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.images = {task: list(images) for task, images in state["images"].items()}
        self.labels = {task: list(labels) for task, labels in state["labels"].items()}
        for task, labels in self.labels.items():
            if any(image.shape != self.image_shape for image in self.images[task]) or len(labels) != len(
                self.images[task]
            ):
                raise ConfigError(f"the state keeps other images of task {task} than its labels say")
