"""Work that waits for the device, done a step later so that the device never waits for the host."""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

Result = TypeVar("Result")


def fetched(tensor: Tensor) -> Callable[[], np.ndarray]:
    """A tensor on its way to the host; ask for it as late as you can."""
    if tensor.device.type != "cuda":
        return tensor.numpy
    arrived = torch.cuda.Event()
    there = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
    arrived.record()

    def wait() -> np.ndarray:
        arrived.synchronize()
        return there.numpy()

    return wait


class Promise(Generic[Result]):
    """Something that will have been done when it is asked for, or before."""

    def __init__(self, queue: "Queue", job: Callable[[], Result]):
        self.queue = queue
        self.job: Callable[[], Result] | None = job
        self.result: Result | None = None

    def do(self) -> None:
        job, self.job = self.job, None  # what the job holds is let go with it
        assert job is not None
        self.result = job()

    def __call__(self) -> Result:
        self.queue.settle(self)
        return self.result  # type: ignore[return-value]


class Queue:
    """Jobs in the order in which they came; at most `lag` of them are left undone."""

    def __init__(self, lag: int):
        self.lag = lag
        self.waiting: deque[Promise] = deque()

    def put(self, job: Callable[[], Result]) -> Promise[Result]:
        promise = Promise(self, job)
        self.waiting.append(promise)
        while len(self.waiting) > self.lag:
            self.waiting.popleft().do()
        return promise

    def settle(self, until: Promise | None = None) -> None:
        """Do what is left, or all up to one of them."""
        while self.waiting and (until is None or until.job is not None):
            self.waiting.popleft().do()
