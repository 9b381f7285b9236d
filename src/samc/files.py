"""Files that are written whole or not at all, plain files that are read, and the folders that hold some."""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from samc.errors import ConfigError, DataError, OutputError


def open_regular(path: Path, remedy: str = "check the path") -> BinaryIO:
    """A plain file, opened for reading. A pipe would keep us waiting, a device fill the memory: both are refused.

    `remedy` is what to do where there is no such file.
    """
    try:
        # without waiting for a writer, should a pipe have taken the file's place
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) if is_regular(path) else None
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} is not there; {remedy}") from None
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot read {path} ({reason}); check its name and who may read it") from None
    if descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    if descriptor is not None:
        os.close(descriptor)
    kind = "a folder" if path.is_dir() else "a pipe, a socket or a device"
    raise DataError(f"{path} is {kind}, no plain file; {remedy}")


def is_regular(path: Path) -> bool:
    return stat.S_ISREG(os.stat(path).st_mode)


def is_special(path: Path) -> bool:
    """Whether a name, or what it links to, is that of a device, a pipe or a socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def read_regular(path: Path, most_bytes: int, remedy: str = "check the path") -> bytes:
    """The content of a plain file that has no more than so many bytes."""
    with open_regular(path, remedy) as file:
        try:
            content = file.read(most_bytes + 1)
        except OSError as error:
            raise DataError(f"cannot read {path} ({error.strerror}); copy it again") from None
    if len(content) > most_bytes:
        raise DataError(f"{path} has more than {most_bytes:,} bytes, which no file of its kind has; {remedy}")
    return content


def expanded(path: str | Path) -> Path:
    """A path whose ~ is the home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(f"{path}: nobody knows that home folder; write the whole path instead of ~") from None


CLAIM = ".claimed"
# the file in a folder that a process holds while it works there
TEMPORARY = ".*-" + "[0-9a-f]" * 16
# what the names look like that files have while they are written


def write_whole(path: Path, content: bytes | bytearray, *, replace: bool, spare: Path | None = None) -> None:
    """Write a file through a temporary one next to it, so that neither a reader nor a full disk leaves half of it.

    A file that is there is replaced only with `replace`; otherwise it is a FileExistsError, after the content has been
    saved under the `spare` name where there is one. A device, a pipe or a socket is never replaced.
    """
    if replace and is_special(path):  # who may write to a folder of devices could do without them from then on
        raise FileExistsError(errno.EEXIST, "it is a pipe, a socket or a device", str(path))
    # a process id would not do: two machines that share a folder may both have it
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        write_through(temporary, content)
        if replace:
            os.replace(temporary, path)
        else:
            link_free_name(path, temporary)
        sync_folder(path.parent)
    except FileExistsError:
        if spare is not None:
            os.replace(temporary, spare)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_output(path: Path, content: bytes | bytearray, *, replace: bool, taken: str) -> None:
    """What a user asked for, written whole; where that fails the error says why. `taken` is what to do about a name."""
    try:
        write_whole(path, content, replace=replace)
    except FileExistsError:
        kind = ", a pipe, a socket or a device" if is_special(path) else ""
        raise OutputError(f"{path} is there already{kind}; {taken}") from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; free some space or choose another place") from None


def write_through(path: Path, content: bytes | bytearray) -> None:
    """Write a new file, to the disk itself."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a power cut too; some file systems cannot be asked to, and need not be."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_temporaries(folder: Path) -> None:
    """Remove what a process that was killed while it wrote has left."""
    for path in folder.glob(TEMPORARY):
        path.unlink(missing_ok=True)


@contextmanager
def held_alone(folder: Path) -> Iterator[bool]:
    """Whether this process may work in a folder now. The system ends a claim with its process, however it ends."""
    file = os.open(folder / CLAIM, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = os.path.samestat(os.fstat(file), os.stat(folder / CLAIM))
        except (BlockingIOError, FileNotFoundError):
            mine = False
        if not mine:  # another's, or what the last one has removed since: a third may hold a new one
            yield False
            return
        try:
            yield True
        finally:
            (folder / CLAIM).unlink(missing_ok=True)
    finally:
        os.close(file)


def link_free_name(path: Path, temporary: Path) -> None:
    """Give a file a name that must be free; a rename would replace another file."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: an empty file takes the name first
        path.touch(exist_ok=False)
        try:
            os.replace(temporary, path)
        except OSError:
            path.unlink(missing_ok=True)
            raise


def folders_with(name: str, folder: Path) -> list[Path]:
    """The folders directly in this one that hold a file of that name: what a user who named this one may have meant."""
    return sorted(path.parent for path in folder.glob(f"*/{name}"))
