"""SAMC as a plugin: a strategy's model, loop, optimizer, loggers and metrics, and SAMC's memory, replay and average."""

from contextlib import ExitStack
from itertools import zip_longest
from typing import Any

import torch
from avalanche.benchmarks import OnlineCLExperience
from avalanche.core import SupervisedPlugin
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import DataLoader

from samc.avalanche.experiences import Pairs, image_shape, task_number, tells_boundaries
from samc.avalanche.model import StrategyModel
from samc.engine.flat import trainable
from samc.errors import ConfigError
from samc.learners import samc
from samc.learners.average import Average, numbers
from samc.models.classifier import Classifier, in_mode
from samc.streams.pixels import Normalisation
from samc.streams.task import Task

NOT_OURS = {
    "lr": "strategy's optimizer",
    "backbone": "strategy's model",
    "weights": "strategy's model",
    "boundaries": "benchmark",
}
# settings whose place is taken by a part of the strategy


class SAMC(samc.SAMC):
    """The learner on a strategy's model, which the strategy's optimizer moves."""

    model: StrategyModel
    optimizer: torch.optim.Optimizer

    def built_classifier(self, model: nn.Module | None) -> Any:
        return model

    def step(self, g: Float[Tensor, "p"]) -> None:
        parts = g.split([parameter.numel() for parameter in self.engine.parameters])
        for parameter, part in zip(self.engine.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter).clone()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.average:
            self.average.follow(self.engine)

    @property
    def lr(self) -> float:
        """The strategy's, which a scheduler may change; the largest, where its parameters have several."""
        return max(float(group["lr"]) for group in self.optimizer.param_groups)

    def scores(self, x: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b k"]:
        """The outputs of the task's classes, or, where it is not told, of all that have been seen."""
        return super().scores(x, task)[:, self.model.heads.in_order(task, x.device)]

    def refresh(self) -> None:
        """A strategy may give its model more outputs, in training and in evaluation, and other parameters with them."""
        if any(one is not other for one, other in zip_longest(self.engine.parameters, trainable(self.model))):
            self.engine.refresh()
        if self.average and shapes(self.average.model) != shapes(self.model):
            before, self.holding = self.average, None
            self.average = Average(self.model, before.decay)
            self.average.steps = before.steps
            take_over(self.average.model, before.model.state_dict())
        elif self.average:
            self.average.refresh()


class SAMCPlugin(SupervisedPlugin):
    """`plugins=[SAMCPlugin(memory_bytes="600KB")]`: every step of a strategy is SAMC's, with all of its settings.

    num_classes   how many there are, if that is known: labels of at most 256 classes take one byte instead of two
    mean, std     what the benchmark's transforms normalise images with, if they do: memory keeps pixels
    seed          draws what is remembered and replayed
    preset        named values under those that are given: best, or best:split-cifar100

    The strategy's own pass over a batch is for its loggers alone. Then the gradient comes from SAMC's rule, on batch
    and memory, and the strategy's optimizer takes the step. What other plugins add to the loss has no part in it.
    Where there is an average (`average=0.99` by default), it is what the strategy evaluates.

    The scenario is `task` where the model is told tasks, else `class`, or `domain` if that is given; boundaries are
    hidden where a stream is online and does not tell them.
    """

    def __init__(
        self,
        *,
        num_classes: int | None = None,
        mean: Any = None,
        std: Any = None,
        seed: int = 0,
        preset: str | None = None,
        **settings: Any,
    ):
        super().__init__()
        for name, part in NOT_OURS.items():
            if name in settings:
                raise ConfigError(f"{name} is not SAMCPlugin's: the {part} has it")
        samc.SAMCSettings.made(
            {"scenario": "class", **settings}, "samc"
        )  # most mistakes are told before the first step
        self.settings, self.num_classes, self.seed, self.preset = settings, num_classes, seed, preset
        self.normalisation = Normalisation.of(mean, std)
        self.learner: SAMC | None = None
        self.task, self.told = 0, True
        self.forward_pass = ExitStack()

    @property
    def memory(self) -> Any:
        """The episodic memory, once there is one."""
        return self.learner and self.learner.memory

    def memory_report(self) -> dict[str, Any]:
        """Bytes by part, images by task; nothing before the first step."""
        return self.learner.memory_report() if self.learner else {}

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.task = task_number(strategy.experience)
        self.told = tells_boundaries(strategy.experience)
        if self.learner:
            self.learner.refresh()

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        if self.learner is None:
            self.learner = self.made(strategy)
        self.learner.optimizer, model = strategy.optimizer, self.learner.model
        labels = set(strategy.mb_task_id.tolist()) if model.knows_tasks else {0}
        if {model.task_labels.setdefault(self.task, min(labels))} != labels:
            raise ConfigError("SAMCPlugin takes experiences of one task label each; split them by task")
        classes = getattr(strategy.experience, "classes_in_this_experience", None)
        if classes and self.told and not isinstance(strategy.experience, OnlineCLExperience):
            self.learner.declare(self.task, sorted(classes))

    def made(self, strategy: Any) -> SAMC:
        """The learner, of the shape of the first images."""
        shape = image_shape(strategy.mb_x)
        model = StrategyModel(strategy.model, strategy._criterion, shape, self.normalisation)
        given = {"scenario": "task" if model.knows_tasks else "class", **self.settings}
        if (given["scenario"] == "task") != model.knows_tasks:
            has = "is told tasks" if model.knows_tasks else "has one head, and is told no task"
            raise ConfigError(f"scenario {given['scenario']!r} does not go with a model that {has}; leave it out")
        if model.knows_tasks:  # it shows an image the head of its own task alone
            if given.get("distil"):
                raise ConfigError("distil holds the outputs of old tasks, which a multi-task model does not give")
            given["distil"] = 0.0
        if not self.told:
            given["boundaries"] = "hidden"
        known = {"model": model, "seed": self.seed, "device": strategy.device, "preset": self.preset}
        known |= self.normalised
        return SAMC(self.num_classes, shape, **known, **given)

    @property
    def normalised(self) -> dict[str, Any]:
        known = self.normalisation
        return {"mean": known and known.mean, "std": known and known.std}

    def before_forward(self, strategy: Any, **kwargs: Any) -> None:
        self.forward_pass.enter_context(in_mode(strategy.model, "batch"))  # running statistics move in our step alone

    def after_forward(self, strategy: Any, **kwargs: Any) -> None:
        self.forward_pass.close()

    def before_backward(self, strategy: Any, **kwargs: Any) -> None:
        strategy.loss = strategy.loss.detach().requires_grad_()  # no gradient: the step that follows moves nothing

    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        assert self.learner is not None
        self.learner.observe(strategy.mb_x, strategy.mb_y, self.task if self.told else None)

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        experience = strategy.experience
        if self.learner is None or isinstance(experience, OnlineCLExperience):
            return  # the next task's first batch ends the one before
        loader = DataLoader(Pairs(experience.dataset), strategy.train_mb_size)
        classes = self.learner.model.heads.task_classes[self.task]
        self.learner.end_task(Task.from_loader(loader, id=self.task, classes=classes, **self.normalised))

    def before_eval(self, strategy: Any, **kwargs: Any) -> None:
        if self.learner and self.learner.average:
            strategy.model = self.learner.average.model.backbone.eval()

    def after_eval(self, strategy: Any, **kwargs: Any) -> None:
        if self.learner and self.learner.average:
            strategy.model = self.learner.model.backbone
            self.learner.refresh()


def shapes(model: Classifier) -> list[torch.Size]:
    return [tensor.shape for tensor in numbers(model)]


@torch.no_grad()
def take_over(model: nn.Module, values: dict[str, Any]) -> None:
    """What another state of a network has of it; either may have more outputs than the other."""
    for name, tensor in model.state_dict().items():
        if isinstance(tensor, Tensor) and name in values:
            both = tuple(map(slice, map(min, tensor.shape, values[name].shape)))
            tensor[both] = values[name][both]
