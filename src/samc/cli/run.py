"""`samc run`: one method on one stream, with live bars, a table at the end and a record of each seed on disk."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from samc.cli.drawing import draw
from samc.cli.flags import GroupedCommand, as_command
from samc.cli.progress import add_bar, live_progress
from samc.cli.seeds import parse_seeds
from samc.config import RunConfig, flag
from samc.device import choose
from samc.errors import ConfigError, OutputError
from samc.experiments.jobs import Job, Outcome, has_memory
from samc.experiments.local import ON_A_GPU, InProcess, LocalProcesses, threads_each
from samc.files import write_whole
from samc.learners import configure
from samc.memory.file import FILE
from samc.record import FILE as RECORD
from samc.record import RunRecord, claimed_folder
from samc.report.claims_table import diagnosis_table
from samc.report.summary import mean_over_seeds, summary_table

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
}
# flags that change where and how often a run is made, not what comes of it


def run(**given: Any) -> None:
    """Learn a stream with one method and write a record.

    Examples:

      samc run --model samc --dataset split-synthetic --seed 0 --out runs/first

      samc run --model gem --dataset split-cifar100 --n-tasks 3 --samples-per-task 300

      samc run --model gem --dataset split-cifar100 --seeds 0-4 --out runs/gem

      samc run --dataset folder:my-pictures --n-tasks 4 --image-size 64 --threshold 0.6

      samc run --model er --backbone resnet18 --codec jpeg:10

      samc run --model er --help                            the flags of one method
    """
    where = {name: given.pop(name) for name in EXTRA}
    execute({name: value for name, value in given.items() if value is not None}, **where)


as_command(run, EXTRA)  # a setting that is added to a method is a flag at once
COMMAND_CLASS = GroupedCommand


@dataclass
class SeedRun:
    """One seed: its settings, the folder that it leaves its record in, and what has come of it so far."""

    config: RunConfig
    folder: Path
    record: RunRecord | None = None
    failure: Exception | None = None
    notes: tuple[str, ...] = ()

    def save(self, outcome: Outcome) -> None:
        """Write the record, and the memory of a method that has one."""
        # kept before it is written: should the disk be full by now, the figures still come to the screen
        self.record, self.notes = outcome.record, outcome.notes
        self.record.save(self.folder)
        for name, content in outcome.files.items():
            try:
                write_whole(self.folder / name, content, replace=False)
            except OSError as error:
                why = f"cannot write {self.folder / name}: {error.strerror}"
                raise OutputError(f"{why}; the record is whole, for the memory free some space and run again") from None


def execute(
    given: dict[str, Any],
    seeds: str | None,
    data_dir: Path | None,
    device: str | None,
    out: Path | None,
    diagnose: bool | None,
) -> None:
    """Names, values and the places for all records are checked first; a seed that fails does not cost the others."""
    console = Console(markup=False, highlight=False)
    config, from_preset = configure(given)
    if seeds is not None and "seed" in given:
        raise ConfigError("--seed and --seeds exclude each other; give one of them")
    if seeds is not None and diagnose:
        raise ConfigError("--diagnose takes one seed; give --seed instead of --seeds")
    numbers = (config.seed,) if seeds is None else parse_seeds(seeds)
    where = choose("auto" if device is None else device)
    named = f"seed{config.seed}" if seeds is None else f"seeds{seeds.replace(' ', '')}"
    folder = out or Path("runs") / f"{slug(config.dataset)}-{config.model}-{named}-{moment()}"
    runs = [
        SeedRun(replace(config, seed=seed), folder if seeds is None else folder / f"seed{seed}") for seed in numbers
    ]
    with ExitStack() as claimed:
        for run in runs:
            claimed.enter_context(claimed_folder(run.folder))
            if has_memory(config) and (run.folder / FILE).exists():
                raise OutputError(f"{run.folder / FILE} is there already; choose another --out or remove it")
        if from_preset:
            shown = ", ".join(f"{flag(name)} {value}" for name, value in from_preset.items())
            console.print(f"preset for {config.dataset}: {shown}", soft_wrap=True)
        jobs = {Job(run.config, keep_memory=True, diagnose=bool(diagnose)): run for run in runs}
        learn_all(console, jobs, data_dir, where)
        for note in dict.fromkeys(note for run in runs for note in run.notes):
            console.print(note, soft_wrap=True)
        show(console, runs, seeds)
        failed = {run.config.seed: run.failure for run in runs if run.failure}
        if failed and seeds is not None:
            console.print(f"failed: seed {', '.join(map(str, failed))}")
        for failure in failed.values():
            raise failure  # the first; what else went wrong is most likely the same
    if seeds is None:
        console.print(f"record: {folder / RECORD}", soft_wrap=True)
        if has_memory(config):
            console.print(f"memory: {folder / FILE}", soft_wrap=True)
    else:
        console.print(f"records: {folder}", soft_wrap=True)


def learn_all(console: Console, jobs: dict[Job, SeedRun], data_dir: Path | None, device: torch.device) -> None:
    """Every seed with its bar: side by side where that pays, one after the other where one fills the machine."""
    at_once = min(len(jobs), AT_ONCE.get(device.type, 1))
    threads = threads_each(at_once)
    executor = InProcess(device, data_dir) if at_once == 1 else LocalProcesses(at_once, device.type, data_dir, threads)
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


def show(console: Console, runs: Sequence[SeedRun], seeds: str | None) -> None:
    """A table of what has been learnt; of several seeds also their mean."""
    records = [run.record for run in runs if run.record]
    if not records:
        return
    model, stream = records[0].config["model"], records[0].fingerprint["stream"]
    if seeds is None:
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
