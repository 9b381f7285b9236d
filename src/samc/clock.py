"""Seconds by phase, on the host or on the device, without making either wait for the other."""

import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

MOST_PENDING = 512
# events that may wait for their reading, so that a long run does not pile them up


class Clock:
    """`with clock("saliency"): ...` adds the block's time to that phase; phases do not nest."""

    def __init__(self, device: torch.device):
        self.on_device = device.type == "cuda"
        self.totals: dict[str, float] = defaultdict(float)
        self.pending: deque[tuple[str, torch.cuda.Event, torch.cuda.Event]] = deque()

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        if self.on_device:
            # events are read later: asking for their time now would stop the host until the device has caught up
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            yield
            last.record()
            self.pending.append((phase, first, last))
            if len(self.pending) > MOST_PENDING:
                self.settle()
        else:
            with self.on_host(phase):
                yield

    @contextmanager
    def on_host(self, phase: str) -> Iterator[None]:
        """A phase in which only the host works, perhaps while the device is busy with another."""
        start = time.perf_counter()
        yield
        self.totals[phase] += time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        """Each phase's total so far; waits for what this thread has given the device to do."""
        if self.pending:
            torch.cuda.current_stream().synchronize()
            self.settle()
        return dict(self.totals)

    def settle(self) -> None:
        """Add up what the device has finished; what it has not waits."""
        while self.pending and self.pending[0][2].query():
            phase, first, last = self.pending.popleft()
            self.totals[phase] += first.elapsed_time(last) / 1000
