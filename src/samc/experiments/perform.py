"""Jobs that have no record yet go to an executor, and their records to a store; each is learnt by one process only."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from typing import Any

from samc.experiments.jobs import Executor, Job, Outcome
from samc.experiments.record_store import RecordStore
from samc.record import RunRecord

WAIT_SECONDS = 1.0
# between two checks on jobs that another process is learning


class Listener:
    """Is told how the work goes on; does nothing unless a method is overridden."""

    def began(self, job: Job) -> None: ...
    def progressed(self, job: Job, fields: dict[str, Any]) -> None: ...
    def ended(self, job: Job, record: RunRecord) -> None: ...
    def failed(self, job: Job, error: Exception) -> None: ...
    def elsewhere(self, jobs: list[Job]) -> None: ...


def perform(
    jobs: Iterable[Job],
    store: RecordStore,
    executor: Executor,
    listener: Listener,
    sleep: Callable[[float], object] = time.sleep,
) -> dict[Job, Exception]:
    """Learn what has no record yet, each job once, and return the errors of those that failed.

    A job that another process is learning is left to it, and taken over should that process end without a record.
    """
    left, failures = list(dict.fromkeys(jobs)), dict[Job, Exception]()
    while left:
        taken: list[Job] = []
        with ExitStack() as claims:
            held: dict[Job, ExitStack] = {}
            ready = claim_free(left, store, taken, held, claims, listener)
            first = list(islice(ready, 1))  # an executor is started for work only, not to wait for another's
            for job, end in executor.run(chain(first, ready), listener.progressed) if first else ():
                if isinstance(end, Outcome):
                    store.keep(job, end)
                    listener.ended(job, end.record)
                else:
                    failures[job] = end
                    listener.failed(job, end)
                held.pop(job).close()
        left = [job for job in taken if store.find(job) is None and job not in failures]
        if left:
            listener.elsewhere(left)
            sleep(WAIT_SECONDS)
    return failures


def claim_free(
    jobs: list[Job],
    store: RecordStore,
    taken: list[Job],
    held: dict[Job, ExitStack],
    claims: ExitStack,
    listener: Listener,
) -> Iterator[Job]:
    """Jobs without a record that nobody is learning, claimed one by one as they are asked for."""
    for job in jobs:
        if store.find(job):
            continue
        claim = ExitStack()
        if not claim.enter_context(store.claim(job)):
            claim.close()
            taken.append(job)
            continue
        if store.find(job):  # it was finished between the check and the claim
            claim.close()
            continue
        held[job] = claims.enter_context(claim)
        listener.began(job)
        yield job
