"""What a run leaves behind: one JSON file with its figures, its memory, its seconds, and where they come from."""

import json
import math
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

import cv2
import numpy
import torch

from samc.errors import DataError, OutputError
from samc.files import folders_with, write_whole
from samc.metrics import backward_transfer
from samc.version import VERSION

FILE = "record.json"
NEEDED = {
    "memory": ("bytes", "bytes_by_part", "images_per_task"),
    "seconds": ("total",),
    "config": ("model", "seed"),
    "fingerprint": ("stream", "class_order", "image_shape", "accounting"),
    "versions": (),
    "device": ("name",),
}
FIGURES = ("acc", "bwt", "fwt", "forgetting")
# what tables and figures need of a record


@dataclass(frozen=True)
class RunRecord:
    """Accuracies are fractions; the first row of the matrix is the untrained network's."""

    acc: float
    bwt: float
    fwt: float
    forgetting: float
    accuracy_matrix: list[list[float]]
    first_task_curve: list[float]
    memory: dict[str, Any]
    seconds: dict[str, float]
    config: dict[str, Any]
    fingerprint: dict[str, Any]
    versions: dict[str, str]
    device: dict[str, Any]
    diagnosis: dict[str, Any] | None = None
    # how far the paper's claims held, where a run measured it; absent from the file otherwise
    notes: list[str] | None = None
    # what a reader of the figures should know, such as a task that was not learnt; absent where there is nothing

    @property
    def bwt_by_t(self) -> float:
        """BWT divided by T, as in the paper's code, where `bwt` is by T − 1. Always the matrix's, never a file's."""
        return backward_transfer(self.accuracy_matrix, gem2017=True)

    def __repr__(self) -> str:
        run = f"{self.config['model']} on {self.fingerprint['stream']}"
        figures = f"ACC {100 * self.acc:.1f} %, BWT {round(100 * self.bwt, 1) + 0.0:.1f}"  # no minus before a zero
        return f"RunRecord({run}: {figures}, {self.memory['bytes']:,} bytes)"

    def save(self, folder: str | Path, *, replace: bool = False) -> Path:
        """Write record.json into the folder, whole or not at all; an earlier one is replaced only with `replace`."""
        path = Path(folder) / FILE
        figures = {"acc": self.acc, "bwt": self.bwt, "bwt_by_t": self.bwt_by_t}  # the last for readers of the file only
        content = figures | {name: value for name, value in asdict(self).items() if value is not None}
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        spare = path.with_name(f"{path.stem}-{os.getpid()}{path.suffix}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode(), replace=replace, spare=spare)
        except FileExistsError:
            raise OutputError(f"{path} has been written by another run meanwhile; this one is in {spare}") from None
        except OSError as error:
            raise OutputError(
                f"cannot write {path}: {error.strerror}; free some space or choose another --out"
            ) from None
        return path

    @classmethod
    def load(cls, path: str | Path) -> "RunRecord":
        """Read a record, given its file or its folder."""
        path = Path(path)
        file = path / FILE if path.is_dir() else path
        if not file.exists():
            within = folders_with(FILE, path)
            remedy = f"name one of its runs, such as {within[0]}" if within else "give the folder of a run"
            raise DataError(f"{file} is not there; {remedy}")
        try:
            content = json.loads(file.read_text())
            check(content)
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{file} is not a run's record ({error}); remove it or put the right one there") from None
        return cls(**{field.name: content[field.name] for field in fields(cls) if field.name in content})


def check(content: Any) -> None:
    """Raise a ValueError that says what a file's content lacks of what tables and figures need."""
    if not isinstance(content, dict):
        raise ValueError("it holds no names and values")
    if absent := [field.name for field in fields(RunRecord) if field.default is MISSING and field.name not in content]:
        raise ValueError(f"it has no {', '.join(absent)}")
    for part, names in NEEDED.items():
        if not isinstance(content[part], dict):
            raise ValueError(f"{part} holds no names and values")
        if absent := [name for name in names if name not in content[part]]:
            raise ValueError(f"{part} has no {', '.join(absent)}")
    matrix = content["accuracy_matrix"]
    if not isinstance(matrix, list) or not matrix or not all(isinstance(row, list) for row in matrix):
        raise ValueError("accuracy_matrix is no list of rows")
    if len({len(row) for row in matrix}) != 1 or len(matrix) != len(matrix[0]) + 1:
        raise ValueError("accuracy_matrix has not a row for each task and one before them")
    lists = [*matrix, content["first_task_curve"], content["memory"]["images_per_task"]]
    numbers = [*(content[name] for name in FIGURES), content["seconds"]["total"], content["memory"]["bytes"]]
    if not all(isinstance(values, list) for values in lists):
        raise ValueError("first_task_curve or images_per_task is no list")
    if not all(isinstance(value, int | float) for values in (numbers, *lists) for value in values):
        raise ValueError("a figure is no number")


@contextmanager
def claimed_folder(folder: Path) -> Iterator[None]:
    """Make sure, before any time is spent, that a run can be written here and that no earlier one would be lost.

    Folders that this had to make are removed again if the run fails.
    """
    if (folder / FILE).exists():
        raise OutputError(f"{folder} already holds a run; choose another --out or remove it")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise OutputError(f"cannot write to {folder}: {error.strerror}; choose another --out") from None
        yield
    except BaseException:
        with suppress(OSError):  # one that is no longer empty stays, and so do those above it
            for path in made:
                path.rmdir()
        raise


def versions() -> dict[str, str]:
    return {
        "samc": VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "opencv": cv2.__version__,
    }


def describe_device(device: torch.device) -> dict[str, Any]:
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        memory = math.ceil(properties.total_memory / 2**30)
        return {"type": "cuda", "name": properties.name, "memory_gib": memory}
    return {"type": device.type, "name": processor_name(), "threads": torch.get_num_threads()}


def processor_name() -> str:
    """The processor's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
