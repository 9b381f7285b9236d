"""`samc run`: one method on one stream, with live bars, a table at the end and a record of each seed on disk."""

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from samc.checkpoints import EVERY, Checkpoints
from samc.cli.drawing import draw
from samc.cli.flags import GroupedCommand, as_command
from samc.cli.progress import add_bar, live_progress
from samc.cli.seeds import parse_seeds
from samc.cli.unfinished import FILE as UNFINISHED
from samc.cli.unfinished import Unfinished, is_unfinished, kept_if_it_can_go_on, unfinished_folders
from samc.config import RunConfig, flag
from samc.device import choose
from samc.errors import ConfigError, DataError, OutputError
from samc.experiments.jobs import Executor, Job, Outcome, has_memory
from samc.experiments.local import ON_A_GPU, InProcess, LocalProcesses, threads_each
from samc.experiments.record_store import is_of_job
from samc.files import write_whole
from samc.learners import configure
from samc.memory.file import FILE
from samc.record import FILE as RECORD
from samc.record import RunRecord, claimed_folder
from samc.report.claims_table import diagnosis_table
from samc.report.summary import mean_over_seeds, summary_table
from samc.stopping import Stopped

AT_ONCE = {"cuda": ON_A_GPU}
# seeds by kind of device; on a CPU a single one is busy on all cores already
EXTRA = {
    "seeds": (
        str,
        "several runs instead of --seed, each as if it were alone: 0-4, 0,2,5 or 0-2,7; side by side on a GPU, one "
        "after the other on a CPU, whose cores a single one uses already",
    ),
    "data_dir": (Path, "where the data sets are  [default: $SAMC_DATA, else the cache folder]"),
    "device": (str, "auto, cpu or cuda  [default: auto]"),
    "out": (Path, "folder for the record; with --seeds, for a folder of each seed  [default: runs/...]"),
    "diagnose": (bool, "also measure, for samc, how far the paper's lemmas and theorem hold; the run is the same"),
    "resume": (Path, "go on with the run that was interrupted in this folder, to the same record; its settings hold"),
    "checkpoint_every": (
        str,
        "save the state after so many steps, as 500, or seconds, as 60s, and at each task's end; by seconds, less "
        f"often where saving would take a hundredth of the time  [default: {EVERY}]",
    ),
}
# flags that change where and how often a run is made, not what comes of it


def run(**given: Any) -> None:
    """Learn a stream with one method and write a record.

    Examples:

      samc run --model samc --dataset split-synthetic --seed 0 --out runs/first

      samc run --resume runs/first                          go on after an interruption

      samc run --model gem --dataset split-cifar100 --n-tasks 3 --samples-per-task 300

      samc run --model gem --dataset split-cifar100 --seeds 0-4 --out runs/gem

      samc run --dataset folder:my-pictures --n-tasks 4 --image-size 64 --threshold 0.6

      samc run --model er --backbone resnet18 --codec jpeg:10

      samc run --model er --help                            the flags of one method
    """
    extra = {name: given.pop(name) for name in EXTRA}
    folder, asked = extra.pop("resume"), Asked(**extra)
    settings = {name: value for name, value in given.items() if value is not None}
    if folder is None:
        execute(settings, asked)
    else:
        go_on(folder, settings, asked)


as_command(run, EXTRA)  # a setting that is added to a method is a flag at once
COMMAND_CLASS = GroupedCommand


@dataclass(frozen=True)
class Asked:
    """The flags of EXTRA but --resume; None where one was not given."""

    seeds: str | None
    data_dir: Path | None
    device: str | None
    out: Path | None
    diagnose: bool | None
    checkpoint_every: str | None


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
        return Job(self.config, keep_memory=True, diagnose=self.todo.diagnose)

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder.absolute(), self.todo.checkpoint_every)

    def save(self, outcome: Outcome) -> None:
        """Write the learner, its memory if it has one, and last the record; then nothing is needed to go on."""
        # kept before it is written: should the disk be full by now, the figures still come to the screen
        self.record, self.notes = outcome.record, outcome.notes
        for name, content in outcome.files.items():
            try:
                write_whole(self.folder / name, content, replace=True)
            except OSError as error:
                why = f"cannot write {self.folder / name}: {error.strerror}"
                again = f"go on with: {resuming(self.folder)}" if self.checkpoints.paths else "run again"
                raise OutputError(f"{why}; free some space and {again}") from None
        self.record.save(self.folder)
        self.checkpoints.clear()
        (self.folder / UNFINISHED).unlink(missing_ok=True)


