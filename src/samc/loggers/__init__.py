"""Logs: the figures and pictures of a run while it goes on, in the formats that other tools read."""

from collections.abc import Sequence

from samc.errors import ConfigError, unknown
from samc.loggers.base import Entry, Logger
from samc.loggers.csv_file import CSVFile
from samc.loggers.jsonl_file import JSONLinesFile
from samc.loggers.tensorboard_events import TensorBoardEvents
from samc.loggers.wandb_run import WandbRun

LOGGERS: dict[str, type[Logger]] = {
    "csv": CSVFile,
    "jsonl": JSONLinesFile,
    "tensorboard": TensorBoardEvents,
    "wandb": WandbRun,
}


def checked_loggers(names: Sequence[str]) -> tuple[str, ...]:
    """Each name once; one of no logger, or of one that cannot be used here, is refused before any time is spent."""
    for name in names:
        if name not in LOGGERS:
            raise unknown("log", name, LOGGERS)
        try:
            LOGGERS[name].check()
        except ImportError as error:
            raise ConfigError(f"--log {name} cannot be used ({error}): pip install 'samc[{name}]'") from None
    return tuple(dict.fromkeys(names))


__all__ = ["LOGGERS", "Entry", "Logger", "checked_loggers"]
