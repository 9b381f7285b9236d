"""The executor on Ray: jobs on the machines of a cluster, or on this one alone; a lost worker's job goes to another."""

import os
import pickle
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from samc.checkpoints import Checkpoints
from samc.device import choose
from samc.errors import ConfigError
from samc.experiments.jobs import Job, OnProgress, Outcome, Place, learn, nowhere
from samc.experiments.local import pickled_end
from samc.experiments.progress import ProgressNarrator
from samc.experiments.ray_connection import connected, import_ray
from samc.stopping import Stopped

TRIES = 4
# how often a job is started whose worker is lost; a machine that is taken away is no fault of the job's


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster at an address (`auto`, or host:port), or a Ray of its own on this machine without one.

    `threads` is how many a job uses on a CPU. Results depend on it, so that it is the same on every machine: as many as
    this process has, where it is not given. `gpus` is how much of a GPU a job takes on `cuda`, or how many. Without
    `at_once` as many jobs run as there is room for, machines that join later included. A Ray that this process is
    connected to already is used, and stays.
    """

    at_once: int | None
    device: str
    data_dir: Path | None = None
    threads: int | None = None
    address: str | None = None
    gpus: float | None = None
    place: Place = nowhere

    def __post_init__(self) -> None:
        import_ray()
        if self.gpus is not None and not (0 < self.gpus <= 1 or (self.gpus > 1 and self.gpus.is_integer())):
            raise ConfigError(f"a job takes a part of one GPU, such as 0.2, or whole ones, got {self.gpus:g}")

    def run(self, jobs: Iterable[Job], on_progress: OnProgress | None) -> Iterator[tuple[Job, Outcome | Exception]]:
        """Each job with its outcome or error, as they end. A job that failed by itself is not started again."""
        ray = import_ray()
        ahead, again, started, tries = iter(jobs), list[Job](), list[Job](), Counter[Job]()
        running: dict[Any, Job] = {}
        with ExitStack() as closing:
            closing.enter_context(
                connected(self.address, self.cores(), shared=self.device != "cpu" and (self.gpus or 1) < 1)
            )
            closing.callback(cancel, ray, running)
            device = self.choose_device(ray)
            share = self.share(device)
            remote = ray.remote(serve).options(max_retries=0, **share)  # tries are counted here
            arguments = (device, self.data_dir, self.threads_on(device), Path.cwd())
            mailbox = Mailbox(ray) if on_progress else None
            while True:
                room = self.at_once or self.room(ray, share, started=bool(started))
                while len(running) < room and (job := again.pop() if again else next(ahead, None)):
                    running[
                        remote.remote(job, self.place(job), *arguments, mailbox and mailbox.queue, len(started))
                    ] = job
                    started.append(job)
                    if on_progress:
                        on_progress(job, {"status": "waiting for a place on the cluster"})
                if not running:
                    return
                awaited = [*running, mailbox.message] if mailbox and mailbox.message else [*running]
                (ready, *_), _ = ray.wait(awaited)
                if ready not in running:
                    assert mailbox is not None
                    for number, fields in mailbox.read():
                        if on_progress and started[number] in running.values():
                            on_progress(started[number], fields)
                    continue
                job = running.pop(ready)
                end = end_of(ray, ready, job)
                if end is None:
                    tries[job] += 1
                    if tries[job] < TRIES:
                        again.append(job)
                        continue
                    end = worker_lost(job)
                yield job, end

    def choose_device(self, ray: Any) -> str:
        if self.device != "auto":
            return self.device
        return "cuda" if ray.cluster_resources().get("GPU") else "cpu"

    def threads_on(self, device: str) -> int | None:
        return self.threads or (torch.get_num_threads() if device == "cpu" else None)

    def share(self, device: str) -> dict[str, float]:
        """What of a machine a job takes; on a GPU it keeps one core busy with launching kernels."""
        if device == "cuda":
            return {"num_cpus": 1.0, "num_gpus": float(self.gpus or 1)}
        return {"num_cpus": float(self.threads_on(device) or 1)}

    def cores(self) -> int | None:
        """How many a Ray of our own is told to have: enough for the jobs at once, or those there are."""
        return self.at_once and self.at_once * int(self.share(self.device)["num_cpus"])

    def room(self, ray: Any, share: dict[str, float], started: bool) -> int:
        """How many jobs fit on the machines there are. Once jobs have started, Ray waits for another."""
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        places = sum(places_on(node, share) for node in alive)
        if not places and not started:
            needed = " and ".join(f"{number:g} {name[4:].upper()}" for name, number in share.items())
            raise ConfigError(f"no machine of the cluster has {needed} for a job; use fewer threads or less of a GPU")
        return max(1, places)


class Mailbox:
    """Reports of progress on their way here, one at a time. If its machine is lost, they end; the work does not."""

    def __init__(self, ray: Any):
        self.ray = ray
        here = ray.get_runtime_context().get_node_id()
        near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=True)
        self.queue = ray.util.queue.Queue(actor_options={"num_cpus": 0, "scheduling_strategy": near}).actor
        self.message = self.queue.get.remote()

    def read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        try:
            message = self.ray.get(self.message)
        except self.ray.exceptions.RayError:
            self.message = None
            return
        self.message = self.queue.get.remote()
        yield message


def serve(
    job: Job,
    checkpoints: Checkpoints | None,
    device: str,
    data_dir: Path | None,
    threads: int | None,
    home: Path,
    queue: Any,
    number: int,
) -> bytes:
    """A job in a worker, and its pickled end; paths in its settings are relative to the folder that the user is in."""

    def tell(**fields: Any) -> None:
        queue.put_nowait.remote((number, fields))

    def learn_job() -> Outcome:
        with suppress(OSError):  # another machine may not have it
            os.chdir(home)
        if threads is not None:
            torch.set_num_threads(threads)
        return learn(job, data_dir, choose(device), [ProgressNarrator(tell)] if queue else [], checkpoints)

    try:
        return pickled_end(learn_job)
    except Stopped as stopped:  # another worker goes on from what was saved
        sys.exit(128 + stopped.number)


def end_of(ray: Any, ready: Any, job: Job) -> Outcome | Exception | None:
    """A job's outcome or error; None if its worker, its machine or what it sent is lost."""
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
    except problems.RayError as error:  # it could not even be started, for want of a package perhaps
        reason = str(error).strip().rpartition("\n")[2]
        return RuntimeError(f"Ray could not run {job.config.model}, seed {job.config.seed}: {reason}")


def worker_lost(job: Job) -> Exception:
    model, seed = job.config.model, job.config.seed
    hint = "out of memory, most likely: try fewer jobs at once"
    return RuntimeError(f"the worker that learnt {model}, seed {seed}, was lost {TRIES} times; {hint}")


def cancel(ray: Any, running: dict[Any, Job]) -> None:
    for reference in running:
        ray.cancel(reference, force=True)


def places_on(node: dict[str, float], share: dict[str, float]) -> int:
    """How many jobs a machine has room for. A part of a GPU is a part of one: what is left of two stays apart."""
    places = int(node.get("CPU", 0) // share["num_cpus"])
    if gpus := share.get("num_gpus"):
        whole = int(node.get("GPU", 0))
        places = min(places, whole * int(1 / gpus + 1e-6) if gpus < 1 else int(whole // gpus))
    return places
