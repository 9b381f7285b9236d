"""`samc continue`: new tasks for the learner that a finished run has left."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from samc.checkpoints import EVERY
from samc.cli.flags import as_command
from samc.cli.learning import SeedRun, default_folder, learn_runs, resuming
from samc.cli.run import EXTRA as OF_RUN
from samc.cli.unfinished import Unfinished, is_unfinished
from samc.device import choose
from samc.errors import ConfigError, OutputError
from samc.experiments.continuing import Earlier, continued_config
from samc.loggers import checked_loggers
from samc.record import RunRecord

NEW = (
    "dataset",
    "n_tasks",
    "samples_per_task",
    "class_order",
    "image_size",
    "tested_on",
    "n_epochs",
    "batch_size",
)
# settings of the new images; all others are those of the run, and so are the last two where they are not given
EXTRA = {name: OF_RUN[name] for name in ("data_dir", "device", "checkpoint_every", "log")} | {
    "out": (Path, "folder for the new record; the run that is continued stays as it is  [default: runs/...]"),
    "old_tests": (
        bool,
        "whether the tasks that were learnt before are tested too, on the data that the run's record names  [default: "
        "old-tests]",
    ),
}
RUN = inspect.Parameter(
    "run",
    inspect.Parameter.KEYWORD_ONLY,
    annotation=Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a finished run")],
)


def continue_(run: Path, **given: Any) -> None:
    """Learn new tasks with the learner of a finished run; it keeps what it knows, and the run stays as it is.

    New tasks get the numbers after those of the run, and new classes the numbers after its largest: after five tasks
    of classes 0 to 19, the first new task is 5, and class 0 of the new data set is class 20. Heads grow by them. A
    memory of so many bytes per task has as many for each new one; one for all tasks together is shared out anew.
    Settings are the run's, epochs and batch size too unless they are given.

    The record has the whole accuracy matrix: rows of the run, then a row after each new task, in which all tasks are
    tested. Interrupted, it goes on with samc run --resume; what comes of it can be continued again.

    Examples:

      samc continue runs/first --dataset npz:new.npz --n-tasks 2 --out runs/b

      samc continue runs/b --dataset folder:march --image-size 32 --out runs/c

      samc continue runs/c --dataset npz:april.npz --no-old-tests

      samc run --resume runs/b              go on after an interruption

      samc predict runs/b --task 5 cat.png  ask for a class of a new task
    """
    extra = {name: given.pop(name) for name in EXTRA}
    settings = {name: value for name, value in given.items() if value is not None}
    if "dataset" not in settings:
        raise ConfigError("--dataset is missing: what is to be learnt; samc run --help names them")
    if is_unfinished(run):
        raise ConfigError(f"{run} is not finished; go on with: {resuming(run)}")
    record = RunRecord.load(run)
    earlier = Earlier.at(run if run.is_dir() else run.parent, tested=extra["old_tests"] is not False)
    config, where = continued_config(record, settings), choose("auto" if extra["device"] is None else extra["device"])
    every = EVERY if extra["checkpoint_every"] is None else extra["checkpoint_every"]
    logs = checked_loggers(extra["log"] or ())
    todo = Unfinished(config, False, extra["data_dir"], where.type, torch.get_num_threads(), every, earlier, logs)
    folder = extra["out"] or default_folder(config, f"seed{config.seed}")
    if is_unfinished(folder):
        raise OutputError(f"{folder} holds a run that was interrupted; go on with: {resuming(folder)}")
    learn_runs([SeedRun(todo, folder)], folder, where, alone=True)


as_command(continue_, EXTRA, NEW, (RUN,))
