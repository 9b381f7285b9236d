"""A network that learns: the checks and the bookkeeping that all methods share."""

import copy
import inspect
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from samc.config import described_settings, setting_fields, signature
from samc.engine import Engine, Held
from samc.errors import ConfigError
from samc.learners.answers import Answers
from samc.learners.arguments import check_number, checked_device, checked_shape
from samc.learners.average import Average
from samc.learners.contract import StepStats
from samc.learners.fitting import check_state
from samc.learners.guard import Guard, guarded
from samc.learners.inputs import Images, Labels, TaskId, task_number
from samc.learners.saving import save_learner
from samc.learners.scenario import Scenario
from samc.learners.settings import NetworkSettings
from samc.models import Classifier, Heads, probe
from samc.models.backbones import TimmBackbone, build_backbone
from samc.models.start import seeded
from samc.presets import named_preset
from samc.streams.base import Task
from samc.streams.pixels import Normalisation


class NetworkLearner(Answers):
    """A network with one head per task, or for all, learnt by plain SGD. A method adds `Settings`, `setup`, `observe`.

    num_classes    how many classes the stream has; left out, heads grow as classes arrive
    image_shape    channels, height and width
    model          any nn.Module that turns images into a map (b, d, i, j), tokens (b, n, d) or a vector (b, d)
    task_classes   the classes of each task, where they are known; else heads grow by the labels that tasks show
    mean, std      a number, or one per channel: float images come normalised so, and the network sees them so
    preset         named values under those that are given: paper, or paper:split-cifar10

    Threads may share a learner: one call at a time is let in, so that `predict` answers from before a step or after it.
    """

    Settings: ClassVar[type[NetworkSettings]] = NetworkSettings
    heads: ClassVar[type[Heads]] = Heads

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        guarded(cls)
        cls.__signature__ = signature(cls.Settings, LEADING[1:])  # type: ignore[attr-defined]
        cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nSettings:\n{described_settings(cls.Settings)}"

    def __init__(
        self,
        num_classes: int | None = None,
        image_shape: tuple[int, int, int] | None = None,
        *,
        model: nn.Module | None = None,
        task_classes: Sequence[Sequence[int]] = (),
        mean: Any = None,
        std: Any = None,
        preset: str | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        **settings: Any,
    ):
        self.guard = Guard()
        method = type(self).__name__.lower()
        scenario = settings.get("scenario"), settings.get("boundaries")
        values = {} if preset is None else named_preset(preset, method, *scenario)
        known = {name: value for name, value in values.items() if name in self.Settings.names()}
        self.settings: Any = self.Settings.made(settings, method, known)
        self.scenario = Scenario(self.settings.scenario, self.settings.boundaries)
        self.scenario.check_told(task_classes)
        self.image_shape: tuple[int, int, int] = checked_shape(image_shape)
        check_number("num_classes", num_classes, 1, "how many classes there are; left out, heads grow")
        check_number("seed", seed, 0, "a whole number from 0 below 2**63")
        if model is not None and not isinstance(model, nn.Module):
            raise ConfigError(f"model is an nn.Module, made and ready; got {model!r}")
        if model is not None and self.settings.weights is not None:
            raise ConfigError("weights go with a backbone by name; load them into your model before you pass it")
        if model is not None:
            self.settings = replace(self.settings, backbone=f"{type(model).__module__}:{type(model).__qualname__}")
        self.own_network = model is not None
        self.num_classes, self.seed = num_classes, seed
        self.device = checked_device(device)
        self.random = torch.Generator().manual_seed(seed)
        self.normalisation = Normalisation.of(mean, std)
        self.model = self.built_classifier(model).to(self.device)
        self.engine = Engine(self.model, getattr(self.settings, "reference_precision", "float32"))
        self.clock = self.engine.clock
        self.average = Average(self.model, self.settings.average) if self.settings.average else None
        self.begun_tasks: list[int] = []
        self.holding: tuple[Hashable, Held] | None = None
        self.current_task: int | None = None
        self.begun = False
        self.declared: set[int] = set()
        self.setup()
        for task, classes in enumerate(task_classes):
            self.declare(task, classes)
        self.expect()

    def built_classifier(self, model: nn.Module | None) -> Classifier:
        with seeded(self.seed):
            backbone = model
            if backbone is None:
                backbone = build_backbone(self.settings.backbone, self.image_shape, weights=self.settings.weights)
            if hasattr(backbone, "forward_features"):  # as timm's have: forward would pool, or classify
                backbone = TimmBackbone(backbone)
            found = probe(backbone, self.image_shape)
            heads = self.heads(found.width, self.num_classes, self.seed, shared=self.scenario.one_head)
        classifier = Classifier(backbone, heads, found, self.mean, self.std)
        if found.channels_last:
            classifier.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return classifier

    @property
    def backbone_name(self) -> str:
        return self.settings.backbone

    def setup(self) -> None:
        """What a method needs besides settings, network and engine; called once, when those are there."""

    def declare(self, task: int, classes: Sequence[int]) -> None:
        """Fix the classes of a task."""
        number = task_number(task)
        try:
            known = [task_number(label) for label in classes]
        except (TypeError, ConfigError):
            raise ConfigError(f"task {number}'s classes are whole numbers such as (0, 1); got {classes!r}") from None
        others = [self.model.heads.task_classes[other] for other in self.declared - {number}]
        self.scenario.check_classes(number, known, others)
        self.assign(number, known)
        self.declared.add(number)

    def expect(self, images: Iterable[UInt8[np.ndarray, "n c h w"]] = ()) -> None:
        """What has been declared will come, such images if they are known: refuse now what could not be kept then."""

    def assign(self, task: int, classes: Sequence[int]) -> None:
        before = self.model.heads.num_classes
        self.model.heads.check(task, classes)
        if max(classes) >= before:
            self.fit_classes(max(classes) + 1)
        for network in self.networks():
            network.heads.assign(task, classes)
        if task == self.current_task or not self.scenario.open:
            self.see(task)
        if self.model.heads.num_classes != before:
            self.grown()

    def see(self, task: int) -> None:
        """A task's classes are among those that an image without a task may be of."""
        for network in self.networks():
            network.heads.see(network.heads.task_classes.get(task, ()))

    def networks(self) -> tuple[Classifier, ...]:
        return (self.model, self.average.model) if self.average else (self.model,)

    def fit_classes(self, count: int) -> None:
        """Be ready for heads of so many classes, or refuse them; a method adds what it keeps by their number."""
        if self.num_classes is not None:
            self.num_classes = count

    def let_heads_grow(self) -> None:
        """From now on classes may come beyond those that the learner was made for."""
        for network in self.networks():
            network.heads.grows = True

    def grown(self) -> None:
        """The heads have more classes than before; a method that keeps parameters of old lays them out anew here."""
        self.engine.refresh()
        if self.average:
            self.average.refresh()

    def begin_task(self, task: Task) -> None:
        self.scenario.check_boundary()
        self.declare(task.id, task.classes)
        self.begin(task.id)

    def begin(self, task: int) -> None:
        """A task begins, or goes on after its end or after a state was loaded; methods that replay prepare for it."""
        self.current_task, self.begun = task, True
        self.see(task)
        self.begun_tasks = [*(other for other in self.begun_tasks if other != task), task]

    def step(self, g: Float[Tensor, "p"]) -> None:
        """One step of SGD, and the average follows."""
        self.engine.step(g, self.lr)
        if self.average:
            self.average.follow(self.engine)

    @property
    def lr(self) -> float:
        return float(self.settings.lr)

    def held(self) -> Held | None:
        """Old classes, held to the average's answers: each of them counts alike."""
        weight = getattr(self.settings, "distil", 0.0)
        if not weight or self.average is None:
            return None
        known = self.model.heads.task_classes
        now = known[self.current_task] if self.current_task is not None else ()
        old = {label for task in self.begun_tasks for label in known[task]}
        old -= set() if self.scenario.holds_all else set(now)
        if not old:
            return None
        key = self.current_task, self.model.heads.version, self.lr
        if self.holding is None or self.holding[0] != key:  # sent to the device once
            weights = torch.zeros(self.model.heads.num_classes)
            weights[sorted(old)] = weight / len(old)
            lr = torch.tensor(self.lr, device=self.device)
            self.holding = key, Held(self.average.engine, weights.to(self.device), lr)
        return self.holding[1]

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        raise TypeError(f"{type(self).__name__} does not say how it learns: define observe")

    def end_task(self, task: Task) -> None:
        """Methods that learn something from a whole task do so here."""
        self.scenario.check_boundary()
        self.begun = False

    def memory_report(self) -> dict[str, Any]:
        """What is kept of past tasks, for the record: every byte, by part.

        `memory_bytes` of them are the memory that the budget is for, `budget_bytes` per task; the others are what a
        method keeps besides (old networks, Fisher information, decoders).
        """
        memory, extra = self.memory_parts(), self.extra_parts()
        average = {"average": self.average.nbytes} if self.average else {}
        parts = memory | extra | average
        return {
            "budget_bytes": 0,
            "bytes": sum(parts.values()),
            "bytes_by_part": parts,
            "memory_bytes": sum(memory.values()),
            "images_per_task": [],
            "accounting": "bytes",
            "working_set_bytes": 0,
        }

    def memory_parts(self) -> dict[str, int]:
        """Bytes under the budget; none, unless a method says so."""
        return {}

    def extra_parts(self) -> dict[str, int]:
        """Bytes besides the budget; none, unless a method says so."""
        return {}

    def kept_labels(self) -> dict[int, Iterable[int]]:
        """The labels of everything that is kept of each task; nothing, unless a method keeps something."""
        return {}

    def seconds(self) -> dict[str, float]:
        """Time by phase, so far."""
        return self.clock.seconds()

    def terms(self) -> dict[str, Any]:
        """What a learner must have in common with a state that it takes up, in words; methods add theirs."""
        shape = "x".join(map(str, self.image_shape))
        terms = {"method": type(self).__name__, "images": shape, "normalisation": str(self.normalisation)}
        return terms | self.scenario.terms() | self.settings.terms()

    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """All of the learner as one safetensors file, which `samc.load` takes up; whole or not at all."""
        return save_learner(self, Path(path), replace=replace)

    def state_dict(self) -> dict[str, Any]:
        """Everything that is needed to go on, in the middle of a task too."""
        return {
            "terms": self.terms(),
            "model": copy.deepcopy(self.model.state_dict()),  # what is handed out must not go on learning
            "num_classes": self.model.heads.num_classes,
            "average": self.average.state_dict() if self.average else None,
            "task": self.current_task,
            "begun_tasks": list(self.begun_tasks),
            "declared": sorted(self.declared),
            "random": self.random.get_state(),
            "seed": self.seed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state; one of another learner is refused, and leaves this one as it was."""
        check_state(self, state)
        if state["num_classes"] > self.model.heads.num_classes:
            self.fit_classes(state["num_classes"])
        self.model.heads.fit(state["num_classes"])
        self.model.load_state_dict(state["model"])
        if self.average:
            self.average.load_state_dict(state["average"], state["num_classes"])
        self.engine.refresh()  # what recordings point at may lie elsewhere now
        self.current_task, self.begun = state["task"], False
        self.begun_tasks = list(state["begun_tasks"])
        self.declared = set(state["declared"])
        self.random.set_state(state["random"])
        self.seed = self.model.heads.seed = state["seed"]  # of heads too: by it they draw classes that are to come
        if self.average:
            self.average.model.heads.seed = self.seed

    def __repr__(self) -> str:
        changed = [
            f"{item.name}={getattr(self.settings, item.name)!r}"
            for item in setting_fields(self.Settings)
            if getattr(self.settings, item.name) != item.default
        ]
        shape, report = "x".join(map(str, self.image_shape)), self.memory_report()
        kept = f"{sum(report['images_per_task'])} images, {report['bytes']:,} bytes kept"
        tasks = f"{len(self.model.heads.task_classes)} tasks, {self.model.heads.num_classes} classes"
        return f"{type(self).__name__}({shape}, {', '.join([*changed, tasks, kept])})"


guarded(NetworkLearner)
LEADING = tuple(inspect.signature(NetworkLearner.__init__).parameters.values())[:-1]
# what every constructor takes before its method's settings; these stand in its signature instead of **settings
NetworkLearner.__init__.__signature__ = signature(NetworkSettings, LEADING)  # type: ignore[attr-defined]
