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
from samc.files import write_whole
from samc.version import VERSION

FILE = "record.json"
NEEDED = {
    "memory": ("bytes", "bytes_by_part", "images_per_task"),
    "seconds": ("total",),
    "config": ("model", "seed"),
    "fingerprint": ("stream", "class_order", "image_shape", "accounting"),
}
# what tables and figures take for granted in a record that they are given


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
    # how far the paper's claims held, for a run that was asked to measure it; absent from the file otherwise

    def save(self, folder: Path, *, replace: bool = False) -> Path:
        """Write record.json into the folder: whole, or not at all; over an earlier one only if told so."""
        path = folder / FILE
        content = {name: value for name, value in asdict(self).items() if value is not None}
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        kept = path.with_name(f"{path.stem}-{os.getpid()}{path.suffix}")
        try:
            write_whole(path, text.encode(), replace=replace, spare=kept)
        except FileExistsError:
            raise OutputError(f"{path} has been written by another run meanwhile; this one is in {kept}") from None
        except OSError as error:
            raise OutputError(
                f"cannot write {path}: {error.strerror}; free some space or choose another --out"
            ) from None
        return path

    @classmethod
    def load(cls, path: Path) -> "RunRecord":
        """Read a record, given its file or its folder."""
        path = path / FILE if path.is_dir() else path
        try:
            content = json.loads(path.read_text())
            for part, names in NEEDED.items():
                if absent := [name for name in names if name not in content[part]]:
                    raise ValueError(f"{part} has no {', '.join(absent)}")
            known = [item.name for item in fields(cls) if item.default is MISSING or item.name in content]
            return cls(**{name: content[name] for name in known})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} is not a run's record ({type(error).__name__}: {error}); remove it or put the right one there"
            ) from None


@contextmanager
def claimed_folder(folder: Path) -> Iterator[None]:
    """Make sure, before any time is spent, that a run can be written here and that none would be lost.

    Folders that this had to make are removed again if the run comes to nothing.
    """
    if (folder / FILE).exists():
        raise OutputError(f"{folder} already holds a run; choose another --out or remove it")
    made = [each for each in (folder, *folder.parents) if not each.exists()]
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
            for each in made:
                each.rmdir()
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
    return {"type": device.type, "name": processor(), "threads": torch.get_num_threads()}


def processor() -> str:
    """The processor's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
