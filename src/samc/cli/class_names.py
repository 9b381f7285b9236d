"""The names of a run's classes, from the record beside what it left."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from samc.errors import DataError
from samc.record import FILE, RunRecord


def names_of_run(path: Path) -> Sequence[str] | None:
    """Of a run's folder, or of the folder that a file of it lies in; None where no record is there to tell."""
    folder = path if path.is_dir() else path.parent
    if (folder / FILE).exists():
        with suppress(DataError):  # a damaged record is no reason to show nothing
            return RunRecord.load(folder).known_names
    return None
