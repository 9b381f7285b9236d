"""`samc run`: one method on one stream, with a live bar, a table at the end and a record on disk."""

import inspect
import os
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from samc.cli.progress import Bar
from samc.config import RunConfig, flag, resolve
from samc.device import choose
from samc.errors import OutputError
from samc.experiments.diagnosis import Diagnosis
from samc.learners import build, method
from samc.memory.file import FILE
from samc.protocol import run
from samc.record import claimed_folder
from samc.report.diagnosis import claims
from samc.report.table import summary
from samc.streams import open_stream

HELP = """Learn a stream with one method and write a record.

Examples:

  samc run --model samc --dataset split-synthetic --seed 0 --out runs/first

  samc run --model gem --dataset split-cifar100 --n-tasks 3 --samples-per-task 300

  samc run --dataset folder:my-pictures --n-tasks 4 --image-size 64 --threshold 0.6
"""


def command() -> Callable[..., None]:
    """The command, with one flag for each setting: a setting that is added to RunConfig is a flag at once."""

    def run_command(**given: Any) -> None:
        where = {name: given.pop(name) for name in ("data_dir", "device", "out", "diagnose")}
        execute({name: value for name, value in given.items() if value is not None}, **where)

    hints = get_type_hints(RunConfig)
    parameters = []
    for item in fields(RunConfig):
        default = "" if item.default is None else f"  [default: {item.default}]"
        option = typer.Option(flag(item.name), help=item.metadata["help"] + default, show_default=False)
        parameters.append(parameter(item.name, Annotated[hints[item.name] | None, option]))
    places = {
        "data_dir": (Path, "where the data sets are  [default: $SAMC_DATA, else the cache folder]"),
        "device": (str, "auto, cpu or cuda  [default: auto]"),
        "out": (Path, "folder for the record  [default: runs/...]"),
        "diagnose": (bool, "also measure, for samc, how far the paper's lemmas and theorem hold; the run is the same"),
    }
    for name, (kind, meaning) in places.items():
        option = typer.Option(flag(name), help=meaning, show_default=False)
        parameters.append(parameter(name, Annotated[kind | None, option]))
    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_command.__annotations__ = {p.name: p.annotation for p in parameters}
    run_command.__doc__ = HELP
    return run_command


def parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def execute(
    given: dict[str, Any], data_dir: Path | None, device: str | None, out: Path | None, diagnose: bool | None
) -> None:
    """Everything is checked before the first step: names, values, data, the place for the record."""
    console = Console()
    config, from_preset = resolve(given, method(given.get("model", RunConfig.model)).settings)
    where = choose(device or "auto")
    folder = out or Path("runs") / f"{slug(config.dataset)}-{config.model}-seed{config.seed}-{moment()}"
    with claimed_folder(folder):
        stream = open_stream(
            config.dataset,
            data_dir=data_dir,
            image_size=config.image_size,
            seed=config.seed,
            n_tasks=config.n_tasks,
            samples_per_task=config.samples_per_task,
            class_order=config.class_order,
        )
        learner = build(config, stream, where)
        memory = getattr(learner, "memory", None)  # methods without one have nothing to open
        if memory is not None and (folder / FILE).exists():
            raise OutputError(f"{folder / FILE} is there already; choose another --out or remove it")
        if from_preset:
            shown = ", ".join(f"{flag(name)} {value}" for name, value in from_preset.items())
            console.print(f"preset for {config.dataset}: {shown}", highlight=False)
        diagnosis = Diagnosis() if diagnose else None
        with Bar(console, config.model) as bar:
            record = run(
                stream,
                learner,
                batch_size=config.batch_size,
                n_epochs=config.n_epochs,
                watchers=[bar, diagnosis] if diagnosis else [bar],
                config=config.as_dict(),
            )
        # shown before it is written: should the disk be full by now, the figures are still on the screen
        console.print(summary({config.model: record}, f"{stream.name}, seed {config.seed}"))
        if diagnosis:
            record = replace(record, diagnosis=diagnosis.found())
            console.print(claims(diagnosis.found()))
        path = record.save(folder)
        if memory is not None:
            memory.save(folder / FILE)
    console.print(f"record: {path}", highlight=False)
    if memory is not None:
        console.print(f"memory: {folder / FILE}", highlight=False)


def moment() -> str:
    """Now, and which process: two runs that start in the same second do not share a folder."""
    return f"{datetime.now():%y%m%d-%H%M%S}-{os.getpid()}"


def slug(dataset: str) -> str:
    """A dataset's name as part of a folder's name."""
    name = Path(dataset.partition(":")[2]).stem if ":" in dataset else dataset
    return "".join(c if c.isalnum() else "-" for c in name).strip("-") or "data"
