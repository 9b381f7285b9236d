"""The runs that a page is made of: records on disk, each with the folder that its other files lie in."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from samc.errors import DataError
from samc.record import FILE, RunRecord


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run; `folder` holds its memory and what else it left, if it left any."""

    record: RunRecord
    folder: Path


def find_runs(paths: Iterable[Path]) -> list[Run]:
    """Every record that is named, or that lies in a folder that is named or below it; each once, in order of path."""
    files: dict[Path, Path] = {}
    for path in paths:
        found = [path] if path.is_file() else sorted(path.rglob(FILE))
        if not found:
            raise DataError(f"{path} holds no {FILE}; name the folder of some runs, such as runs")
        files |= {file.resolve(): file for file in found}
    return [Run(RunRecord.load(file), file.parent) for file in files.values()]
