"""Many runs from one command: where they are learnt, live bars, and what is said of those that fail."""

import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

from samc.cli.drawing import Terminal
from samc.cli.progress import ProgressBoard, live_progress
from samc.cli.terminal import say
from samc.device import choose
from samc.errors import ConfigError, UserError, unknown
from samc.experiments.jobs import Executor, Job, Place
from samc.experiments.local import ON_A_GPU, LocalProcesses, threads_each
from samc.experiments.perform import perform
from samc.experiments.record_store import RecordStore
from samc.experiments.specification import EMBEDDED
from samc.stopping import Stopped
from samc.streams import open_stream

ENGINES = ("local", "ray")
GO_ON = "what was being learnt is saved; give the same command again to go on"


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


def without_record(jobs: Mapping[Job, str], store: RecordStore) -> dict[Job, str]:
    """The jobs that are to be learnt; says how many there are."""
    left = {job: name for job, name in jobs.items() if store.find(job) is None}
    count = f"{len(jobs):,} run{'s' if len(jobs) > 1 else ''}"
    say(f"{count}, {len(jobs) - len(left):,} of them done, in {store.folder}")
    return left


def learn_left(left: Mapping[Job, str], store: RecordStore, executor: Executor) -> dict[Job, Exception]:
    """Learn jobs, each by its name on a bar, and return the errors of those that failed."""
    console = Terminal()
    with live_progress(console) as progress:
        board = ProgressBoard(console, progress, left, getattr(executor, "at_once", None) or 1)
        try:
            return perform(left, store, executor, board)
        except KeyboardInterrupt:
            raise Stopped(signal.SIGINT, GO_ON) from None
        except Stopped as stopped:
            raise Stopped(stopped.number, GO_ON) from None


def tell_failures(failures: Mapping[Job, Exception], left: Mapping[Job, str]) -> None:
    if failures:
        job, error = next(iter(failures.items()))
        summary = f"{len(failures)} of {len(left)} runs failed, {left[job]} with: {error}"
        raise UserError(f"{summary}; mend that and give the same command again: what is done stays")
