"""Downloads the official archives: verified, unpacked beside their place and moved there whole, or not at all."""

import hashlib
import http.client
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from samc.errors import DataError, OutputError, unknown
from samc.streams import cifar, mini_imagenet
from samc.streams.base import Dataset

Progress = Callable[[int, int | None], None]
# called with the bytes that have come and, where the server says so, the bytes to come in all

TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 18


@dataclass(frozen=True)
class Archive:
    url: str
    md5: str
    folder: str
    # what the archive unpacks to
    load: Callable[[Path], Dataset]


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


def data_folder(asked: Path | None) -> Path:
    """The folder that was asked for, or the usual one."""
    return Path(asked).expanduser() if asked else default_data_dir()


def silent(done: int, total: int | None) -> None:
    """A progress that nobody watches."""


def fetch(name: str, data_dir: Path, *, url: str | None = None, progress: Progress = silent) -> Path:
    """The folder of a data set, downloaded unless a whole copy is there; a damaged copy is replaced at the very end."""
    if name == mini_imagenet.FOLDER:
        raise DataError(
            "mini-imagenet cannot be fetched, as ImageNet's terms let nobody pass its images on: get it from "
            f"image-net.org and put {mini_imagenet.WANTED} under {data_dir}"
        )
    if name not in ARCHIVES:
        raise unknown("data set", name, ARCHIVES)
    archive = ARCHIVES[name]
    if present := whole_copy(name, data_dir):
        return present
    target = data_dir / archive.folder
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        # in data_dir, because only within one file system is a rename all or nothing
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=data_dir) as temporary:
            staging = Path(temporary)
            download(archive, url or archive.url, staging / "archive.tar.gz", target, progress)
            unpack(staging / "archive.tar.gz", archive.folder, staging)
            put(staging / archive.folder, target, staging / "replaced")
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"cannot write to {data_dir} ({reason}); make room, or choose another --data-dir") from None
    return target


def whole_copy(name: str, data_dir: Path) -> Path | None:
    """The folder of a copy that passes every check of its loader."""
    try:
        ARCHIVES[name].load(data_dir)
    except DataError:
        return None
    return cifar.find(name, data_dir)


def download(archive: Archive, url: str, path: Path, target: Path, progress: Progress) -> None:
    """Stream the url to path and compare its md5."""
    file_name = PurePosixPath(archive.url).name
    by_hand = (
        f"download {file_name} elsewhere and unpack it so that {target / next(iter(cifar.DIGESTS[target.name]))} exists"
    )
    digest, done = hashlib.md5(usedforsecurity=False), 0
    with connect(url, by_hand) as response, path.open("wb") as file:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else None
        progress(0, total)
        for chunk in chunks(response, url, by_hand):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done, total)
    if total is not None and done != total:
        raise DataError(f"the connection to {url} was cut after {done:,} of {total:,} bytes; try again, or {by_hand}")
    if digest.hexdigest() != archive.md5:
        raise DataError(
            f"{url} gave another file than {file_name}: md5 {digest.hexdigest()} instead of {archive.md5}; "
            f"try again, or {by_hand}"
        )


def connect(url: str, by_hand: str) -> Any:
    """The open response: an HTTPResponse, or what urllib has of the same kind for file: and data: urls."""
    try:
        return urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{url} answers {error.code} {error.reason}; {by_hand}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(f"cannot reach {url} ({reason}): {by_hand}") from None


def chunks(response: Any, url: str, by_hand: str) -> Iterator[bytes]:
    """The body in pieces; a generator, so that the network's errors are not mixed up with the disk's."""
    try:
        while chunk := response.read(CHUNK_BYTES):
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"the connection to {url} was lost ({error}); try again, or {by_hand}") from None


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


def put(new: Path, target: Path, aside: Path) -> None:
    """Move a folder into place; what stood there before comes back if that fails."""
    if target.exists():
        target.rename(aside)
    try:
        new.rename(target)
    except BaseException:
        if aside.exists():
            aside.rename(target)
        raise