def execute(given: dict[str, Any], asked: Asked) -> None:
    """Names, values and the places for all records are checked first; a seed that fails does not cost the others."""
    console = Console(markup=False, highlight=False)
    config, from_preset = configure(given)
    if asked.seeds is not None and "seed" in given:
        raise ConfigError("--seed and --seeds exclude each other; give one of them")
    if asked.seeds is not None and asked.diagnose:
        raise ConfigError("--diagnose takes one seed; give --seed instead of --seeds")
    numbers = (config.seed,) if asked.seeds is None else parse_seeds(asked.seeds)
    where = choose("auto" if asked.device is None else asked.device)
    named = f"seed{config.seed}" if asked.seeds is None else f"seeds{asked.seeds.replace(' ', '')}"
    folder = asked.out or Path("runs") / f"{slug(config.dataset)}-{config.model}-{named}-{moment()}"
    every = asked.checkpoint_every or EVERY
    runs = []
    for seed in numbers:
        todo = Unfinished(
            replace(config, seed=seed), bool(asked.diagnose), asked.data_dir, where.type, torch.get_num_threads(), every
        )
        runs.append(SeedRun(todo, folder if asked.seeds is None else folder / f"seed{seed}"))
    for run in runs:
        if asked.seeds is not None:
            take_up(run)
        elif is_unfinished(run.folder):
            raise OutputError(f"{run.folder} holds a run that was interrupted; go on with: {resuming(run.folder)}")
    shown = ", ".join(f"{flag(name)} {value}" for name, value in from_preset.items())
    preset = (f"preset for {config.dataset}: {shown}",) if from_preset else ()
    learn_runs(console, runs, folder, where, alone=asked.seeds is None, announced=preset)


def go_on(folder: Path, given: dict[str, Any], asked: Asked) -> None:
    """The runs in a folder from where they are, by the settings that they were begun with."""
    console = Console(markup=False, highlight=False)
    if asked.seeds is not None or (asked.out is not None and asked.out != folder):
        raise ConfigError(f"--resume {folder} has its seeds and its place; leave --seeds and --out out")
    runs = []
    for place in unfinished_folders(folder):
        todo = Unfinished.read(place)
        todo.check(given, place)
        if asked.diagnose is not None and asked.diagnose != todo.diagnose:
            raise ConfigError(
                f"{place} was begun {'with' if todo.diagnose else 'without'} --diagnose; leave it as it was"
            )
        if asked.device is not None and choose(asked.device).type != todo.device:
            raise ConfigError(
                f"{place} was begun on {todo.device}, where others may compute otherwise; leave --device out"
            )
        todo = replace(
            todo,
            data_dir=asked.data_dir or todo.data_dir,
            checkpoint_every=asked.checkpoint_every or todo.checkpoint_every,
        )
        runs.append(SeedRun(todo, place))
    where, alone = choose(runs[0].todo.device), runs[0].folder == folder
    if where.type == "cpu":
        torch.set_num_threads(runs[0].todo.threads)
    learn_runs(console, runs, folder, where, alone=alone)


def take_up(run: SeedRun) -> None:
    """Of several seeds: one that has its record is done, one that was interrupted goes on, if it is the same run."""
    if is_unfinished(run.folder):
        Unfinished.read(run.folder).check(run.config.as_dict(), run.folder)
    elif (run.folder / RECORD).exists():
        with suppress(DataError):
            record = RunRecord.load(run.folder)
            run.record = record if is_of_job(record, run.job) else None


def learn_runs(
    console: Console,
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
            console.print(line, soft_wrap=True)
        with saying_how_to_go_on(left, folder):
            learn_all(console, {run.job: run for run in left}, device)
        for note in dict.fromkeys(note for run in runs for note in run.notes):
            console.print(note, soft_wrap=True)
        show(console, runs, alone=alone)
        failed = {run.config.seed: run.failure for run in runs if run.failure}
        if failed and not alone:
            console.print(f"failed: seed {', '.join(map(str, failed))}")
        for failure in failed.values():
            raise failure  # the first; what else went wrong is most likely the same
    if alone:
        console.print(f"record: {folder / RECORD}", soft_wrap=True)
        if has_memory(config):
            console.print(f"memory: {folder / FILE}", soft_wrap=True)
    else:
        console.print(f"records: {folder}", soft_wrap=True)


def learn_all(console: Console, jobs: dict[Job, SeedRun], device: torch.device) -> None:
    """Every seed with its bar: side by side where that pays, one after the other where one fills the machine."""
    if not jobs:
        return
    at_once = min(len(jobs), AT_ONCE.get(device.type, 1))
    data_dir = next(iter(jobs.values())).todo.data_dir
    place = {job: run.checkpoints for job, run in jobs.items()}.__getitem__
    executor: Executor = InProcess(device, data_dir, place)
    if at_once > 1:
        executor = LocalProcesses(at_once, device.type, data_dir, threads_each(at_once), place)
    with live_progress(console) as progress:
        bars = {}
        for job in jobs:
            name = job.config.model if len(jobs) == 1 else f"{job.config.model}, seed {job.config.seed}"
            bars[job] = add_bar(progress, name)
        ends = executor.run(jobs, None if progress.disable else lambda job, fields: bars[job](**fields))
        for job, end in ends:
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


def show(console: Console, runs: Sequence[SeedRun], *, alone: bool) -> None:
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
    console.print(mean_over_seeds(records))


def moment() -> str:
    """Now, and which process: two runs that start in the same second do not share a folder."""
    return f"{datetime.now():%y%m%d-%H%M%S}-{os.getpid()}"


def slug(dataset: str) -> str:
    """A dataset's name as part of a folder's name."""
    name = Path(dataset.partition(":")[2]).stem if ":" in dataset else dataset
    return "".join(c if c.isalnum() else "-" for c in name).strip("-") or "data"
