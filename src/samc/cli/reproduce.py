"""`samc reproduce`: one command for every table and figure of the paper."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from samc.cli.progress import live
from samc.cli.seeds import parse
from samc.device import choose
from samc.errors import ConfigError, UserError, unknown
from samc.experiments.items import EMBEDDED, ITEMS, Item, items, known_streams
from samc.experiments.jobs import Engine, Job
from samc.experiments.local import ON_A_GPU, Local, threads_each
from samc.experiments.perform import Audience, perform
from samc.experiments.shelf import Shelf
from samc.experiments.watching import clock
from samc.learners import LEARNERS
from samc.record import RunRecord
from samc.report.reproduction import pictures_of, publish
from samc.streams import open_stream

ENGINES = ("local", "ray")
WHAT = "\n\n".join(f"  {item.name:14} {item.what}" for item in ITEMS.values())
HELP = f"""Run a table or figure of the paper on the real data, and write it down beside the paper's figures.

Finished runs are never run again, so that a command that was interrupted goes on where it was; two commands may share a
folder. What has not been run yet is shown as not run.

{WHAT}

  all            all that the paper has; variants and the grid, which is hundreds of runs, are asked for by name

Examples:

  samc reproduce all --quick                              everything on the embedded stream, in minutes

  samc reproduce table1 --datasets split-cifar100 --models samc,gem,er --out results/paper

  samc reproduce table1 table2 --engine ray --address auto --gpus 0.2
