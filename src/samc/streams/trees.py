"""Image files below a folder, whether they have been unpacked or are still in their zip archive."""

import io
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from samc.errors import DataError
from samc.files import open_regular

MOST_FILES = 1_000_000
MOST_BYTES = 2**24
# of one file; an image of these sets has at most some ten thousand
Content = BinaryIO | io.BytesIO
ENCRYPTED = 1
# the bit of a member's flags


class Tree(ABC):
    """Files by their path below the top, with / between its parts."""

    where: Path
    names: frozenset[str]

    @abstractmethod
    def open(self, name: str) -> Content:
        """The content of one of them."""

    def close(self) -> None:  # noqa: B027  (a folder needs no closing)
        """No file is asked for any more."""


class FolderTree(Tree):
    """Files that have been unpacked."""

    def __init__(self, folder: Path, remedy: str):
        self.where, self.remedy = folder, remedy
        self.names = frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())

    def open(self, name: str) -> Content:
        return open_regular(self.where / name, self.remedy)


class ZipTree(Tree):
    """Files in an archive, below its one folder; nothing is ever written to disk."""

    def __init__(self, path: Path, top: str, remedy: str):
        self.where, self.remedy, self.top = path, remedy, top
        self.file = open_regular(path, remedy)
        try:
            self.archive = zipfile.ZipFile(self.file)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            self.file.close()
            raise DataError(f"{path} is not a whole zip archive ({error}); {remedy}") from None
        members = self.archive.infolist()
        if len(members) > MOST_FILES:
            raise DataError(f"{path} holds {len(members):,} files, more than any archive of its kind; do not use it")
        below = (PurePosixPath(member.filename) for member in members if not member.is_dir())
        self.names = frozenset(str(name.relative_to(top)) for name in below if name.parts[:1] == (top,))

    def open(self, name: str) -> Content:
        info = self.archive.getinfo(f"{self.top}/{name}")
        if info.file_size > MOST_BYTES or info.flag_bits & ENCRYPTED:
            raise DataError(f"{self.where}: {name} is encrypted or too large for an image; do not use it")
        try:
            return io.BytesIO(self.archive.read(info))  # which compares its checksum
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError) as error:
            raise DataError(f"{self.where}: {name} is damaged ({error}); {self.remedy}") from None

    def close(self) -> None:
        self.archive.close()
        self.file.close()


@contextmanager
def open_tree(data_dir: Path, folders: tuple[str, ...], archive: str, name: str) -> Iterator[Tree]:
    """The first of some folders that is there, or else the zip archive, whose files lie in the last of these."""
    remedy = f"run `samc data fetch {name}`"
    found = find_tree(data_dir, folders, archive)
    if found is None:
        wanted = " or ".join((*(f"{folder}/" for folder in folders), archive))
        elsewhere = "or point --data-dir at the folder that holds it"
        raise DataError(f"{name} is not in {data_dir}: expected {wanted} there; {remedy}, {elsewhere}")
    tree = FolderTree(found, remedy) if found.is_dir() else ZipTree(found, PurePosixPath(folders[-1]).name, remedy)
    with closing(tree):
        yield tree


def find_tree(data_dir: Path, folders: tuple[str, ...], archive: str) -> Path | None:
    """Where the files are, or None."""
    unpacked = (data_dir / folder for folder in folders)
    packed = data_dir / archive
    return next((folder for folder in unpacked if folder.is_dir()), packed if packed.exists() else None)
