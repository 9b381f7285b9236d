"""What a learner is asked: the class of an image, from the network that answers."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from samc.engine import Engine
from samc.errors import ConfigError
from samc.learners.average import Average
from samc.learners.guard import guarded
from samc.learners.inputs import Images, Inputs, TaskId, task_number, told_task
from samc.models.classifier import in_mode

EVALUATION_BATCH = 512


class Answers(Inputs):
    """A learner at any time between two steps: what it names, among which classes, and what it refuses to say."""

    engine: Engine
    average: Average | None

    def predict(self, x: Images, task: TaskId | None = None) -> Int64[Tensor, "b"]:
        """The class of each image, among its task's, or without a task among all seen; on the caller's device."""
        self.check_asked(task)
        return self.answers(x, told_task(task))

    def check_asked(self, task: TaskId | None) -> None:
        """Refuse a task that there is none of, or none where there is one, and a question before anything was seen."""
        self.scenario.check_asked(task)
        if task is None and not self.model.heads.seen:
            raise ConfigError("no class has been seen yet that an image could be of; observe some images first")
        if task is not None:
            self.check_seen(task_number(task))

    @torch.no_grad()
    def answers(self, x: Images, task: int) -> Int64[Tensor, "b"]:
        """Of a task's head, or of the one that all tasks share."""
        x, heads = self.in_order(x), self.model.heads
        with in_mode(self.answering.model, "eval"):
            parts = [self.scores(self.as_images(part), task).argmax(1) for part in x.split(EVALUATION_BATCH)]
        return heads.in_order(task, self.device)[torch.cat(parts)].to(x.device)

    def check_seen(self, task: int) -> None:
        known = self.model.heads.task_classes
        if task not in known:
            raise ConfigError(f"task {task} has not been seen yet; known: {sorted(known)}")

    def scores(self, x: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b k"]:
        """How much speaks for each of the task's classes; the highest is predicted."""
        return self.answering.model.logits(self.answering.features(x), task)

    @property
    def answering(self) -> Engine:
        """Of the network that answers: the average, where there is one."""
        return self.average.engine if self.average else self.engine


guarded(Answers)
