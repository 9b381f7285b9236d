"""Jobs on this machine: side by side in processes of their own, each of which learns one after the other."""

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
from samc.experiments.jobs import Job, News, Outcome, learn
from samc.experiments.sharing import shared_gpu
from samc.experiments.watching import Narrator

ON_A_GPU = 8
# jobs at a time: a small network leaves most of a GPU idle, and eight of the largest fit into its memory
TRIES = 2
# how often a job is begun whose process dies, before it is given up
CLOSING_SECONDS = 5.0


def threads_each(at_once: int) -> int:
    """Threads that wait for work keep cores busy: all processes together have as many as there are cores."""
    return max(1, (os.cpu_count() or 1) // at_once)


@dataclass(frozen=True)
class Alone:
    """Jobs in this process, one after the other: a CPU's cores are all busy with a single one."""

    device: torch.device
    data_dir: Path | None = None

    def run(self, jobs: Iterable[Job], news: News | None) -> Iterator[tuple[Job, Outcome | Exception]]:
        for asked in jobs:
            watchers = [Narrator(partial(tell, news, asked))] if news else []
            try:
                end: Outcome | Exception = learn(asked, self.data_dir, self.device, watchers)
            except Exception as error:  # raised here, it would take the other jobs with it
                end = error
            yield asked, end


def tell(news: News, asked: Job, **fields: Any) -> None:
    news(asked, fields)


@dataclass
class Worker:
    """A process, the line to it, and what it is at."""

    process: Any
    line: Connection
    job: Job | None = None


@dataclass
class Local:
    """Processes instead of threads: the host's share of a step would be done by one thread at a time.

    `threads` is how many a process may use on a CPU; what is learnt depends on it, so that it is settled beforehand.
    """

    at_once: int
    device: str
    data_dir: Path | None = None
    threads: int | None = None
    workers: list[Worker] = field(default_factory=list)

    def run(self, jobs: Iterable[Job], news: News | None) -> Iterator[tuple[Job, Outcome | Exception]]:
        """Each job with what came of it, as they end. A job whose process died is begun once more."""
        ahead, again, tries = iter(jobs), list[Job](), dict[Job, int]()
        with ExitStack() as closing:
            closing.enter_context(shared_gpu() if self.device == "cuda" and self.at_once > 1 else nullcontext())
            closing.callback(self.close)
            while self.give(ahead, again) or any(worker.job for worker in self.workers):
                for line in wait([worker.line for worker in self.workers if worker.job]):
                    worker = next(worker for worker in self.workers if worker.line is line)
                    asked = worker.job
                    assert asked is not None
                    try:
                        kind, content = pickle.loads(worker.line.recv_bytes())
                    except (EOFError, OSError):
                        self.bury(worker)
                        tries[asked] = tries.get(asked, 0) + 1
                        if tries[asked] < TRIES:
                            again.append(asked)
                        else:
                            yield asked, died(worker, asked)
                        continue
                    if kind == "news":
                        if news:
                            news(asked, content)
                    else:
                        worker.job = None
                        yield asked, content

    def give(self, ahead: Iterator[Job], again: list[Job]) -> bool:
        """Hand out work while there is room for it; whether any was handed out."""
        given = False
        while sum(worker.job is not None for worker in self.workers) < self.at_once:
            asked = again.pop() if again else next(ahead, None)
            if asked is None:
                break
            idle = next((worker for worker in self.workers if worker.job is None), None) or self.hire()
            idle.job, given = asked, True
            try:
                idle.line.send_bytes(pickle.dumps(asked))
            except OSError:  # it died while it had nothing to do
                self.bury(idle)
                again.append(asked)
        return given

    def hire(self) -> Worker:
        context = multiprocessing.get_context("spawn")  # a process that has met CUDA or threads cannot be forked
        ours, theirs = context.Pipe()
        arguments = (theirs, self.device, self.data_dir, self.threads)
        process = context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        theirs.close()  # so that its end is heard here
        worker = Worker(process, ours)
        self.workers.append(worker)
        return worker

    def bury(self, worker: Worker) -> None:
        worker.line.close()
        worker.process.join(CLOSING_SECONDS)
        self.workers.remove(worker)

    def close(self) -> None:
        """Those that are idle are let go, those at work are stopped."""
        for worker in self.workers:
            worker.line.close()
            if worker.job:
                worker.process.terminate()
        for worker in self.workers:
            worker.process.join(CLOSING_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
        self.workers.clear()


def died(worker: Worker, asked: Job) -> Exception:
    model, seed, code = asked.config.model, asked.config.seed, worker.process.exitcode
    hint = "out of memory, most likely: try fewer --jobs" if code == -signal.SIGKILL else "see its words above"
    return RuntimeError(f"the process that learnt {model}, seed {seed}, ended {TRIES} times with code {code}; {hint}")


def serve(line: Connection, device: str, data_dir: Path | None, threads: int | None) -> None:
    """A process's life: one job after the other until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one closes the others
    if threads is not None:
        torch.set_num_threads(threads)
    where = choose(device)

    def tell(**fields: Any) -> None:
        line.send_bytes(pickle.dumps(("news", fields)))

    with suppress(EOFError, BrokenPipeError):  # nobody is there any more
        while True:
            asked = pickle.loads(line.recv_bytes())
            line.send_bytes(attempt(partial(learn, asked, data_dir, where, [Narrator(tell)])))


def attempt(work: Callable[[], Outcome]) -> bytes:
    """How a job ended, packed: an error that does not survive the packing is told in words."""
    try:
        return pickle.dumps(("end", work()))
    except BrokenPipeError:
        raise
    except Exception as error:
        try:
            packed = pickle.dumps(("end", error))
            pickle.loads(packed)
        except Exception:
            packed = pickle.dumps(("end", RuntimeError(f"{type(error).__name__}: {error}")))
        return packed
