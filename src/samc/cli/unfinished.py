"""A run that has not ended: the file in its folder that says what it is, from which `samc run --resume` goes on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from samc.checkpoints import Checkpoints
from samc.config import RunConfig, flag
from samc.errors import ConfigError, DataError, OutputError
from samc.experiments.continuing import Earlier
from samc.experiments.progress_log import FILE as PROGRESS
from samc.files import folders_with, held_alone, read_regular, write_whole
from samc.learners import method
from samc.record import FILE as RECORD
from samc.stopping import Stopped
from samc.version import VERSION

FILE = "run.json"
MOST_BYTES = 2**20
# of such a file
MOST_THREADS = 2**16


@dataclass(frozen=True)
class Unfinished:
    """All that a run needs to go on, or to begin again; `threads` because results on a CPU depend on how many."""

    config: RunConfig
    diagnose: bool
    data_dir: Path | None
    device: str
    threads: int
    checkpoint_every: str
    continues: Earlier | None = None
    log: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        content = {
            "samc": VERSION,
            "config": self.config.as_dict(),
            "diagnose": self.diagnose,
            "data_dir": None if self.data_dir is None else str(self.data_dir.absolute()),
            "device": self.device,
            "threads": self.threads,
            "checkpoint_every": self.checkpoint_every,
            "log": list(self.log),
        }
        if self.continues is not None:
            content["continues"] = asdict(self.continues) | {"folder": str(self.continues.folder)}
        try:
            write_whole(folder / FILE, (json.dumps(content, indent=1) + "\n").encode(), replace=True)
        except OSError as error:
            raise OutputError(f"cannot write to {folder}: {error.strerror}; choose another --out") from None

    @classmethod
    def read(cls, folder: Path) -> "Unfinished":
        path = folder / FILE
        try:
            content = json.loads(read_regular(path, MOST_BYTES))
            version = content.pop("samc")
            values, data_dir, log = content.pop("config"), content.pop("data_dir"), tuple(content.pop("log", ()))
            if not all(type(name) is str for name in log):
                raise ValueError(f"log is {log!r}")
            config = RunConfig.from_dict(values, method(values["model"]).Settings)
            earlier = content.pop("continues", None)
            if earlier is not None:
                earlier = Earlier(Path(earlier["folder"]), earlier["record"], earlier["tested"])
            place = None if data_dir is None else Path(data_dir)
            found = cls(config=config, data_dir=place, continues=earlier, log=log, **content)
            if absent := sorted(config.as_dict().keys() - values.keys()):
                raise ValueError(f"config has no {absent[0]}")
            kinds = {"diagnose": bool, "device": str, "threads": int, "checkpoint_every": str}
            if wrong := [name for name, kind in kinds.items() if type(content[name]) is not kind]:
                raise ValueError(f"{wrong[0]} is {content[wrong[0]]!r}")
            if not 1 <= found.threads <= MOST_THREADS or type(version) is not str:
                raise ValueError(f"it was begun by samc {version!r} with {found.threads} threads")
        except DataError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} does not say what run it is ({error}); remove {folder} and begin again") from None
        if version != VERSION:
            wrote = f"{folder} was begun with samc {version}, this is samc {VERSION}, which may compute otherwise"
            raise DataError(f"{wrote}; go on with that version, or remove {folder} and begin again")
        return found

    def check(self, given: dict[str, Any], folder: Path) -> None:
        """Refuse settings that contradict those that the run was begun with."""
        values = self.config.as_dict()
        for name, value in given.items():
            if values.get(name) != value:
                known = f"was begun with {flag(name)} {values[name]}" if name in values else f"has no {flag(name)}"
                raise ConfigError(f"{folder} {known}, not {value}; leave {flag(name)} out, or begin another run")


def is_unfinished(folder: Path) -> bool:
    return (folder / FILE).exists() and not (folder / RECORD).exists()


def unfinished_folders(folder: Path) -> list[Path]:
    """The folder of a run, or those of its seeds; what cannot be gone on with is an error that says why."""
    begun = [folder, *folders_with(FILE, folder)]
    if found := [place for place in begun if is_unfinished(place)]:
        return found[:1] if found[0] == folder else found
    for place in begun:
        if (place / RECORD).exists():  # killed when all was written, and what it went on from not yet removed
            Checkpoints(place).clear()
            (place / FILE).unlink(missing_ok=True)
    if (folder / RECORD).exists() or folders_with(RECORD, folder):
        raise ConfigError(f"{folder} is finished, there is nothing to go on with; samc report {folder} shows it")
    raise DataError(f"{folder} holds no run that has been begun; give the --out of one that was interrupted")


@contextmanager
def kept_if_it_can_go_on(folder: Path) -> Iterator[None]:
    """Hold a folder for one process. A run that fails before it has saved anything leaves the folder as it was."""
    with held_alone(folder) as mine:
        if not mine:
            raise OutputError(f"{folder} is being learnt by another process; wait for it, or stop it")
        earlier = (folder / FILE).read_bytes() if is_unfinished(folder) else None
        saved = Checkpoints(folder).paths
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Stopped) and Checkpoints(folder).paths == saved:
                if earlier is not None:  # what was asked for this time may be why it failed
                    with suppress(OSError):
                        write_whole(folder / FILE, earlier, replace=True)
                elif not saved:
                    for name in (FILE, PROGRESS):
                        (folder / name).unlink(missing_ok=True)
            raise
