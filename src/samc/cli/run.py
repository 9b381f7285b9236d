"""`samc run`: one method on one stream, once or for several seeds; or what is left of it after an interruption."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from samc.checkpoints import EVERY
from samc.cli.flags import GroupedCommand, as_command
from samc.cli.learning import SeedRun, default_folder, learn_runs, resuming
from samc.cli.seeds import parse_seeds
from samc.cli.unfinished import Unfinished, is_unfinished, unfinished_folders
from samc.config import flag
from samc.device import choose
from samc.errors import ConfigError, DataError, OutputError
from samc.experiments.record_store import is_of_job
from samc.learners import configure
from samc.loggers import LOGGERS, checked_loggers
from samc.record import FILE as RECORD
from samc.record import RunRecord

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
    "log": (
        list[str],
        f"also write figures and pictures of the memory as the run goes on: {', '.join(LOGGERS)}; may be given again",
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

      samc run --log csv --log tensorboard                  figures as it goes on

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
    log: list[str] | None


def execute(given: dict[str, Any], asked: Asked) -> None:
    """Names, values and the places for all records are checked first; a seed that fails does not cost the others."""
    config, from_preset = configure(given)
    if asked.seeds is not None and "seed" in given:
        raise ConfigError("--seed and --seeds exclude each other; give one of them")
    if asked.seeds is not None and asked.diagnose:
        raise ConfigError("--diagnose takes one seed; give --seed instead of --seeds")
    numbers = (config.seed,) if asked.seeds is None else parse_seeds(asked.seeds)
    where = choose("auto" if asked.device is None else asked.device)
    named = f"seed{config.seed}" if asked.seeds is None else f"seeds{asked.seeds.replace(' ', '')}"
    folder = asked.out or default_folder(config, named)
    every = EVERY if asked.checkpoint_every is None else asked.checkpoint_every
    logs = checked_loggers(asked.log or ())
    runs = []
    for seed in numbers:
        machine = asked.data_dir, where.type, torch.get_num_threads()
        todo = Unfinished(replace(config, seed=seed), bool(asked.diagnose), *machine, every, log=logs)
        runs.append(SeedRun(todo, folder if asked.seeds is None else folder / f"seed{seed}"))
    for run in runs:
        if asked.seeds is not None:
            take_up(run)
        elif is_unfinished(run.folder):
            raise OutputError(f"{run.folder} holds a run that was interrupted; go on with: {resuming(run.folder)}")
    shown = ", ".join(f"{flag(name)} {value}" for name, value in from_preset.items())
    preset = (f"preset for {config.dataset}: {shown}",) if from_preset else ()
    learn_runs(runs, folder, where, alone=asked.seeds is None, announced=preset)


def go_on(folder: Path, given: dict[str, Any], asked: Asked) -> None:
    """The runs in a folder from where they are, by the settings that they were begun with."""
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
            checkpoint_every=todo.checkpoint_every if asked.checkpoint_every is None else asked.checkpoint_every,
            log=checked_loggers(asked.log or todo.log),
        )
        runs.append(SeedRun(todo, place))
    where, alone = choose(runs[0].todo.device), runs[0].folder == folder
    if where.type == "cpu":
        torch.set_num_threads(runs[0].todo.threads)
    learn_runs(runs, folder, where, alone=alone)


def take_up(run: SeedRun) -> None:
    """Of several seeds: one that has its record is done, one that was interrupted goes on, if it is the same run."""
    if is_unfinished(run.folder):
        Unfinished.read(run.folder).check(run.config.as_dict(), run.folder)
    elif (run.folder / RECORD).exists():
        with suppress(DataError):
            record = RunRecord.load(run.folder)
            run.record = record if is_of_job(record, run.job) else None
