"""One file from a server or this machine: pooch downloads it, a bar is told, and its md5 is verified.

A server that gives more than the file has, or next to nothing in a minute, is given up.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from samc.errors import DataError
from samc.files import open_regular
from samc.streams.archives import File

Progress = Callable[[int, int | None], None]
# called with the bytes that have come and, where the server says so, the bytes to come in all

TIMEOUT_SECONDS = 30
# to connect, and between two bytes
CHUNK_BYTES = 1 << 16
CHUNK_SECONDS = 60
# that a chunk may take: slower than a kilobyte a second, and an archive would take days
SLACK = 1.1
# how much more than its known size an archive may have before it is cut off; the md5 settles the rest


def no_progress(done: int, total: int | None) -> None:
    """A progress that nobody watches."""


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
