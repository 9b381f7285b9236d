"""A folder of many runs: each job has a place in it, is written whole, and is learnt by one process at a time."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from samc.checkpoints import Checkpoints
from samc.config import before_they_were, may_be_none
from samc.errors import DataError, OutputError
from samc.experiments.jobs import Job, Outcome, defaults_of
from samc.experiments.pictures import PICTURES
from samc.files import held_alone, write_whole
from samc.learners import method
from samc.memory import AUTO, Budget, codec_for
from samc.memory.budget import parse_budget
from samc.record import FILE, RunRecord

STATED = ("dataset", "model", "seed")
# what a record has to say itself: no default stands for it


class RecordStore:
    """Where the records of jobs lie. Several processes, on several machines, may share one folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def place(self, job: Job) -> Path:
        """The folder that the job's record is written to."""
        return self.folder / job.name

    def find(self, job: Job) -> RunRecord | None:
        """The record of a job that has been learnt, if it has."""
        found = self.locate(job)
        return found[1] if found else None

    def locate(self, job: Job) -> tuple[Path, RunRecord] | None:
        """A job's record and the folder that it lies in: the job's own place, or any whose record is of equal settings.

        A job's place follows from the settings that are not at their defaults, so that a default which changes moves
        it; records that were written before are found by their settings.
        """
        place = self.place(job)
        if is_written(place / FILE):
            record = RunRecord.load(place)
            if is_of_job(record, job):
                return place, record
        for folder, record in self.index.get(tuple(job.config.as_dict()[name] for name in STATED), ()):
            if is_of_job(record, job) and self.has_same_extras(folder, record, job):
                return folder, record
        return None

    def has_same_extras(self, folder: Path, record: RunRecord, job: Job) -> bool:
        """Whether a run left what the job asks for, and no more: more takes longer, and a record counts its seconds.

        Pictures hold pixels of the data set and may have been left behind; then the folder's name tells of them.
        """
        pictures = (folder / PICTURES).exists() or folder == self.place(replace(job, pictures=True))
        return (record.diagnosis is not None, pictures) == (job.diagnose, job.pictures)

    @cached_property
    def index(self) -> dict[tuple[Any, ...], list[tuple[Path, RunRecord]]]:
        """All records that are there when this is first asked for, by stream, method and seed.

        It need not be kept up to date: what is written later lies in the place of its job.
        """
        records = defaultdict(list)
        for path in filter(is_written, sorted(self.folder.rglob(FILE))):
            with suppress(DataError):  # a damaged one is reported when the job whose place it lies in is asked for
                record = RunRecord.load(path)
                if all(name in record.config for name in STATED):
                    records[tuple(record.config[name] for name in STATED)].append((path.parent, record))
        return records

    def keep(self, job: Job, outcome: Outcome) -> None:
        """Files first, the record last: where there is a record, there is all of it."""
        place = self.place(job)
        try:
            place.mkdir(parents=True, exist_ok=True)
            for name, content in outcome.files.items():
                write_whole(place / name, content, replace=True)
        except OSError as error:
            raise OutputError(f"cannot write to {place}: {error.strerror}; free some space, then go on") from None
        outcome.record.save(place, replace=True)
        self.checkpoints(job).clear()

    def checkpoints(self, job: Job) -> Checkpoints:
        """Of a job that is learnt, in its place. What another version left there is of no use, and is replaced."""
        return Checkpoints(self.place(job).absolute(), discard_others=True)

    @contextmanager
    def claim(self, job: Job) -> Iterator[bool]:
        """Whether this process may learn a job now. The system ends a claim with its process, however it ends."""
        place = self.place(job)
        with ExitStack() as held:
            try:
                place.mkdir(parents=True, exist_ok=True)
                mine = held.enter_context(held_alone(place))
            except OSError as error:
                raise OutputError(f"cannot write to {place}: {error.strerror}; choose another --out") from None
            yield mine


def is_written(path: Path) -> bool:
    """A file system without hard links takes the name of a record before its content arrives."""
    return path.exists() and path.stat().st_size > 0


def is_of_job(record: RunRecord, job: Job) -> bool:
    """Whether a record is of a job's settings. One that it does not state must be as it was before it could be stated.

    Where a value came from (`preset`) does not matter.
    """
    config = job.config.as_dict()
    defaults = defaults_of(job.config) | before_they_were(type(job.config.settings))
    for name in (config.keys() | record.config.keys()) - {"preset"}:
        stated, wanted = record.config.get(name), config.get(name)
        if name == "codec" and AUTO in (stated, wanted) and "codec" in record.memory:
            stated, wanted = record.memory["codec"], codec_of(record, job)
        if stated is None and wanted is not None and name not in STATED and not states_none(record, job, name):
            stated = defaults.get(name)
        if stated != wanted:
            return False
    return True


def codec_of(record: RunRecord, job: Job) -> str:
    """The codec that a job would use under a record's budget: what `auto` stands for may change, a record may not."""
    spec, learner = job.config.as_dict()["codec"], method(job.config.model)
    if spec != AUTO or "budget_bytes" not in record.memory:
        return spec
    channels, height, width = record.fingerprint["image_shape"]
    stated = record.config.get("memory_bytes")
    # one for all tasks is by far more than a task's share of it, which is what a record counts
    budget = parse_budget(stated) if stated else Budget(record.memory["budget_bytes"], per_task=True)
    return codec_for(budget, (channels, height, width), getattr(learner, "salient", False))


def states_none(record: RunRecord, job: Job, name: str) -> bool:
    """Whether None is what a record says; else it is a gap, which older versions wrote as None too."""
    kinds = (type(job.config), type(job.config.settings))
    return name in record.config and any(name in may_be_none(kind) for kind in kinds)
