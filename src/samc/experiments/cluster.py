"""Jobs on Ray: on the machines of a cluster, or on this one alone; a job whose worker is lost goes to another."""

import os
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from samc.device import choose
from samc.errors import ConfigError
from samc.experiments.jobs import Job, News, Outcome, learn
from samc.experiments.joining import installed, joined
from samc.experiments.local import attempt
from samc.experiments.watching import Narrator

TRIES = 4
# how often a job is begun whose worker is lost; a machine that is taken away is no fault of the job's


@dataclass(frozen=True)
class Cluster:
    """The engine `ray`, at an address (`auto`, or host:port), or a Ray of its own on this machine without one.

    `threads` is how many a job uses on a CPU. What is learnt depends on it, so that it is the same on every machine: as
    many as this process has, where it is not given. `gpus` is how much of a GPU a job takes on `cuda`, or how many.
    Without `at_once` as many jobs run as there is room for, machines that join later included. A Ray that this process
    is connected to already is used, and stays.
    """

    at_once: int | None
    device: str
    data_dir: Path | None = None
    threads: int | None = None
    address: str | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        installed()
        if self.gpus is not None and not (0 < self.gpus <= 1 or (self.gpus > 1 and self.gpus.is_integer())):
            raise ConfigError(f"a job takes a part of one GPU, such as 0.2, or whole ones, got {self.gpus:g}")

    def run(self, jobs: Iterable[Job], news: News | None) -> Iterator[tuple[Job, Outcome | Exception]]:
        """Each job with what came of it, as they end. An error of the job's own is its end; it is not begun again."""
        ray = installed()
        ahead, again, begun, tries = iter(jobs), list[Job](), list[Job](), Counter[Job]()
        running: dict[Any, Job] = {}
        with ExitStack() as closing:
            closing.enter_context(
                joined(self.address, self.cores(), shared=self.device != "cpu" and (self.gpus or 1) < 1)
            )
            closing.callback(stop, ray, running)
            device = self.found_device(ray)
            share = self.share(device)
            remote = ray.remote(serve).options(max_retries=0, **share)  # lost ones are counted here
            given = (device, self.data_dir, self.threads_on(device), Path.cwd())
            mailbox = Mailbox(ray) if news else None
            while True:
                room = self.at_once or self.room(ray, share, begun=bool(begun))
                while len(running) < room and (asked := again.pop() if again else next(ahead, None)):
                    running[remote.remote(asked, *given, mailbox and mailbox.queue, len(begun))] = asked
                    begun.append(asked)
                    if news:
                        news(asked, {"shown": "waiting for a place on the cluster"})
                if not running:
                    return
                awaited = [*running, mailbox.letter] if mailbox and mailbox.letter else [*running]
                (ready, *_), _ = ray.wait(awaited)
                if ready not in running:
                    assert mailbox is not None
                    for number, fields in mailbox.read():
                        if news and begun[number] in running.values():
                            news(begun[number], fields)
                    continue
                asked = running.pop(ready)
                end = ended(ray, ready, asked)
                if end is None:
                    tries[asked] += 1
                    if tries[asked] < TRIES:
                        again.append(asked)
                        continue
                    end = lost(asked)
                yield asked, end

    def found_device(self, ray: Any) -> str:
        if self.device != "auto":
            return self.device
        return "cuda" if ray.cluster_resources().get("GPU") else "cpu"

    def threads_on(self, device: str) -> int | None:
        return self.threads or (torch.get_num_threads() if device == "cpu" else None)

    def share(self, device: str) -> dict[str, float]:
        """What of a machine a job takes; on a GPU it keeps one core busy with handing out work."""
        if device == "cuda":
            return {"num_cpus": 1.0, "num_gpus": float(self.gpus or 1)}
        return {"num_cpus": float(self.threads_on(device) or 1)}

    def cores(self) -> int | None:
        """How many a Ray of our own is told to have: enough for the jobs at once, or those there are."""
        return self.at_once and self.at_once * int(self.share(self.device)["num_cpus"])

    def room(self, ray: Any, share: dict[str, float], begun: bool) -> int:
        """How many jobs fit on the machines there are. With none left in the midst of it, Ray waits for another."""
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        places = sum(fitting(node, share) for node in alive)
        if not places and not begun:
            asked = " and ".join(f"{number:g} {name[4:].upper()}" for name, number in share.items())
            raise ConfigError(f"no machine of the cluster has {asked} for a job; use fewer threads or less of a GPU")
        return max(1, places)


class Mailbox:
    """News on their way here, a letter at a time. Should its machine be lost, the news end; the work does not."""

    def __init__(self, ray: Any):
        self.ray = ray
        here = ray.get_runtime_context().get_node_id()
        beside_us = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=True)
        self.queue = ray.util.queue.Queue(actor_options={"num_cpus": 0, "scheduling_strategy": beside_us}).actor
        self.letter = self.queue.get.remote()

    def read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        try:
            letter = self.ray.get(self.letter)
        except self.ray.exceptions.RayError:
            self.letter = None
            return
        self.letter = self.queue.get.remote()
        yield letter


def serve(
    asked: Job,
    device: str,
    data_dir: Path | None,
    threads: int | None,
    home: Path,
    queue: Any,
    number: int,
) -> bytes:
    """A job in a worker, packed as it ended; paths in its settings are meant from where the user stands."""

    def tell(**fields: Any) -> None:
        queue.put_nowait.remote((number, fields))

    def work() -> Outcome:
        with suppress(OSError):  # another machine may not have it
            os.chdir(home)
        if threads is not None:
            torch.set_num_threads(threads)
        return learn(asked, data_dir, choose(device), [Narrator(tell)] if queue else [])

    return attempt(work)


def ended(ray: Any, ready: Any, asked: Job) -> Outcome | Exception | None:
    """What came of a job; nothing, if its worker, its machine or what it sent is lost."""
    problems = ray.exceptions
    try:
        return pickle.loads(ray.get(ready))[1]
    except (
        problems.WorkerCrashedError,
        problems.NodeDiedError,
        problems.OutOfMemoryError,
        problems.ObjectLostError,
    ):
        return None
    except problems.RayError as error:  # it could not even be begun, for want of a package perhaps
        reason = str(error).strip().rpartition("\n")[2]
        return RuntimeError(f"Ray could not run {asked.config.model}, seed {asked.config.seed}: {reason}")


def lost(asked: Job) -> Exception:
    model, seed = asked.config.model, asked.config.seed
    hint = "out of memory, most likely: try fewer jobs at once"
    return RuntimeError(f"the worker that learnt {model}, seed {seed}, was lost {TRIES} times; {hint}")


def stop(ray: Any, running: dict[Any, Job]) -> None:
    for reference in running:
        ray.cancel(reference, force=True)


def fitting(node: dict[str, float], share: dict[str, float]) -> int:
    """How many jobs a machine has room for. A part of a GPU is a part of one: what is left of two stays apart."""
    places = int(node.get("CPU", 0) // share["num_cpus"])
    if gpus := share.get("num_gpus"):
        whole = int(node.get("GPU", 0))
        places = min(places, whole * int(1 / gpus + 1e-6) if gpus < 1 else int(whole // gpus))
    return places
