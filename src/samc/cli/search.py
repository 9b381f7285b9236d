"""`samc search`: which values of a method's settings do best, on training images that are held out."""

import shlex
from pathlib import Path
from typing import Any

from samc.cli.drawing import draw
from samc.cli.flags import GroupedCommand, as_command
from samc.cli.seeds import parse_seeds
from samc.cli.side_by_side import check_data, check_flags, learn_left, make_executor, tell_failures, without_record
from samc.cli.terminal import say
from samc.experiments.record_store import RecordStore
from samc.experiments.searching import GridSearch, parse_search
from samc.files import write_output
from samc.report.page.again import words_of
from samc.report.search_table import ranked, search_table
from samc.report.tables import to_markdown

SEEDS = "0-2"
OUT = Path("runs/search")
PAGE = "search.md"
EXTRA = {
    "grid": (list[str], "a setting and the values to try: lr=0.03,0.1; may be given again, all combinations are tried"),
    "seeds": (str, f"of every point, such as 0-2 or 0,4  [default: {SEEDS}]"),
    "jobs": (int, "runs at a time  [default: 8 on a GPU, else one per core]"),
    "data_dir": (Path, "where the data sets are  [default: $SAMC_DATA, else the cache folder]"),
    "device": (str, "auto, cpu or cuda  [default: auto]"),
    "out": (Path, f"folder for the records and the table  [default: {OUT}]"),
}
COMMAND_CLASS = GroupedCommand


def search(**given: Any) -> None:
    """Try values of a method's settings on training images that are held out, and say which do best.

    Every other flag of samc run is the same for all points. Finished runs are never run again: give the same command
    again to go on, or one with more values or seeds.

    Examples:

      samc search --grid lr=0.01,0.03,0.1

      samc search --model gem --dataset split-cifar100 --n-tasks 5 --grid lr=0.03,0.1 --grid memory-strength=0,0.5

      samc search --scenario class --memory-bytes 600KB --grid batch-classes=batch,task --grid replay-size=30,60
    """
    extra = {name: given.pop(name) for name in EXTRA}
    settings = {name: value for name, value in given.items() if value is not None}
    check_flags("local", extra["jobs"], None, None)
    wanted = parse_search(settings, extra["grid"] or (), parse_seeds(extra["seeds"] or SEEDS))
    jobs, store = wanted.jobs(), RecordStore(extra["out"] or OUT)
    several = len(wanted.seeds) > 1
    names = {job: f"{variant.label}{f', seed {seed}' if several else ''}" for (_, variant, seed), job in jobs.items()}
    left = without_record(names, store)
    failures = {}
    if left:
        device, data_dir = extra["device"] or "auto", extra["data_dir"]
        executor = make_executor("local", extra["jobs"], device, data_dir, None, None, store.checkpoints)
        check_data(left, data_dir)
        failures = learn_left(left, store, executor)
    points = ranked({key: store.find(job) for key, job in jobs.items()})
    if points:
        table = search_table(f"{wanted.dataset}, {wanted.model}", points)
        draw(table)
        write_output(store.folder / PAGE, to_markdown([table], level=1).encode() + b"\n", replace=True, taken="")
        say(f"table: {store.folder / PAGE}", f"the best: {command(wanted, points[0].variant.settings)}")
    tell_failures(failures, left)


def command(search: GridSearch, point: dict[str, Any]) -> str:
    """What learns the stream by the settings of a point."""
    settings = {**search.given, **point}
    return shlex.join(["samc", "run", *(word for name, value in settings.items() for word in words_of(name, value))])


as_command(search, EXTRA)
