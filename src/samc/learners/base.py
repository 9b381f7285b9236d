"""What every learner is: the contract, and the network, checks and bookkeeping that all methods share."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from samc.clock import Clock
from samc.errors import ConfigError, DataError
from samc.gradients import Engine, descend
from samc.memory import Selection
from samc.models import ReducedResNet18
from samc.saliency import eval_mode
from samc.streams.base import Task

EVALUATION_BATCH = 512


@dataclass(frozen=True)
class StepStats:
    """What one online step was like; tensors stay on the device until somebody looks."""

    loss: Float[Tensor, ""]
    keeping: Callable[[], Selection] | None = None

    @property
    def kept(self) -> Selection | None:
        """The pixels that were remembered, for methods that choose; looking at them waits for the device."""
        return self.keeping() if self.keeping else None


@runtime_checkable
class Learner(Protocol):
    """The contract: everything that the protocol asks of a method."""

    def declare(self, task: int, classes: Sequence[int]) -> None: ...
    def begin_task(self, task: Task) -> None: ...
    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats: ...
    def end_task(self, task: Task) -> None: ...
    def predict(self, x: Tensor, task: int) -> Tensor: ...
    def memory_report(self) -> dict[str, Any]: ...
    def seconds(self) -> dict[str, float]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class NetworkLearner:
    """A reduced ResNet-18 with one head a task, learnt by plain SGD. Methods add `observe`.

    `settings` are the names of the run settings that a method's constructor takes, `network` is what learns.
    A task's classes are known from `task_classes`, or from `begin_task`; where neither has named them, a head grows
    by the labels that its task shows.
    """

    settings: tuple[str, ...] = ("lr",)
    network: type[ReducedResNet18] = ReducedResNet18
    reference_precision = "float32"  # a method that lets one choose sets it before the engine is made

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        task_classes: Sequence[Sequence[int]] = (),
        lr: float = 0.1,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ):
        if not 0 < lr < math.inf:
            raise ConfigError(f"lr is above 0, got {lr}; the paper uses 0.1")
        self.image_shape = image_shape
        self.lr = lr
        self.seed = seed
        self.device = torch.device(device)
        self.clock = Clock(self.device)
        self.random = torch.Generator().manual_seed(seed)
        self.model = self.network(num_classes, self.image_shape[0], seed).to(self.device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.engine = Engine(self.model, self.reference_precision)
        self.current_task: int | None = None
        self.declared: set[int] = set()
        for task, classes in enumerate(task_classes):
            self.declare(task, classes)

    def declare(self, task: int, classes: Sequence[int]) -> None:
        """Fix the classes of a task."""
        self.model.assign(task, classes)
        self.declared.add(task)

    def begin_task(self, task: Task) -> None:
        self.declare(task.id, task.classes)
        self.start(task.id)

    def start(self, task: int) -> None:
        """A new task begins; methods that replay prepare for it here."""
        self.current_task = task

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        raise TypeError(f"{type(self).__name__} does not say how it learns: define observe")

    def end_task(self, task: Task) -> None:
        """Nothing to do, unless a method says so."""

    def admit(self, x: Tensor, y: Tensor, task: int) -> tuple[Float[Tensor, "b c h w"], Int64[Tensor, "b"]]:
        """A batch as the network takes it, or the reason why it cannot be learnt from."""
        images = self.admit_images(x)
        if y.shape != (len(x),) or y.is_floating_point():
            raise DataError(f"labels are one whole number an image; got {y.dtype} {tuple(y.shape)} for {len(x)} images")
        known = self.model.task_classes.get(task, ())
        strange = set(y.tolist()) - set(known)
        if strange and task in self.declared:
            raise DataError(f"labels {sorted(strange)} are not among task {task}'s classes {list(known)}")
        if strange:
            self.model.assign(task, [*known, *strange])
        if task != self.current_task:
            self.start(task)
        return images, y.to(self.device, torch.int64)

    def admit_images(self, x: Tensor) -> Float[Tensor, "b c h w"]:
        """Images on the device in [0, 1]: uint8 is divided by 255, floats are taken as they are after a look."""
        if x.ndim != 4 or tuple(x.shape[1:]) != self.image_shape or not len(x):
            raise DataError(f"images are (batch, {', '.join(map(str, self.image_shape))}); got {tuple(x.shape)}")
        if x.dtype == torch.uint8:
            return x.to(self.device).float() / 255
        if not x.is_floating_point():
            raise DataError(f"images are uint8 from 0 to 255 or floats from 0 to 1; got {x.dtype}")
        if not bool(((x >= 0) & (x <= 1)).all()):  # NaN fails every comparison
            kind = "NaN" if bool(x.isnan().any()) else f"{float(x.min()):.3g} to {float(x.max()):.3g}"
            raise DataError(f"float images are from 0 to 1; got {kind}. Clean the data, or pass uint8")
        return x.to(self.device, torch.float32)

    def step(self, gradient: Float[Tensor, "p"]) -> None:
        descend(self.model, gradient, self.lr)

    @torch.no_grad()
    def predict(self, x: Tensor, task: int) -> Int64[Tensor, "b"]:
        """The class of each image, among its task's classes; labels of the stream, on the caller's device."""
        if task not in self.model.task_classes:
            raise ConfigError(f"task {task} has not been seen yet; known: {sorted(self.model.task_classes)}")
        with eval_mode(self.model):
            parts = [self.scores(self.admit_images(part), task).argmax(1) for part in x.split(EVALUATION_BATCH)]
        classes = torch.tensor(self.model.task_classes[task], device=self.device)
        return classes[torch.cat(parts)].to(x.device)

    def scores(self, x: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b k"]:
        """How much speaks for each of the task's classes; the highest is predicted."""
        return self.model.head(self.engine.look(x), task)

    def memory_report(self) -> dict[str, Any]:
        """What is kept of past tasks, for the record: every byte, by part.

        `memory_bytes` of them are the memory that the budget is for, `budget_bytes` a task; the others are what a
        method keeps besides (old networks, Fisher information, decoders).
        """
        memory, beside = self.memory_parts(), self.beside_parts()
        parts = memory | beside
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

    def beside_parts(self) -> dict[str, int]:
        """Bytes beside the budget; none, unless a method says so."""
        return {}

    def seconds(self) -> dict[str, float]:
        """Time by phase, so far."""
        return self.clock.seconds()

    def state_dict(self) -> dict[str, Any]:
        """Everything that is needed to go on, in the middle of a task too."""
        return {
            "model": copy.deepcopy(self.model.state_dict()),  # what is handed out must not go on learning
            "task": self.current_task,
            "declared": sorted(self.declared),
            "random": self.random.get_state(),
            "seed": self.seed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.engine.recorder.recordings.clear()  # what they point at may lie elsewhere now
        self.model.load_state_dict(state["model"])
        self.current_task = state["task"]
        self.declared = set(state["declared"])
        self.random.set_state(state["random"])
        self.seed = state["seed"]
