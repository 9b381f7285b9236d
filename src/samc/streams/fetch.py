"""Fetches the official archives: pooch downloads one, its md5 is verified, and it is unpacked whole or not at all."""

import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from samc.errors import DataError, OutputError, unknown
from samc.streams import cifar, mini_imagenet
from samc.streams.base import Dataset

Progress = Callable[[int, int | None], None]
# called with the bytes that have come and, where the server says so, the bytes to come in all

TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 18


@dataclass(frozen=True)
class Archive:
    """An official archive: where it is, its md5, the folder it unpacks to, and how that folder is read."""

    url: str
    md5: str
    folder: str
    load: Callable[[Path], Dataset]

    @property
    def file_name(self) -> str:
        return PurePosixPath(self.url).name


ARCHIVES = {
    "cifar10": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        "cifar-10-batches-py",
        cifar.load_cifar10,
    ),
    "cifar100": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        "cifar-100-python",
        cifar.load_cifar100,
    ),
}


def default_data_dir() -> Path:
    """Where data sets are looked for: $SAMC_DATA, or else samc/ in the user's cache folder."""
    if given := os.environ.get("SAMC_DATA"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "samc"


def data_folder(given: Path | None) -> Path:
    """The folder that was given, or the default one."""
    return Path(given).expanduser() if given else default_data_dir()


def no_progress(done: int, total: int | None) -> None:
    """A progress that nobody watches."""


def fetch(name: str, data_dir: Path, *, url: str | None = None, progress: Progress = no_progress) -> Path:
    """The folder of a data set, downloaded unless an intact copy is there; a damaged copy is replaced at the end."""
    if name == mini_imagenet.FOLDER:
        raise DataError(
            "mini-imagenet cannot be fetched, as ImageNet's terms let nobody pass its images on: get it from "
            f"image-net.org and put {mini_imagenet.WANTED} under {data_dir}"
        )
    if name not in ARCHIVES:
        raise unknown("data set", name, ARCHIVES)
    archive = ARCHIVES[name]
    if present := intact_copy(name, data_dir):
        return present
    target = data_dir / archive.folder
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        # in data_dir, because only within one file system is a rename all or nothing
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=data_dir) as temporary:
            staging = Path(temporary)
            download(archive, url or archive.url, staging / archive.file_name, target, progress)
            unpack(staging / archive.file_name, archive.folder, staging)
            move_into_place(staging / archive.folder, target, staging / "replaced")
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"cannot write to {data_dir} ({reason}); make room, or choose another --data-dir") from None
    return target


def intact_copy(name: str, data_dir: Path) -> Path | None:
    """The folder of a copy that passes every check of its loader."""
    try:
        ARCHIVES[name].load(data_dir)
    except DataError:
        return None
    return cifar.find_folder(name, data_dir)


class ProgressFile:
    """An open file that reports the bytes written to it; it is also the progress bar that pooch tells the total.

    pooch's own count goes by whole chunks, so what it adds to its bar is ignored.
    """

    def __init__(self, file: BinaryIO, progress: Progress):
        self.file = file
        self.progress = progress
        self.done = 0
        self.started = False
        self.length: int | None = None

    @property
    def total(self) -> int | None:
        return self.length

    @total.setter
    def total(self, length: int | None) -> None:
        self.started = True
        self.length = length or None  # pooch says 0 where the server says nothing
        self.progress(0, self.length)

    def write(self, chunk: bytes) -> None:
        self.file.write(chunk)
        self.done += len(chunk)
        self.progress(self.done, self.length)

    def flush(self) -> None:
        self.file.flush()

    def update(self, chunk_bytes: int) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


def download(archive: Archive, url: str, path: Path, target: Path, progress: Progress) -> None:
    """Write what the url gives to path, and verify its md5; every failure says how to get the archive by hand."""
    import pooch  # noqa: PLC0415  (only a download needs it)

    first_file = target / next(iter(cifar.DIGESTS[target.name]))
    by_hand = f"download {archive.file_name} elsewhere and unpack it so that {first_file} exists"
    transfer = copy_file if urlsplit(url).scheme == "file" else request
    with path.open("wb") as file:
        transfer(url, ProgressFile(file, progress), by_hand)
    found = pooch.file_hash(path, alg="md5")
    if found != archive.md5:
        raise DataError(
            f"{url} gave another file than {archive.file_name}: md5 {found} instead of {archive.md5}; "
            f"try again, or {by_hand}"
        )


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
    file.total = path.stat().st_size if path.exists() else None
    for chunk in read_chunks(path, url, by_hand):
        file.write(chunk)


def read_chunks(path: Path, url: str, by_hand: str) -> Iterator[bytes]:
    """A file in pieces; a generator, so that errors of reading it are not mixed up with those of writing."""
    try:
        with path.open("rb") as source:
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
