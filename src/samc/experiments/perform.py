"""Jobs from a shelf to an engine and back: what is learnt already stays, what is not is learnt by one process only."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from typing import Any

from samc.experiments.jobs import Engine, Job, Outcome
from samc.experiments.shelf import Shelf
from samc.record import RunRecord

WAIT_SECONDS = 1.0
# between looks at jobs that another process is learning


class Audience:
    """Somebody who is told how the work goes on; does nothing unless a method is overridden."""

    def began(self, asked: Job) -> None: ...
    def news(self, asked: Job, fields: dict[str, Any]) -> None: ...
    def ended(self, asked: Job, record: RunRecord) -> None: ...
    def failed(self, asked: Job, error: Exception) -> None: ...
    def elsewhere(self, jobs: list[Job]) -> None: ...


def perform(
    jobs: Iterable[Job],
    shelf: Shelf,
    engine: Engine,
    audience: Audience,
    sleep: Callable[[float], object] = time.sleep,
) -> dict[Job, Exception]:
    """Learn what has not been learnt, each job once, and say which could not be.

    A job that another process is learning is left to it, and taken over should that process end without a record.
    """
    left, failures = list(dict.fromkeys(jobs)), dict[Job, Exception]()
    while left:
        taken: list[Job] = []
        with ExitStack() as claims:
            held: dict[Job, ExitStack] = {}
            ready = free(left, shelf, taken, held, claims, audience)
            first = list(islice(ready, 1))  # an engine is started for work only, not to wait for another's
            for asked, end in engine.run(chain(first, ready), audience.news) if first else ():
                if isinstance(end, Outcome):
                    shelf.keep(asked, end)
                    audience.ended(asked, end.record)
                else:
                    failures[asked] = end
                    audience.failed(asked, end)
                held.pop(asked).close()
        left = [asked for asked in taken if shelf.find(asked) is None and asked not in failures]
        if left:
            audience.elsewhere(left)
            sleep(WAIT_SECONDS)
    return failures


def free(
    jobs: list[Job], shelf: Shelf, taken: list[Job], held: dict[Job, ExitStack], claims: ExitStack, audience: Audience
) -> Iterator[Job]:
    """Jobs that nobody has learnt and nobody is learning, claimed one by one as they are asked for."""
    for asked in jobs:
        if shelf.find(asked):
            continue
        own = ExitStack()
        if not own.enter_context(shelf.claim(asked)):
            own.close()
            taken.append(asked)
            continue
        if shelf.find(asked):  # it was finished between the look and the claim
            own.close()
            continue
        held[asked] = claims.enter_context(own)
        audience.began(asked)
        yield asked
