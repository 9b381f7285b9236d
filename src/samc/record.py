"""What a run leaves behind: one JSON file with its figures, its memory, its seconds, and where they come from."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from samc.errors import DataError, OutputError, shortened
from samc.files import folders_with, read_regular, write_whole
from samc.machine import PLACE, in_turn, is_part
from samc.metrics import average_incremental_accuracy, backward_transfer, lowest_accuracy, stability_gap
from samc.streams.names import name_of, names_without_data
from samc.values import (
    MOST_CLASSES,
    are,
    finite,
    is_amount,
    is_change,
    is_count,
    is_fraction,
    is_matrix,
    is_order,
    is_scalar,
    is_seed,
    is_setting,
    is_shape,
    is_text,
    no_number,
    perhaps,
    whole,
)

FILE = "record.json"
MOST_BYTES = 2**25
# of a record; one of a thousand tasks has some twenty million
NEEDED = {
    "memory": ("bytes", "bytes_by_part", "images_per_task"),
    "seconds": ("total",),
    "config": ("model", "seed"),
    "fingerprint": ("stream", "class_order", "image_shape", "accounting"),
    **PLACE,
}
# what tables and figures need of a record


@dataclass(frozen=True)
class RunRecord:
    """Accuracies are fractions; the first row of the matrix is the untrained network's.

    Of a run that continues another, earlier rows are that one's, with None for tasks that were to come; where earlier
    tasks are not tested, the first row is of the learner as it was taken up.
    """

    acc: float
    bwt: float
    fwt: float
    forgetting: float
    accuracy_matrix: list[list[float | None]]
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
    class_names: list[str] | None = None
    # of the whole stream, so that nobody needs its data to name a class; absent where classes are only numbers
    continues: dict[str, Any] | None = None
    # the run that this one goes on from, by the digest of its record, what that had learnt, and which numbers come next
    between: list[list[list[float]]] | None = None
    # for each task the tests made while it was learnt, where a run was asked for them (--test-every)
    began_on: list[dict[str, Any]] | None = None
    # devices and versions before the last, where a run went on elsewhere from a checkpoint, and how far each came

    @property
    def bwt_by_t(self) -> float:
        """BWT divided by T, as in the paper's code, where `bwt` is by T − 1. Always the matrix's, never a file's."""
        return backward_transfer(self.accuracy_matrix, gem2017=True)

    @property
    def average_incremental_accuracy(self) -> float:
        return average_incremental_accuracy(self.accuracy_matrix)

    @property
    def places(self) -> list[tuple[dict[str, Any], dict[str, str]]]:
        """Device and versions; of a run that went on elsewhere, all of them in their order."""
        return [*((part["device"], part["versions"]) for part in self.began_on or ()), (self.device, self.versions)]

    @property
    def machine(self) -> str:
        """The machine's name, or theirs."""
        return in_turn(device["name"] for device, _ in self.places)

    @property
    def known_names(self) -> Sequence[str] | None:
        """The name of every class, if they have any; records from before names were kept know some."""
        return self.class_names or names_without_data(self.fingerprint["stream"])

    @property
    def stability_gap(self) -> float | None:
        return None if self.between is None else stability_gap(self.accuracy_matrix, self.between)

    @property
    def lowest_accuracy(self) -> float | None:
        return None if self.between is None else lowest_accuracy(self.accuracy_matrix, self.between)

    def class_name(self, label: int) -> str:
        """A class by its name, or by its number where it has none."""
        return name_of(label, self.known_names)

    def __repr__(self) -> str:
        run = f"{self.config['model']} on {self.fingerprint['stream']}"
        figures = f"ACC {100 * self.acc:.1f} %, BWT {round(100 * self.bwt, 1) + 0.0:.1f}"  # no minus before a zero
        return f"RunRecord({run}: {figures}, {self.memory['bytes']:,} bytes)"

    def save(self, folder: str | Path, *, replace: bool = False) -> Path:
        """Write record.json into the folder, whole or not at all; an earlier one is replaced only with `replace`."""
        path = Path(folder) / FILE
        # what is not a field is for readers of the file only
        figures = {"acc": self.acc, "bwt": self.bwt, "bwt_by_t": self.bwt_by_t, "stability_gap": self.stability_gap}
        figures = {name: value for name, value in figures.items() if value is not None}
        content: dict[str, Any] = figures | {name: value for name, value in asdict(self).items() if value is not None}
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
        text = read_regular(file, MOST_BYTES, "give the folder of a run")
        try:
            content = json.loads(text.decode(), parse_constant=no_number, parse_float=finite, parse_int=whole)
            check(content)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file} is not a run's record ({error}); remove it or put the right one there") from None
        content |= {name: float(content[name]) for name in ("acc", "bwt", "fwt", "forgetting")}  # 1 is 1.0
        matrix = content["accuracy_matrix"]
        content["accuracy_matrix"] = [[None if value is None else float(value) for value in row] for row in matrix]
        content["first_task_curve"] = list(map(float, content["first_task_curve"]))
        content["seconds"] = {name: float(value) for name, value in content["seconds"].items()}
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
    for place, (holds, meaning) in RULES.items():
        part, _, name = place.partition(".")
        values = content[part] if name else content
        wanted = values if name == EACH else [name or part]
        for key in wanted:
            if key in values and not holds(values[key]):
                where = f"{part}.{key}" if name else part
                raise ValueError(f"{where} is {shortened(repr(values[key]), 40)} instead of {meaning}")
    tasks = len(content["accuracy_matrix"][0])
    if len(content["accuracy_matrix"]) != tasks + 1 or len(content["fingerprint"]["class_order"]) != tasks:
        raise ValueError("accuracy_matrix has not a row for each task of class_order and one before them")
    tests = content.get("between")
    if tests is not None and (
        len(tests) != tasks or any(len(row) <= now for now, rows in enumerate(tests) for row in rows)
    ):
        raise ValueError("between has not the tests of each task, each of all tasks up to it")


