"""Work on a GPU that is the same at every step, recorded once and then started with a single call."""

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

MOST_CONSTANTS = 64
MOST_GRAPHS = 8
MOST_BYTES = 2**31
# kept at a time: each owns the memory that its kernels work in, gigabytes for large images of many past tasks
IDLE_CALLS = 64
# after which a recording is of a step that has changed since, most likely


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
class RecordedGraph:
    """A graph, the tensors that it reads and writes, and what was last copied into the former."""

    calls: int = 0
    last_call: int = 0  # by the count of its cache
    n_bytes: int = 0
    graph: Any = None
    refused: bool = False  # what it should record waits for the device, or does something else that cannot be recorded
    inputs: list[Tensor] = field(default_factory=list)
    sources: list[tuple[Tensor, int]] = field(default_factory=list)
    outputs: tuple[Tensor, ...] = ()
    constants: tuple[dict[Hashable, Any], ...] = ()


class CudaGraphCache:
    """Calls a function of tensors; on a GPU, from the third call with an equal key on, by replaying its kernels.

    A recording knows addresses, not values: what the function reads besides its arguments must stay where it is, and
    the tensors that it returns are overwritten by the next call.
    """

    def __init__(self, device: torch.device, constants: Constants):
        self.constants = constants
        self.active = device.type == "cuda"
        self.graphs: dict[Hashable, RecordedGraph] = {}
        self.calls = 0
        self.last_recording = 0  # by the same count
        self.refusal = ""  # why the last function that could not be recorded could not

    def __call__(
        self, key: Hashable, function: Callable[..., tuple[Tensor, ...]], *given: Tensor
    ) -> tuple[Tensor, ...]:
        if not self.active:
            return function(*given)
        recorded = self.graphs.pop(key, None) or RecordedGraph()
        self.graphs[key] = recorded  # the one used last is the last to go
        if len(self.graphs) > MOST_GRAPHS:
            del self.graphs[next(iter(self.graphs))]
        self.calls += 1
        recorded.calls, recorded.last_call = recorded.calls + 1, self.calls
        if self.calls - self.last_recording == IDLE_CALLS:
            self.drop_idle()  # a task's recording goes soon after the next task's is made, not a task later
            torch.cuda.empty_cache()  # which torch would keep from other processes
        # kernels are compiled and libraries wake up in the first; odd batches come but once
        if recorded.calls > 2 and recorded.graph is None and not recorded.refused:
            self.record(recorded, function, given)
        if recorded.graph is None:
            return function(*given)
        for place, (mine, (last, version), now) in enumerate(
            zip(recorded.inputs, recorded.sources, given, strict=True)
        ):
            if now is not last or now._version != version:  # another tensor, or written to since
                mine.copy_(now)
                recorded.sources[place] = now, now._version
        recorded.graph.replay()
        increment_version(recorded.outputs)  # a replay writes behind torch's back, and what it wrote may go in again
        return recorded.outputs

    def record(
        self, recorded: RecordedGraph, function: Callable[..., tuple[Tensor, ...]], given: tuple[Tensor, ...]
    ) -> None:
        self.drop_idle()
        recorded.inputs = [tensor.clone() for tensor in given]
        recorded.sources = [(tensor, tensor._version) for tensor in given]
        before = reserved_bytes()
        try:
            recorded.graph, recorded.outputs = self.capture(function, recorded.inputs)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # such as .item() in a network's forward pass: it goes on as it was called
            cause = error.__context__ or error  # the end of a broken recording complains once more
            self.refusal = str(cause).strip().partition("\n")[0]
            recorded.refused, recorded.inputs, recorded.sources = True, [], []
            return
        recorded.n_bytes = max(0, reserved_bytes() - before)
        self.last_recording = self.calls
        recorded.constants = self.constants.young, self.constants.old

    def drop_idle(self) -> None:
        """Recordings of steps long past, from the oldest on, while together all own more memory than they may."""
        for key, old in list(self.graphs.items()):
            if sum(one.n_bytes for one in self.graphs.values()) <= MOST_BYTES:
                break
            if self.calls - old.last_call > IDLE_CALLS:
                del self.graphs[key]

    def capture(self, function: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor]) -> tuple[Any, tuple]:
        """The function's kernels on these inputs, and where they leave what it returns."""
        graph = torch.cuda.CUDAGraph()
        # other threads of this process, which paint or load, may do what a recording must not
        with no_garbage_collection(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            return graph, function(*inputs)


def reserved_bytes() -> int:
    """What torch has taken of the GPU's memory; what it keeps for later goes back first, as before a recording."""
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Old graphs and pinned memory that are found to be garbage in the middle of a recording would break it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
