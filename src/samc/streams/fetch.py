"""Fetches data sets by their official files: all of them arrive in their folder, or none."""

import fcntl
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from samc.errors import DataError, OutputError, unknown
from samc.files import expanded
from samc.streams import cifar, mini_imagenet
from samc.streams.archives import ARCHIVES, Archive, File
from samc.streams.download import Progress, download, no_progress
from samc.streams.packages import PACKAGES, is_packaged, parts_of

STAGING = ".fetch-"
LOCK = "lock"
# within a staging folder, held as long as its fetch lives
ABANDONED_SECONDS = 24 * 60 * 60
# after which a staging folder without a lock, of an older version or of a fetch that was killed at once, is removed


def default_data_dir() -> Path:
    """Where data sets are looked for: $SAMC_DATA, or else samc/ in the user's cache folder."""
    if given := os.environ.get("SAMC_DATA"):
        return expanded(given)
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "samc"


def data_folder(given: Path | None) -> Path:
    """The folder that was given, or the default one."""
    return expanded(given) if given else default_data_dir()


def fetch(name: str, data_dir: Path, *, url: str | None = None, progress: Progress = no_progress) -> Path:
    """The folder of a data set, downloaded unless an intact copy is there; a damaged copy is replaced at the end."""
    if name == mini_imagenet.FOLDER:
        raise DataError(
            "mini-imagenet cannot be fetched, as ImageNet's terms let nobody pass its images on: get it from "
            f"image-net.org and put {mini_imagenet.WANTED} under {data_dir}"
        )
    if is_packaged(name):
        parts_of(name, data_dir, download=True)
        return data_dir / name.partition(":")[0]
    if name not in ARCHIVES:
        raise unknown("data set", name, (*ARCHIVES, *(f"{prefix}NAME" for prefix in PACKAGES)))
    archive = ARCHIVES[name]
    remove_abandoned(data_dir)
    if present := archive.intact(data_dir):
        return present
    target = data_dir / archive.folder
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        with staging_folder(data_dir) as staging:
            kept = staging if archive.unpacked else staging / archive.folder
            kept.mkdir(exist_ok=True)
            for file in archive.files:
                place = f"{url.rstrip('/')}/{file.file_name}" if url and archive.more else url or file.url
                download(file, place, kept / file.file_name, by_hand(archive, file, target), progress)
            if archive.unpacked:
                unpack(kept / archive.file_name, archive.folder, staging)
            move_into_place(staging / archive.folder, target, staging / "replaced")
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"cannot write to {data_dir} ({reason}); make room, or choose another --data-dir") from None
    return target


@contextmanager
def staging_folder(data_dir: Path) -> Iterator[Path]:
    """A folder for one fetch; in data_dir, because only within one file system is a rename all or nothing."""
    with (
        tempfile.TemporaryDirectory(prefix=STAGING, dir=data_dir) as temporary,
        (Path(temporary) / LOCK).open("wb") as lock,
    ):
        with suppress(OSError):  # a file system without locks: the folder's age will tell
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(temporary)


def remove_abandoned(data_dir: Path) -> None:
    """Remove the staging folders of fetches that were killed; the system has ended their locks with them."""
    for folder in data_dir.glob(f"{STAGING}*"):
        with suppress(OSError):
            if is_abandoned(folder):
                shutil.rmtree(folder)


def is_abandoned(folder: Path) -> bool:
    lock = folder / LOCK
    if not lock.is_file():
        return folder.is_dir() and time.time() - folder.stat().st_mtime > ABANDONED_SECONDS
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def by_hand(archive: Archive, file: File, target: Path) -> str:
    """How to get a file where it cannot be fetched."""
    if not archive.unpacked:
        return f"download {file.file_name} elsewhere and put it into {target}"
    first_file = target / next(iter(cifar.DIGESTS[target.name]))
    return f"download {file.file_name} elsewhere and unpack it so that {first_file} exists"


def unpack(path: Path, folder: str, destination: Path) -> None:
    """Unpack plain files and folders below `folder`; an archive with anything else is refused."""

    def admit(member: tarfile.TarInfo, where: str) -> tarfile.TarInfo | None:
        parts = PurePosixPath(member.name).parts
        if not (member.isfile() or member.isdir()) or parts[:1] != (folder,) or ".." in parts:
            raise DataError(f"the archive holds {member.name!r}, which is no plain file in {folder}/; do not use it")
        return tarfile.data_filter(member, where)

    try:
        with tarfile.open(path) as tar:
            tar.extractall(str(destination), filter=admit)
    except (tarfile.TarError, EOFError) as error:
        raise DataError(f"the archive cannot be unpacked ({error}); fetch it again") from None
    if not (destination / folder).is_dir():
        raise DataError(f"the archive holds no folder {folder}/; do not use it")


def move_into_place(new: Path, target: Path, aside: Path) -> None:
    """Move a folder to its place; what stood there before comes back if that fails."""
    if target.exists():
        target.rename(aside)
    try:
        new.rename(target)
    except BaseException:
        if aside.exists():
            aside.rename(target)
        raise
