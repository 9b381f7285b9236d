"""The lock of a learner, around every call of the contract: a method need not know of threads."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from samc.errors import ConfigError
from samc.learners.inputs import task_number
from samc.streams.base import Task

LOCKED = (
    "declare",
    "begin_task",
    "observe",
    "end_task",
    "predict",
    "memory_report",
    "state_dict",
    "load_state_dict",
)
# one of these at a time, from whatever thread it is called


class Guard:
    """The lock of a learner. A copy of the learner gets one of its own: a lock can be neither copied nor pickled."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a method calls its parent's

    def __reduce__(self) -> tuple[type["Guard"], tuple[()]]:
        return Guard, ()


def with_lock(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, which waits while another thread is in one of the learner's."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.guard.lock:
            return method(self, *args, **kwargs)

    return call


def with_a_task(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, which refuses a number in the place of the task that has it."""

    @wraps(method)
    def call(self: Any, task: Any) -> Any:
        if not isinstance(task, Task) and not all(hasattr(task, name) for name in ("id", "classes", "x", "y")):
            why = "some methods look at its images again"
            remedy = "samc.Task.from_arrays(x, y, id=0) makes one"
            raise ConfigError(f"{method.__name__} takes the task itself, not its number: {why}; got {task!r}; {remedy}")
        if method.__name__ == "end_task":
            self.check_seen(task_number(task.id))
        return method(self, task)

    return call


def guarded(cls: type) -> None:
    """Lock what a class defines of the contract, so that a method need not know of threads."""
    for name in LOCKED:
        if name in vars(cls):
            method = with_a_task(vars(cls)[name]) if name in ("begin_task", "end_task") else vars(cls)[name]
            setattr(cls, name, with_lock(method))
