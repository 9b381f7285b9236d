"""`samc reproduce`: one command for every table and figure of the paper."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from samc.cli.drawing import Terminal
from samc.cli.page import leave_page
from samc.cli.progress import ProgressBoard, live_progress
from samc.cli.seeds import parse_seeds
from samc.cli.terminal import say
from samc.device import choose
from samc.errors import ConfigError, UserError, unknown
from samc.experiments.items import BY_NAME, ITEMS, check_streams, select_items
from samc.experiments.jobs import Executor, Job, Place
from samc.experiments.local import ON_A_GPU, LocalProcesses, threads_each
from samc.experiments.naming import name_runs
from samc.experiments.perform import perform
from samc.experiments.record_store import RecordStore
from samc.experiments.specification import EMBEDDED, Item, Key
from samc.learners import LEARNERS
from samc.report.found import Run
from samc.report.reproduction import load_pictures, publish
from samc.stopping import Stopped
from samc.streams import open_stream

ENGINES = ("local", "ray")
GO_ON = "what was being learnt is saved; give the same command again to go on"
WHAT = "\n\n".join(f"  {item.name:14} {item.what}" for item in ITEMS.values())
HELP = f"""Run a table or figure of the paper on the real data, and write it down next to the paper's numbers.

Finished runs are never run again, and one that was interrupted goes on in the middle: give the same command again. Two
commands may share a folder. What has not been run yet is shown as not run.

{WHAT}

  all            all but {", ".join(BY_NAME[:-1])} and {BY_NAME[-1]}, which is hundreds of runs

Examples:

  samc reproduce all --quick            on the embedded stream, in minutes

  samc reproduce table1 --datasets split-cifar100 --models samc,gem,er

  samc reproduce table1 table2 --executor ray --address auto --gpus 0.2
"""


def reproduce(
    item: Annotated[list[str], typer.Argument(help=f"{', '.join(ITEMS)}, or all", show_default=False)],
    datasets: Annotated[str | None, typer.Option(help="some of the streams, separated by commas")] = None,
    models: Annotated[str | None, typer.Option(help="some of the methods, separated by commas")] = None,
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
    console, store = Terminal(), RecordStore(out)
    check_flags(engine, jobs, address, gpus)
    wanted = select_items(item, quick)
    numbers = None if seeds is None else parse_seeds(seeds)
    part = parse_streams(datasets, quick), numbers, parse_models(models), quick
    needed = {wanted_item.name: wanted_item.jobs(*part) for wanted_item in wanted}
    all_jobs = name_runs(needed)
    if not all_jobs:
        names = ", ".join(needed)
        raise ConfigError(f"no run of {names} is of these --datasets and --models; leave one of them out")
    left = {job: name for job, name in all_jobs.items() if store.find(job) is None}
    count = f"{len(all_jobs):,} run{'s' if len(all_jobs) > 1 else ''}"
    say(f"{count}, {len(all_jobs) - len(left):,} of them done, in {out}")
    failures: dict[Job, Exception] = {}
    if left and not dry_run:
        executor = make_executor(engine, jobs, device, data_dir, address, gpus, store.checkpoints)
        if engine == "local":
            check_data(left, data_dir)
        with live_progress(console) as progress:
            board = ProgressBoard(console, progress, left, getattr(executor, "at_once", None) or 1)
            try:
                failures = perform(left, store, executor, board)
            except KeyboardInterrupt:
                raise Stopped(signal.SIGINT, GO_ON) from None
            except Stopped as stopped:
                raise Stopped(stopped.number, GO_ON) from None
    for wanted_item in wanted if not dry_run else ():
        # all of it, whatever was asked for this time: a table does not lose rows by learning some of them
        show(wanted_item, {**wanted_item.jobs(quick=quick), **needed[wanted_item.name]}, store)
    located = [found for job in all_jobs if not dry_run and (found := store.locate(job))]
    if located:
        leave_page(out, lambda: [Run(record, folder) for folder, record in located])
    if failures:
        job, error = next(iter(failures.items()))
        summary = f"{len(failures)} of {len(left)} runs failed, {all_jobs[job]} with: {error}"
        raise UserError(f"{summary}; mend that and give the same command again: what is done stays")


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


def check_flags(name: str, jobs: int | None, address: str | None, gpus: float | None) -> None:
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    if jobs is not None and jobs < 1:
        raise ConfigError(f"--jobs is at least 1, got {jobs}")
    if name == "local" and (address is not None or gpus is not None):
        raise ConfigError("--address and --gpus are for --executor ray; add it or leave them out")


def make_executor(
    name: str,
    jobs: int | None,
    device: str,
    data_dir: Path | None,
    address: str | None,
    gpus: float | None,
    place: Place,
) -> Executor:
    if name == "ray":
        from samc.experiments.cluster import RayCluster  # noqa: PLC0415  (an extra that few have)

        return RayCluster(jobs, device, data_dir, 1, address=address, gpus=gpus, place=place)
    kind = choose(device).type
    at_once = jobs or (ON_A_GPU if kind == "cuda" else os.cpu_count() or 1)
    # on a CPU results depend on the number of threads, and must not on that of jobs: one each, as on a cluster
    return LocalProcesses(at_once, kind, data_dir, threads_each(at_once) if kind == "cuda" else 1, place)


def check_data(jobs: Iterable[Job], data_dir: Path | None) -> None:
    """Missing or damaged data is one line now, and not one for every run."""
    for stream in dict.fromkeys(job.config.dataset for job in jobs):
        if stream != EMBEDDED:
            open_stream(stream, data_dir=data_dir, n_tasks=1, samples_per_task=1)


def show(item: Item, jobs: dict[Key, Job], store: RecordStore) -> None:
    """Write an item's tables and figures from the records that there are, and print the tables."""
    results = {key: store.find(job) for key, job in jobs.items()}
    for path in publish(item, results, store.folder, load_pictures(jobs, store)):
        say(f"{item.name}: {path}")
        if path.suffix == ".md":
            say(*path.read_text(encoding="utf-8").splitlines())


reproduce.__doc__ = HELP
