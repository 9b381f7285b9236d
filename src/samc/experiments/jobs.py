"""A job is one run: its settings, and what is wanted of it besides its record; learning it needs nothing else."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from samc.checkpoints import Checkpoints
from samc.config import RunConfig, Settings, setting_fields
from samc.experiments.continuing import Earlier, taken_up
from samc.experiments.diagnosis import Diagnosis
from samc.experiments.pictures import PICTURES, PictureCollector
from samc.experiments.progress_log import ProgressLog
from samc.experiments.recollection import FILE as RECOLLECTION
from samc.experiments.recollection import Recollector
from samc.learners import build, configure, method
from samc.learners.saving import FILE as LEARNER
from samc.learners.saving import learner_file
from samc.loggers.watcher import Logs, LogWatcher
from samc.memory.file import FILE as MEMORY
from samc.memory.file import file_of
from samc.protocol import Watcher, learn_stream
from samc.record import RunRecord
from samc.streams import configured_stream


@dataclass(frozen=True)
class Job:
    """One run. `keep_memory` and `pictures` ask for files next to the record, `diagnose` for more in it.

    With its memory a run leaves its learner. One that `continues` another goes on with that one's.
    """

    config: RunConfig
    keep_memory: bool = False
    diagnose: bool = False
    pictures: bool = False
    continues: Earlier | None = None

    @property
    def name(self) -> str:
        """Where its record lies in a folder of many: the same for equal jobs, another for any other.

        Settings at their defaults are left out, so that a setting which is added later leaves the names as they are.
        """
        plain = defaults_of(self.config) | {"dataset": None, "model": None}
        changed = {name: value for name, value in self.config.as_dict().items() if value != plain[name]}
        wanted = {name: value for name, value in changed.items() if name not in ("seed", "preset")}
        wanted |= {name: True for name in ("diagnose", "pictures") if getattr(self, name)}
        wanted |= {"continues": self.continues.record} if self.continues else {}
        digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:10]
        stream = "".join(c if c.isalnum() else "-" for c in self.config.dataset)
        return f"{stream}/{self.config.model}-{digest}/seed{self.config.seed}"


def make_job(given: dict[str, Any], **extras: Any) -> Job:
    """The job of some settings, as the command line would take them: over preset over defaults."""
    return Job(configure(given)[0], **extras)


def defaults_of(config: RunConfig) -> dict[str, Any]:
    """What every setting of a config would be if nobody had given it."""
    kinds: tuple[type[Settings], ...] = (RunConfig, type(config.settings))
    return {item.name: item.default for kind in kinds for item in setting_fields(kind)}


@dataclass(frozen=True)
class Outcome:
    """What a job leaves: its record, the files that were asked for, by name, and what its user should know of it."""

    record: RunRecord
    files: dict[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


OnProgress = Callable[[Job, dict[str, Any]], None]
# called with a job and what its narrator tells, by name


@runtime_checkable
class Executor(Protocol):
    """Where jobs are learnt. A job is taken only when it can start, and each comes back once."""

    def run(self, jobs: Iterable[Job], on_progress: OnProgress | None) -> Iterator[tuple[Job, Outcome | Exception]]: ...


Place = Callable[[Job], Checkpoints | None]
# where a job's state is saved while it is learnt, if anywhere
LogPlace = Callable[[Job], Logs | None]
# which logs a job writes, and where


def nowhere(job: Job) -> None:
    return None


def learn(
    job: Job,
    data_dir: Path | None,
    device: torch.device,
    watchers: Sequence[Watcher] = (),
    checkpoints: Checkpoints | None = None,
    logs: Logs | None = None,
) -> Outcome:
    """Learn a job's stream to its end: from the beginning, or from the last checkpoint."""
    config, taken, warned = job.config, None, list[str]()
    if job.continues:
        taken = taken_up(job.continues, config, data_dir, device)
        stream, learner = taken.stream, taken.learner
        config = replace(config, settings=learner.settings)
    else:
        stream = configured_stream(config, data_dir)
        learner = build(config, stream, device)
    diagnosis = Diagnosis() if job.diagnose else None
    collector = PictureCollector() if job.pictures else None
    recollector = Recollector() if job.keep_memory else None
    if checkpoints is not None and not checkpoints.folder.is_dir():  # on another machine, which does not share it
        checkpoints = None
    progress = None
    if job.keep_memory and checkpoints:
        progress = ProgressLog(checkpoints.folder, fresh=not checkpoints.paths)
    log = LogWatcher(logs, config.as_dict(), warned.append) if logs else None
    extra = diagnosis, collector, recollector, progress, log
    with closing(log) if log else nullcontext():
        record = learn_stream(
            stream,
            learner,
            batch_size=config.batch_size,
            n_epochs=config.n_epochs,
            watchers=[*watchers, *(watcher for watcher in extra if watcher)],
            config=config.as_dict(),
            checkpoints=checkpoints,
            so_far=taken.so_far if taken else None,
            test_every=config.test_every,
        )
    files = {}
    notes: tuple[str, ...] = () if learner.engine.program else (f"network: {learner.engine.way}",)
    if taken:
        record = replace(record, continues=taken.continues, notes=[*(record.notes or ()), *taken.notes] or None)
    if diagnosis:
        record = replace(record, diagnosis=diagnosis.report())
    if collector:
        files[PICTURES] = collector.pack()
    if recollector and (recalled := recollector.recollection()):
        files[RECOLLECTION] = recalled.pack()
    if job.keep_memory:
        if has_memory(config):
            files[MEMORY] = file_of(learner.memory)  # type: ignore[attr-defined]
        try:
            files[LEARNER] = learner_file(learner)
        except TypeError as error:  # a method of somebody's own: its record is not lost for that
            notes = (*notes, f"no learner is left: {error}")
    saving = dict.fromkeys(checkpoints.notes if checkpoints else ())
    numbered = (taken.numbering,) if taken else ()
    return Outcome(record, files, (*numbered, *notes, *saving, *warned, *(record.notes or ())))


def has_memory(config: RunConfig) -> bool:
    """Whether the method keeps an episodic memory; without one there is nothing to write."""
    return hasattr(method(config.model), "memory")
