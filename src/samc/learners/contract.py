"""The contract of a learner: what the protocol asks of a method, and what a step of it tells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from samc.learners.inputs import Images, Labels, TaskId
from samc.memory import Selection
from samc.streams.base import Task


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
    def observe(self, x: Images, y: Labels, task: TaskId | None, /) -> StepStats: ...
    def end_task(self, task: Task) -> None: ...
    def predict(self, x: Images, task: TaskId | None, /) -> Tensor: ...
    def memory_report(self) -> dict[str, Any]: ...
    def seconds(self) -> dict[str, float]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
