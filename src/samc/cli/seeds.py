"""Several seeds of one run: which they are, and how they are learnt side by side, or one after the other."""

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from samc.errors import ConfigError
from samc.protocol import Watcher

MOST_SEEDS = 1000
AT_ONCE = {"cuda": 8}
# seeds by kind of device. A small network leaves most of a GPU idle, and eight of the largest fit into its memory; on
# a CPU a single one is busy on all cores already
HOW = "write a range, a list or both, such as 0-4, 0,2,5 or 0-2,7"


def parse(text: str) -> tuple[int, ...]:
    """The seeds that a text such as 0-2,7 names, in its order."""
    seeds: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", part.strip(), re.ASCII)
        if not ends:
            raise ConfigError(f"--seeds cannot be {text!r}; {HOW}")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first:
            raise ConfigError(f"--seeds {text}: a range goes upwards; write {last}-{first}")
        if len(seeds) + last - first >= MOST_SEEDS:
            raise ConfigError(f"--seeds {text}: at most {MOST_SEEDS:,} seeds at a time; name fewer")
        seeds.extend(range(first, last + 1))
    for place, seed in enumerate(seeds):
        if seed in seeds[:place]:
            raise ConfigError(f"--seeds {text} has seed {seed} twice; name each once")
    return tuple(seeds)


class Stop(Watcher):
    """Ends a run at its next step once that has been asked for: only the main thread hears Ctrl-C itself."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def begin(self, *_: object) -> None:
        self.step()

    def step(self, *_: object) -> None:
        if self.asked.is_set():
            raise KeyboardInterrupt

    def evaluated(self, *_: object) -> None:
        self.step()


def attempt_all(jobs: Sequence[Callable[[Watcher], None]], device: torch.device) -> list[Exception | None]:
    """Do every job; what went wrong with each, if anything, once all are done.

    On a GPU each has a thread and a CUDA stream of its own; on a CPU they come one after the other. Each is given
    somebody who must look on, so that an interrupt reaches it.
    """
    stop, at_once = Stop(), min(len(jobs), AT_ONCE.get(device.type, 1))
    if at_once == 1:
        return [attempt(stop, job) for job in jobs]
    with ThreadPoolExecutor(at_once, "seed", initializer=own_stream, initargs=(device,)) as pool:
        try:
            return list(pool.map(partial(attempt, stop), jobs))
        except BaseException:
            stop.asked.set()  # those that have not begun are cancelled by the pool
            raise


def attempt(stop: Stop, job: Callable[[Watcher], None]) -> Exception | None:
    """What went wrong: raised here, it would take the other seeds with it."""
    try:
        job(stop)
    except Exception as error:
        return error
    return None


def own_stream(device: torch.device) -> None:
    """What this thread gives a GPU to do waits for no other thread's work from now on."""
    if device.type == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream(device))