"""


def reproduce(
    item: Annotated[list[str], typer.Argument(help=f"{', '.join(ITEMS)}, or all", show_default=False)],
    datasets: Annotated[str | None, typer.Option(help="some of the streams, split by commas")] = None,
    models: Annotated[str | None, typer.Option(help="some of the methods, split by commas")] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="such as 0-2 or 0,4; of more than it needs an item takes the first  [default: 0-4 or fewer]"),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="runs at a time  [default: 8 on a GPU, else one a core]")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="the same items on the embedded stream, cut short")] = False,
    engine: Annotated[str, typer.Option(help="local (processes) or ray (a cluster)")] = "local",
    address: Annotated[str | None, typer.Option(help="of a Ray cluster; without it one is started here")] = None,
    gpus: Annotated[float | None, typer.Option(help="share of a GPU that a run takes on a Ray cluster")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="where the data sets are")] = None,
    out: Annotated[Path, typer.Option(help="folder for records, tables and figures")] = Path("runs/reproduce"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say how much there is to run, and run nothing")] = False,
) -> None:
    console, shelf = Console(markup=False, highlight=False), Shelf(out)
    check_flags(engine, jobs, address, gpus)
    wanted = items(item, quick)
    numbers = None if seeds is None else parse(seeds)
    some = named_streams(datasets, quick), numbers, named_models(models), quick
    needed = {each.name: each.jobs(*some) for each in wanted}
    asked = list(dict.fromkeys(job for jobs_of_item in needed.values() for job in jobs_of_item.values()))
    if not asked:
        names = ", ".join(each.name for each in wanted)
        raise ConfigError(f"no run of {names} is of these --datasets and --models; leave one of them out")
    left = [job for job in asked if shelf.find(job) is None]
    everything = f"{len(asked):,} run{'s' if len(asked) > 1 else ''}"
    console.print(f"{everything}, {len(asked) - len(left):,} of them done, in {out}", soft_wrap=True)
    failures: dict[Job, Exception] = {}
    if left and not dry_run:
        ready = engine_of(engine, jobs, device, data_dir, address, gpus)
        if engine == "local":
            check_data(left, data_dir)
        with live(console) as progress:
            failures = perform(left, shelf, ready, Board(console, progress, left, at_once(ready)))
    for each in wanted if not dry_run else ():
        # all of it, whatever was asked for this time: a table does not lose rows by learning some of them
        show(console, each, {**each.jobs(quick=quick), **needed[each.name]}, shelf, out)
    if failures:
        (first, error), count = next(iter(failures.items())), len(failures)
        told = f"{count} of {len(left)} runs failed, {described(first)} with: {error}"
        raise UserError(f"{told}; mend that and give the same command again: what is done stays")


def named_streams(text: str | None, quick: bool) -> tuple[str, ...] | None:
    if text is not None and quick:
        raise ConfigError("--quick runs on the embedded stream; leave --datasets or --quick out")
    return known_streams([name.strip() for name in text.split(",")]) if text is not None else None


def named_models(text: str | None) -> tuple[str, ...] | None:
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
        raise ConfigError("--address and --gpus are for --engine ray; add it or leave them out")


def engine_of(
    name: str, jobs: int | None, device: str, data_dir: Path | None, address: str | None, gpus: float | None
) -> Engine:
    if name == "ray":
        from samc.experiments.cluster import Cluster  # noqa: PLC0415  (an extra that few have)

        return Cluster(jobs, device, data_dir, 1, address=address, gpus=gpus)
    kind = choose(device).type
    many = jobs or (ON_A_GPU if kind == "cuda" else os.cpu_count() or 1)
    # on a CPU what is learnt depends on the number of threads, and must not on that of jobs: one each, as on a cluster
    return Local(many, kind, data_dir, threads_each(many) if kind == "cuda" else 1)


def at_once(engine: Engine) -> int:
    return getattr(engine, "at_once", None) or 1


def check_data(jobs: Sequence[Job], data_dir: Path | None) -> None:
    """Missing or damaged data is one line now, and not one for every run."""
    for stream in dict.fromkeys(job.config.dataset for job in jobs):
        if stream != EMBEDDED:
            open_stream(stream, data_dir=data_dir, n_tasks=1, samples_per_task=1)


def described(job: Job) -> str:
    return f"{job.config.model} on {job.config.dataset}, seed {job.config.seed},"


class Board(Audience):
    """What runs, what is done, and when it will end; without a terminal a line for each run that has ended."""

    def __init__(self, console: Console, progress: Any, jobs: Sequence[Job], at_once: int):
        self.console, self.progress, self.at_once = console, progress, at_once
        self.left = dict.fromkeys(jobs)
        self.rows: dict[Job, Any] = {}
        self.told = ""
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.all, self.began_at = progress.add_task("all runs", shown="", total=len(jobs)), dict[Job, float]()

    def began(self, job: Job) -> None:
        self.began_at[job] = time.monotonic()
        name = f"{job.config.model}, {job.config.dataset}, seed {job.config.seed}"
        self.rows[job] = self.progress.add_task(name, shown="starting", total=1)
        self.refresh()

    def news(self, job: Job, fields: dict[str, Any]) -> None:
        acc = fields.pop("acc", None)
        if acc is not None:
            fields["shown"] = f"ACC so far {100 * acc:.1f}"
        if job in self.rows:
            self.progress.update(self.rows[job], refresh=True, **fields)

    def ended(self, job: Job, record: RunRecord) -> None:
        took = time.monotonic() - self.began_at[job]
        self.seconds.setdefault((job.config.model, job.config.dataset), []).append(took)
        self.close(job, f"ACC {100 * record.acc:.1f} %, {took:.0f} s")

    def failed(self, job: Job, error: Exception) -> None:
        self.close(job, f"failed: {' '.join(str(error).split())}")

    def elsewhere(self, jobs: list[Job]) -> None:
        self.left = dict.fromkeys(jobs)  # what else was left, the other command has ended meanwhile
        words = f"{len(jobs)} runs are another command's; waiting for it"
        self.refresh(words)
        if words != self.told and not self.console.is_terminal:
            self.console.print(words)
        self.told = words

    def close(self, job: Job, words: str) -> None:
        self.left.pop(job, None)
        self.progress.remove_task(self.rows.pop(job))
        self.refresh()
        done = int(self.progress.tasks[0].total or 0) - len(self.left)
        self.console.print(f"{done}/{done + len(self.left)}  {described(job)} {words}", soft_wrap=True)

    def refresh(self, words: str = "") -> None:
        total = int(self.progress.tasks[0].total or 0)
        shown = f"{total - len(self.left)} of {total} done{self.time_left()}"
        self.progress.update(self.all, completed=total - len(self.left), refresh=True, shown=words or shown)

    def time_left(self) -> str:
        """By what runs of the same method and stream took; of others, by what all took."""
        known = [second for seconds in self.seconds.values() for second in seconds]
        if not known:
            return ""
        mean, now, ahead = sum(known) / len(known), time.monotonic(), 0.0
        for job in self.left:
            of_kind = self.seconds.get((job.config.model, job.config.dataset))
            each = sum(of_kind) / len(of_kind) if of_kind else mean
            ahead += max(0.0, each - (now - self.began_at.get(job, now)))
        return f", about {clock(ahead / self.at_once)} left"


def show(console: Console, item: Item, needed: dict[Any, Job], shelf: Shelf, out: Path) -> None:
    """Write an item's tables and figures from the records that there are."""
    found = {key: shelf.find(job) for key, job in needed.items()}
    for path in publish(item, found, out, pictures_of(needed, shelf)):
        console.print(f"{item.name}: {path}", soft_wrap=True)
        if path.suffix == ".md":
            console.print(path.read_text(), soft_wrap=True)


reproduce.__doc__ = HELP
