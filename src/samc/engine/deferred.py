"""Work that waits for the device, done a step later so that the device never waits for the host."""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

Result = TypeVar("Result")


def to_host_async(tensor: Tensor) -> Callable[[], np.ndarray]:
    """A tensor on its way to the host; ask for it as late as you can."""
    if tensor.device.type != "cuda":
        return tensor.numpy
    arrived = torch.cuda.Event(blocking=True)  # who waits leaves its core to others
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
    arrived.record()

    def wait() -> np.ndarray:
        arrived.synchronize()
        return copy.numpy()

    return wait


class Deferred(Generic[Result]):
    """Something that will have been done when it is asked for, or before."""

    def __init__(self, queue: "DeferredQueue", work: Callable[[], Result]):
        self.queue = queue
        self.work: Callable[[], Result] | None = work
        self.result: Result | None = None

    def do(self) -> None:
        work, self.work = self.work, None  # what the work holds is let go with it
        assert work is not None
        self.result = work()

    def __call__(self) -> Result:
        self.queue.flush(self)
        if self.work is not None:  # asked from inside work that comes before it
            raise RuntimeError("deferred work asked for the result of work that is done after it")
        return self.result  # type: ignore[return-value]


class DeferredQueue:
    """Work in the order in which it came; at most `lag` pieces are left undone."""

    def __init__(self, lag: int):
        self.lag = lag
        self.waiting: deque[Deferred] = deque()
        self.busy = False

    def put(self, work: Callable[[], Result]) -> Deferred[Result]:
        deferred = Deferred(self, work)
        self.waiting.append(deferred)
        while len(self.waiting) > self.lag and not self.busy:  # inside such work the loop around it goes on
            self.do_next()
        return deferred

    def when_on_host(self, tensor: Tensor, work: Callable[[np.ndarray], Result]) -> Deferred[Result]:
        """work(tensor as an array), as soon as that costs the device no time; in the order of the calls."""
        array = to_host_async(tensor)
        return self.put(lambda: work(array()))

    def flush(self, until: Deferred | None = None) -> None:
        """Do what is left, or all up to one of them; from inside such work it does nothing: order is kept."""
        while self.waiting and not self.busy and (until is None or until.work is not None):
            self.do_next()

    def do_next(self) -> None:
        self.busy = True
        try:
            self.waiting.popleft().do()
        finally:
            self.busy = False
