"""Work on a GPU that is the same at every step, recorded once and then started with a single call."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

MOST_CONSTANTS = 64
MOST_RECORDINGS = 4
# kept at a time: each owns the memory that its kernels work in


class Constants:
    """What follows from sizes alone, made once: tensors may not be sent to a GPU in the middle of a recording.

    Odd sizes come and go, so only the younger ones are kept; a recording keeps those that were there when it was made.
    """

    def __init__(self) -> None:
        self.young: dict[Hashable, Any] = {}
        self.old: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self.young:
            if len(self.young) >= MOST_CONSTANTS:
                self.young, self.old = {}, self.young
            self.young[key] = self.old[key] if key in self.old else make()
        return self.young[key]


@dataclass
class Recording:
    """A graph, the tensors that it reads and writes, and what was last copied into the former."""

    calls: int = 0
    graph: Any = None
    inputs: list[Tensor] = field(default_factory=list)
    sources: list[tuple[Tensor, int]] = field(default_factory=list)
    outputs: tuple[Tensor, ...] = ()
    constants: tuple[dict[Hashable, Any], ...] = ()


class Recorder:
    """Calls a function of tensors; on a GPU, from the third call with an equal key on, by replaying its kernels.

    A recording knows addresses, not values: what the function reads besides its arguments must stay where it is, and
    the tensors that it returns are overwritten by the next call.
    """

    def __init__(self, device: torch.device, constants: Constants):
        self.constants = constants
        self.active = device.type == "cuda"
        self.recordings: dict[Hashable, Recording] = {}

    def __call__(
        self, key: Hashable, function: Callable[..., tuple[Tensor, ...]], *given: Tensor
    ) -> tuple[Tensor, ...]:
        if not self.active:
            return function(*given)
        found = self.recordings.pop(key, None) or Recording()
        self.recordings[key] = found  # the one used last is the last to go
        if len(self.recordings) > MOST_RECORDINGS:
            del self.recordings[next(iter(self.recordings))]
        found.calls += 1
        if found.calls <= 2:  # kernels are compiled and libraries wake up in the first; odd batches come but once
            return function(*given)
        if found.graph is None:
            self.record(found, function, given)
        for place, (mine, (last, version), now) in enumerate(zip(found.inputs, found.sources, given, strict=True)):
            if now is not last or now._version != version:  # another tensor, or written to since
                mine.copy_(now)
                found.sources[place] = now, now._version
        found.graph.replay()
        return found.outputs

    def record(self, found: Recording, function: Callable[..., tuple[Tensor, ...]], given: tuple[Tensor, ...]) -> None:
        found.inputs = [tensor.clone() for tensor in given]
        found.sources = [(tensor, tensor._version) for tensor in given]
        found.graph, found.outputs = self.capture(function, found.inputs)
        found.constants = self.constants.young, self.constants.old

    def capture(self, function: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor]) -> tuple[Any, tuple]:
        """The function's kernels on these inputs, and where they leave what it returns."""
        graph = torch.cuda.CUDAGraph()
        # other threads of this process, which paint or load, may do what a recording must not
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            return graph, function(*inputs)
