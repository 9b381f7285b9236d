"""A folder of many runs: each has its place, is written whole, and is learnt by one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from samc.errors import OutputError
from samc.experiments.jobs import Job, Outcome
from samc.files import write_whole
from samc.record import FILE, RunRecord

CLAIM = ".claimed"


class Shelf:
    """Where the records of jobs lie. Several processes, on several machines, may share one."""

    def __init__(self, folder: Path):
        self.folder = folder

    def place(self, asked: Job) -> Path:
        return self.folder / asked.name

    def find(self, asked: Job) -> RunRecord | None:
        """The record of a job that has been learnt, if it has; one of other settings, whose place this was, is none."""
        path = self.place(asked) / FILE
        if not path.exists() or not path.stat().st_size:
            return None
        record, config = RunRecord.load(path), asked.config.as_dict()
        same = all(value == config.get(name) for name, value in record.config.items() if name != "preset")
        return record if same else None

    def keep(self, asked: Job, outcome: Outcome) -> None:
        """Files first, the record last: where there is a record, there is all of it."""
        place = self.place(asked)
        try:
            place.mkdir(parents=True, exist_ok=True)
            for name, content in outcome.files.items():
                write_whole(place / name, content, replace=True)
        except OSError as error:
            raise OutputError(f"cannot write to {place}: {error.strerror}; free some space, then go on") from None
        outcome.record.save(place, replace=True)

    @contextmanager
    def claim(self, asked: Job) -> Iterator[bool]:
        """Whether this process may learn a job now. The system ends a claim with its process, however it ends."""
        place = self.place(asked)
        try:
            place.mkdir(parents=True, exist_ok=True)
            file = os.open(place / CLAIM, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise OutputError(f"cannot write to {place}: {error.strerror}; choose another --out") from None
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                mine = os.path.samestat(os.fstat(file), os.stat(place / CLAIM))
            except (BlockingIOError, FileNotFoundError):
                mine = False
            if not mine:  # another's, or what the last one has removed since: a third may hold a new one
                yield False
                return
            yield True
            (place / CLAIM).unlink(missing_ok=True)
        finally:
            os.close(file)