def is_continuation(value: Any) -> bool:
    """What `samc.experiments.continuing` writes."""
    if not isinstance(value, dict) or set(value) != {"record", "streams", "first_task", "first_class"}:
        return False
    streams = value["streams"]
    listed = isinstance(streams, list) and all(isinstance(stream, dict) for stream in streams)
    numbered = [value, *streams] if listed else [{}]
    counts = (numbers.get(name) for numbers in numbered for name in ("first_task", "first_class"))
    settings = (setting for stream in streams for setting in stream.values()) if listed else ()
    return is_text(value["record"]) and all(map(is_count, counts)) and all(map(is_scalar, settings))


EACH = "*"
RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "acc": (is_fraction, "a fraction from 0 to 1"),
    "bwt": (is_change, "a number from -1 to 1"),
    "fwt": (is_change, "a number from -1 to 1"),
    "forgetting": (is_change, "a number from -1 to 1"),
    "accuracy_matrix": (is_matrix, "rows of as many fractions from 0 to 1"),
    "first_task_curve": (are(is_fraction), "a list of fractions from 0 to 1"),
    "memory.bytes": (is_count, "a number of bytes"),
    "memory.memory_bytes": (is_count, "a number of bytes"),
    "memory.budget_bytes": (is_count, "a number of bytes"),
    "memory.bytes_by_part": (
        lambda value: isinstance(value, dict) and all(map(is_count, value.values())),
        "a number of bytes of each part",
    ),
    "memory.images_per_task": (are(is_count), "a list of numbers of images"),
    "memory.codec": (perhaps(is_text), "a codec's name"),
    f"seconds.{EACH}": (is_amount, "a number of seconds"),
    "config.model": (is_text, "a method's name"),
    "config.seed": (perhaps(is_seed), "a whole number from 0"),
    "config.dataset": (is_text, "a stream's name"),
    "config.preset": (perhaps(is_text), "a preset's name"),
    f"config.{EACH}": (is_setting, "a setting's value"),
    "fingerprint.stream": (is_text, "a stream's name"),
    "fingerprint.class_order": (is_order, f"the classes of each task, at most {MOST_CLASSES:,}"),
    "fingerprint.image_shape": (is_shape, "channels, height and width"),
    "fingerprint.accounting": (lambda value: value in ("bytes", "values"), "bytes or values"),
    "fingerprint.training_images": (are(is_count), "a list of numbers of images"),
    "fingerprint.budget_images": (perhaps(is_count), "a number of images"),
    "fingerprint.memory_bytes": (perhaps(is_text), "a budget such as 30KB/task"),
    f"fingerprint.{EACH}": (lambda value: is_setting(value) or is_order(value), "one of the run's terms"),
    f"versions.{EACH}": (is_text, "a version"),
    "device.name": (is_text, "a machine's name"),
    f"device.{EACH}": (is_scalar, "a fact about the machine"),
    "class_names": (
        perhaps(lambda value: are(is_text)(value) and len(value) <= MOST_CLASSES),
        f"a name for each class, at most {MOST_CLASSES:,}",
    ),
    "continues": (perhaps(is_continuation), "what it goes on from"),
    "between": (perhaps(are(are(are(is_fraction)))), "the accuracies of tests, by task"),
    "began_on": (perhaps(are(is_part)), "the devices and versions that it was begun with"),
    "diagnosis": (lambda value: value is None or isinstance(value, dict), "what was measured"),
}
# of each value that tables and figures read, what it has to be, in code and in words


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
