"""Executors on this machine: jobs one after the other in this process, or side by side in processes of their own."""

import gc
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from samc.device import choose
from samc.experiments.jobs import Job, LogPlace, OnProgress, Outcome, Place, learn, nowhere
from samc.experiments.progress import ProgressNarrator
from samc.experiments.sharing import shared_gpu
from samc.stopping import Stopped

ON_A_GPU = 8
# jobs at once: a small network leaves most of a GPU idle, and eight of the largest fit into its memory
TRIES = 2
# how often a job is started whose process dies, before it is given up
CLOSING_SECONDS = 20.0
# that a process has to end in, and to save what it was learning


def threads_each(at_once: int) -> int:
    """Of each process: together they have as many as there are cores, since threads that wait keep cores busy too."""
    return max(1, (os.cpu_count() or 1) // at_once)


@dataclass(frozen=True)
class InProcess:
    """Jobs in this process, one after the other: a CPU's cores are all busy with a single one."""

    device: torch.device
    data_dir: Path | None = None
    place: Place = nowhere
    logs: LogPlace = nowhere

    def run(self, jobs: Iterable[Job], on_progress: OnProgress | None) -> Iterator[tuple[Job, Outcome | Exception]]:
        for job in jobs:
            watchers = [ProgressNarrator(partial(report_progress, on_progress, job))] if on_progress else []
            try:
                places = self.place(job), self.logs(job)
                end: Outcome | Exception = learn(job, self.data_dir, self.device, watchers, *places)
            except Exception as error:  # raised here, it would take the other jobs with it
                end = error
            yield job, end


def report_progress(on_progress: OnProgress, job: Job, **fields: Any) -> None:
    on_progress(job, fields)


@dataclass
class Worker:
    """A process, the connection to it, the job that it is learning, and how many there was room for when it began."""

    process: Any
    connection: Connection
    job: Job | None = None
    room: int = 1


@dataclass
class LocalProcesses:
    """Processes instead of threads, of which only one at a time would do the host's share of a step.

    `threads` is how many a process may use on a CPU; results depend on it, so that it is fixed beforehand.
    """

    at_once: int
    device: str
    data_dir: Path | None = None
    threads: int | None = None
    place: Place = nowhere
    logs: LogPlace = nowhere
    workers: list[Worker] = field(default_factory=list)
    room: int = 0  # how many there is memory for, as far as it is known

    def run(self, jobs: Iterable[Job], on_progress: OnProgress | None) -> Iterator[tuple[Job, Outcome | Exception]]:
        """Each job with its outcome or error, as they end. A job whose process died is started once more.

        One that found no memory is too, when one of the others has ended; from then on there are fewer at once.
        """
        ahead, again, tries = iter(jobs), list[Job](), dict[Job, int]()
        self.room = self.at_once
        with ExitStack() as closing:
            closing.enter_context(shared_gpu() if self.device == "cuda" and self.at_once > 1 else nullcontext())
            closing.callback(self.close)
            while self.assign(ahead, again) or any(worker.job for worker in self.workers):
                for connection in wait([worker.connection for worker in self.workers if worker.job]):
                    worker = next(worker for worker in self.workers if worker.connection is connection)
                    job = worker.job
                    assert job is not None
                    try:
                        kind, content = pickle.loads(worker.connection.recv_bytes())
                    except (EOFError, OSError):
                        self.remove(worker)
                        tries[job] = tries.get(job, 0) + 1
                        if tries[job] < TRIES:
                            again.append(job)
                        else:
                            yield job, process_died(worker, job)
                        continue
                    if kind == "progress":
                        if on_progress:
                            on_progress(job, content)
                        continue
                    worker.job = None
                    if isinstance(content, torch.OutOfMemoryError) and worker.room > 1:  # it may not have been alone
                        self.room = max(1, sum(other.job is not None for other in self.workers))
                        again.append(job)
                    else:
                        yield job, content

    def assign(self, ahead: Iterator[Job], again: list[Job]) -> bool:
        """Hand out jobs while there is room for them; returns whether any was handed out."""
        assigned = False
        while sum(worker.job is not None for worker in self.workers) < self.room:
            job = again.pop() if again else next(ahead, None)
            if job is None:
                break
            idle = next((worker for worker in self.workers if worker.job is None), None) or self.start_worker()
            idle.job, idle.room, assigned = job, self.room, True
            try:
                idle.connection.send_bytes(pickle.dumps((job, self.place(job), self.logs(job))))
            except OSError:  # it died while it had nothing to do
                self.remove(idle)
                again.append(job)
        return assigned

    def start_worker(self) -> Worker:
        context = multiprocessing.get_context("spawn")  # a process that has met CUDA or threads cannot be forked
        ours, theirs = context.Pipe()
        arguments = (theirs, self.device, self.data_dir, self.threads)
        process = context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        theirs.close()  # so that its end is noticed here
        worker = Worker(process, ours)
        self.workers.append(worker)
        return worker

    def remove(self, worker: Worker) -> None:
        worker.connection.close()
        worker.process.join(CLOSING_SECONDS)
        self.workers.remove(worker)

    def close(self) -> None:
        """Workers that are idle end by themselves, those at work are told to stop, which saves what they have."""
        for worker in self.workers:
            worker.connection.close()
            if worker.job:
                worker.process.terminate()
        for worker in self.workers:
            worker.process.join(CLOSING_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
        self.workers.clear()


def process_died(worker: Worker, job: Job) -> Exception:
    model, seed, code = job.config.model, job.config.seed, worker.process.exitcode
    hint = "out of memory, most likely: try fewer --jobs" if code == -signal.SIGKILL else "see what it printed above"
    return RuntimeError(f"the process that learnt {model}, seed {seed}, ended {TRIES} times with code {code}; {hint}")


def serve(connection: Connection, device: str, data_dir: Path | None, threads: int | None) -> None:
    """What a worker does: one job after the other until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one closes the others
    if threads is not None:
        torch.set_num_threads(threads)
    chosen = choose(device)

    def tell(**fields: Any) -> None:
        try:
            connection.send_bytes(pickle.dumps(("progress", fields)))
        except ConnectionError:  # nobody is there any more: as if told to stop, so that what it has learnt is saved
            signal.raise_signal(signal.SIGTERM)

    with suppress(EOFError, ConnectionError, Stopped):  # nobody is there any more, or it was told to stop
        while True:
            job, *places = pickle.loads(connection.recv_bytes())
            work = partial(learn, job, data_dir, chosen, [ProgressNarrator(tell)], *places)
            connection.send_bytes(pickled_end(work))
            release_memory()


def release_memory() -> None:
    """Give back what a job has taken of the GPU: the next one may be small, and others need it."""
    gc.collect()  # a learner and its recordings refer to each other
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def pickled_end(learn_job: Callable[[], Outcome]) -> bytes:
    """How a job ended: its outcome or its error; one that cannot be pickled becomes a RuntimeError with its text."""
    try:
        return pickle.dumps(("end", learn_job()))
    except Exception as error:
        try:
            pickled = pickle.dumps(("end", error))
            pickle.loads(pickled)
        except Exception:
            pickled = pickle.dumps(("end", RuntimeError(f"{type(error).__name__}: {error}")))
        return pickled
