"""Runs that are learnt from the command line: live bars, a table at the end, and on disk what each of them leaves."""

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import torch

from samc.checkpoints import Checkpoints
from samc.cli.drawing import Terminal, draw
from samc.cli.page import leave_page
from samc.cli.progress import Bar, live_progress, reading_bar
from samc.cli.terminal import say
from samc.cli.unfinished import FILE as UNFINISHED
from samc.cli.unfinished import Unfinished, is_unfinished, kept_if_it_can_go_on
from samc.config import RunConfig
from samc.errors import OutputError
from samc.experiments.jobs import Executor, Job, Outcome, has_memory
from samc.experiments.local import ON_A_GPU, InProcess, LocalProcesses, threads_each
from samc.files import write_whole
from samc.loggers import LOGGERS
from samc.loggers.watcher import Logs
from samc.memory.file import FILE
from samc.record import FILE as RECORD
from samc.record import RunRecord, claimed_folder
from samc.report.claims_table import diagnosis_table
from samc.report.summary import mean_over_seeds, summary_table
from samc.stopping import Stopped

AT_ONCE = {"cuda": ON_A_GPU}
# seeds by kind of device; on a CPU a single one is busy on all cores already


@dataclass
class SeedRun:
    """One seed: what it is, the folder that it leaves its record in, and what has come of it so far."""

    todo: Unfinished
    folder: Path
    record: RunRecord | None = None
    failure: Exception | None = None
    notes: tuple[str, ...] = ()

    @property
    def config(self) -> RunConfig:
        return self.todo.config

    @property
    def job(self) -> Job:
        return Job(self.config, keep_memory=True, diagnose=self.todo.diagnose, continues=self.todo.continues)

    @property
    def logs(self) -> Logs | None:
        return Logs(self.folder.absolute(), self.todo.log) if self.todo.log else None

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder.absolute(), self.todo.checkpoint_every)

    def save(self, outcome: Outcome) -> None:
        """Write the learner, its memory if it has one, and last the record; then nothing is needed to go on."""
        # kept before it is written: should the disk be full by now, the figures still come to the screen
        self.record, self.notes = outcome.record, outcome.notes
        try:
            for name, content in outcome.files.items():
                try:
                    write_whole(self.folder / name, content, replace=True)
                except OSError as error:
                    why = f"cannot write {self.folder / name}: {error.strerror}"
                    again = f"go on with: {resuming(self.folder)}" if self.checkpoints.paths else "run again"
                    raise OutputError(f"{why}; free some space and {again}") from None
            self.record.save(self.folder)
        except OutputError:
            for name in outcome.files if not self.checkpoints.paths else ():
                (self.folder / name).unlink(missing_ok=True)  # else the same command would find them in its way
            raise
        self.checkpoints.clear()
        (self.folder / UNFINISHED).unlink(missing_ok=True)


def learn_runs(
    runs: Sequence[SeedRun],
    folder: Path,
    device: torch.device,
    *,
    alone: bool,
    announced: Sequence[str] = (),
) -> None:
    """Learn what has no record yet, and show all; `folder` is what the user knows of."""
    left, config = [run for run in runs if run.record is None], runs[0].config
    with ExitStack() as claimed:
        for run in left:
            claimed.enter_context(claimed_folder(run.folder))
            if has_memory(config) and (run.folder / FILE).exists() and not is_unfinished(run.folder):
                raise OutputError(f"{run.folder / FILE} is there already; choose another --out or remove it")
        for run in left:
            claimed.enter_context(kept_if_it_can_go_on(run.folder))
            run.todo.write(run.folder)
        done = ", ".join(str(run.config.seed) for run in runs if run.record)
        for line in (*announced, *([f"seed {done}: there already"] if done else ())):
            say(line)
        with saying_how_to_go_on(left, folder):
            learn_all({run.job: run for run in left}, device)
        for note in dict.fromkeys(note for run in runs for note in run.notes):
            say(note)
        show(runs, alone=alone)
        failed = {run.config.seed: run.failure for run in runs if run.failure}
        if failed and not alone:
            say(f"failed: seed {', '.join(map(str, failed))}")
        for failure in failed.values():
            raise failure  # the first; what else went wrong is most likely the same
    leave_page(folder)
    if alone:
        say(f"record: {folder / RECORD}")
        if has_memory(config):
            say(f"memory: {folder / FILE}")
        for name in runs[0].todo.log:
            say(f"log: {folder / LOGGERS[name].place}")
    else:
        say(f"records: {folder}")


def learn_all(jobs: dict[Job, SeedRun], device: torch.device) -> None:
    """Every seed with its bar: side by side where that pays, one after the other where one fills the machine."""
    if not jobs:
        return
    at_once = min(len(jobs), AT_ONCE.get(device.type, 1))
    data_dir = next(iter(jobs.values())).todo.data_dir
    place = {job: run.checkpoints for job, run in jobs.items()}.__getitem__
    logs = {job: run.logs for job, run in jobs.items()}.__getitem__
    executor: Executor = InProcess(device, data_dir, place, logs)
    if at_once > 1:
        executor = LocalProcesses(at_once, device.type, data_dir, threads_each(at_once), place, logs)
    dataset = next(iter(jobs)).config.dataset
    with live_progress(Terminal()) as progress, reading_bar(progress, dataset):
        bars = {}
        for job in jobs:
            name = job.config.model if len(jobs) == 1 else f"{job.config.model}, seed {job.config.seed}"
            bars[job] = Bar(progress, name)
        for job, end in executor.run(jobs, lambda job, fields: bars[job].tell(**fields)):
            try:
                if isinstance(end, Exception):
                    raise end
                jobs[job].save(end)
            except Exception as error:
                jobs[job].failure = error


@contextmanager
def saying_how_to_go_on(runs: Sequence[SeedRun], folder: Path) -> Iterator[None]:
    """What a signal ends, ends with the command that goes on."""
    try:
        yield
    except KeyboardInterrupt:  # seeds side by side have saved what they could, a run that was stopped at once has not
        if not any(run.checkpoints.paths for run in runs):
            raise
        raise Stopped(signal.SIGINT, f"go on with: {resuming(folder)}") from None
    except Stopped as stopped:
        raise Stopped(stopped.number, f"{stopped.remedy}; go on with: {resuming(folder)}") from None


def resuming(folder: Path) -> str:
    return f"samc run --resume {shlex.quote(str(folder))}"


def show(runs: Sequence[SeedRun], *, alone: bool) -> None:
    """A table of what has been learnt; of several seeds also their mean."""
    records = [run.record for run in runs if run.record]
    if not records:
        return
    model, stream = records[0].config["model"], records[0].fingerprint["stream"]
    if alone:
        draw(summary_table({model: records[0]}, f"{stream}, seed {records[0].config['seed']}"))
        if records[0].diagnosis is not None:
            draw(diagnosis_table(records[0].diagnosis))
        return
    draw(summary_table({str(record.config["seed"]): record for record in records}, f"{stream}, {model}", "seed"))
    say(mean_over_seeds(records))


def default_folder(config: RunConfig, name: str) -> Path:
    """For runs that are given none. Two that start in the same second do not share it."""
    return Path("runs") / f"{slug(config.dataset)}-{config.model}-{name}-{datetime.now():%y%m%d-%H%M%S}-{os.getpid()}"


def slug(dataset: str) -> str:
    """A dataset's name as part of a folder's name."""
    name = Path(dataset.partition(":")[2]).stem if ":" in dataset else dataset
    return "".join(c if c.isalnum() else "-" for c in name).strip("-") or "data"
