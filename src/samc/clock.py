"""Seconds by phase, on the host or on the device, without making either wait for the other."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """`with clock("saliency"): ...` adds the block's time to that phase; phases do not nest."""

    def __init__(self, device: torch.device):
        self.on_device = device.type == "cuda"
        self.totals: dict[str, float] = defaultdict(float)
        self.pending: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        if self.on_device:
            # events are read later: asking for their time now would stop the host until the device has caught up
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            yield
            last.record()
            self.pending.append((phase, first, last))
        else:
            start = time.perf_counter()
            yield
            self.totals[phase] += time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        """Each phase's total so far; waits for the device."""
        if self.pending:
            torch.cuda.synchronize()
        for phase, first, last in self.pending:
            self.totals[phase] += first.elapsed_time(last) / 1000
        self.pending.clear()
        return dict(self.totals)
