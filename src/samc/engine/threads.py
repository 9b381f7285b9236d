"""Jobs on the cores of a CPU: one core per job, which is cheaper than all cores on one job after the other."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

Result = TypeVar("Result")
Work = Callable[[], object]

STARTING = threading.Lock()
# threads that ask for the pool at once shall get the same one


class SideWork(threading.local):
    """Who does a job's side work: the job itself, or in the end whatever thread of the pool is free."""

    pool: ThreadPoolExecutor | None = None
    handed_over: list[Future]


SIDE_WORK = SideWork()


def do_aside(work: Work) -> None:
    """Work of a job whose result the job does not need: done at once, or by a thread that has nothing else to do."""
    if SIDE_WORK.pool is None:
        work()
    else:
        SIDE_WORK.handed_over.append(SIDE_WORK.pool.submit(work))


def in_parallel(jobs: Sequence[Callable[[], Result]], sizes: Sequence[int]) -> list[Result]:
    """The results in order; as many at a time as torch may use cores. An error in one of them is raised here.

    All cores together do what would keep most of them idle: a job larger than a core's share, and a few jobs. In the
    last full round and what is left over after it, who is done helps the others with their side work.
    """
    cores = torch.get_num_threads()
    small = [place for place, size in enumerate(sizes) if size * cores <= sum(sizes)]
    if cores == 1 or 2 * len(small) <= cores:
        return [job() for job in jobs]
    with STARTING:
        threads = pool(cores)
    small.reverse()  # the batch's own comes last and takes longest where past tasks are in bf16: begin with it
    helped = set(small[-cores - len(small) % cores :])
    handed_over: list[Future] = []

    def perform(place: int) -> Result:
        SIDE_WORK.pool, SIDE_WORK.handed_over = (threads if place in helped else None), handed_over
        return jobs[place]()

    results = dict(zip(small, threads.map(perform, small), strict=True))
    for work in handed_over:
        work.result()
    return [results[place] if place in results else jobs[place]() for place in range(len(jobs))]


@cache
def pool(cores: int) -> ThreadPoolExecutor:
    """Threads that work with one core each."""
    together = threading.Barrier(cores + 1)

    def take_one_core() -> None:
        torch.get_num_threads()  # a thread takes over the common number when it is first asked; later is too late
        torch.set_num_threads(1)
        together.wait()

    threads = ThreadPoolExecutor(cores, "samc")
    waiting = [threads.submit(take_one_core) for _ in range(cores)]
    together.wait()
    for thread in waiting:
        thread.result()
    torch.set_num_threads(cores)  # threads that start later, and some libraries, have heard of the 1
    return threads
