"""`samc reproduce`: one command for every table and figure of the paper."""

from pathlib import Path
from typing import Annotated

import typer

from samc.cli.page import leave_page
from samc.cli.seeds import parse_seeds
from samc.cli.side_by_side import check_data, check_flags, learn_left, make_executor, tell_failures, without_record
from samc.cli.terminal import say
from samc.errors import ConfigError, unknown
from samc.experiments.items import BY_NAME, ITEMS, check_streams, select_items
from samc.experiments.jobs import Job
from samc.experiments.naming import name_runs
from samc.experiments.record_store import RecordStore
from samc.experiments.specification import Item, Key, named_rows
from samc.learners import LEARNERS
from samc.report.found import Run
from samc.report.reproduction import load_pictures, publish

WHAT = "\n\n".join(f"  {item.name:14} {item.what}" for item in ITEMS.values())
HELP = f"""Run a table or figure of the paper on the real data, and write it down next to the paper's numbers.

Finished runs are never run again, and one that was interrupted goes on in the middle: give the same command again. Two
commands may share a folder. What has not been run yet is shown as not run.

{WHAT}

  all            all but {", ".join(BY_NAME[:-1])} and {BY_NAME[-1]}, which is hundreds of runs

Examples:

  samc reproduce all --quick            on the embedded stream, in minutes

  samc reproduce table1 --datasets split-cifar100 --models samc,gem,er

  samc reproduce table1 threshold --row "the paper's text" --row 0.3

  samc reproduce table1 table2 --executor ray --address auto --gpus 0.2
"""


def reproduce(
    item: Annotated[list[str], typer.Argument(help=f"{', '.join(ITEMS)}, or all", show_default=False)],
    datasets: Annotated[str | None, typer.Option(help="some of the streams, separated by commas")] = None,
    models: Annotated[str | None, typer.Option(help="some of the methods, separated by commas")] = None,
    row: Annotated[
        list[str] | None, typer.Option(help="a row's name or a part of it; give it again for more rows  [default: all]")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="such as 0-2 or 0,4; of more than it needs an item takes the first  [default: 0-4 or fewer]"),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="runs at a time  [default: 8 on a GPU, else one per core]")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="the same items on the embedded stream, cut short")] = False,
    engine: Annotated[
        str, typer.Option("--engine", "--executor", help="where runs go: local (processes) or ray (a cluster)")
    ] = "local",
    address: Annotated[str | None, typer.Option(help="of a Ray cluster; without it one is started here")] = None,
    gpus: Annotated[float | None, typer.Option(help="share of a GPU that a run takes on a Ray cluster")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="where the data sets are")] = None,
    out: Annotated[Path, typer.Option(help="folder for records, tables and figures")] = Path("runs/reproduce"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say how much there is to run, and run nothing")] = False,
) -> None:
    store = RecordStore(out)
    check_flags(engine, jobs, address, gpus)
    wanted = select_items(item, quick)
    numbers = None if seeds is None else parse_seeds(seeds)
    part = parse_streams(datasets, quick), numbers, parse_models(models), quick, check_rows(row or [], wanted, quick)
    needed = {wanted_item.name: wanted_item.jobs(*part) for wanted_item in wanted}
    all_jobs = name_runs(needed)
    if not all_jobs:
        names = ", ".join(needed)
        raise ConfigError(f"no run of {names} is of these --datasets, --models and --row; leave one of them out")
    left = without_record(all_jobs, store)
    failures: dict[Job, Exception] = {}
    if left and not dry_run:
        executor = make_executor(engine, jobs, device, data_dir, address, gpus, store.checkpoints)
        if engine == "local":
            check_data(left, data_dir)
        failures = learn_left(left, store, executor)
    for wanted_item in wanted if not dry_run else ():
        # all of it, whatever was asked for this time: a table does not lose rows by learning some of them
        show(wanted_item, {**wanted_item.jobs(quick=quick), **needed[wanted_item.name]}, store)
    located = [found for job in all_jobs if not dry_run and (found := store.locate(job))]
    if located:
        leave_page(out, lambda: [Run(record, folder) for folder, record in located])
    tell_failures(failures, left)


def parse_streams(text: str | None, quick: bool) -> tuple[str, ...] | None:
    if text is not None and quick:
        raise ConfigError("--quick runs on the embedded stream; leave --datasets or --quick out")
    return check_streams([name.strip() for name in text.split(",")]) if text is not None else None


def parse_models(text: str | None) -> tuple[str, ...] | None:
    names = None if text is None else tuple(name.strip() for name in text.split(","))
    for name in names or ():
        if name not in LEARNERS:
            raise unknown("model", name, LEARNERS)
    return names


def check_rows(rows: list[str], items: list[Item], quick: bool) -> list[str]:
    """The same names, if each is of a row, or a part of one."""
    variants = [
        variant for item in items for stream in item.chosen_streams(None, quick) for variant in item.variants(stream)
    ]
    for name in rows:
        if not name.strip() or not named_rows(variants, [name]):
            raise unknown("row", name, dict.fromkeys(variant.label for variant in variants), separator="; ")
    return rows


def show(item: Item, jobs: dict[Key, Job], store: RecordStore) -> None:
    """Write an item's tables and figures from the records that there are, and print the tables."""
    results = {key: store.find(job) for key, job in jobs.items()}
    for path in publish(item, results, store.folder, load_pictures(jobs, store)):
        say(f"{item.name}: {path}")
        if path.suffix == ".md":
            say(*path.read_text(encoding="utf-8").splitlines())


reproduce.__doc__ = HELP
