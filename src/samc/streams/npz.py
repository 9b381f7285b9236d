"""npz files, read with suspicion: what a file claims is compared with its size before any array is made of it."""

import math
import zipfile
import zlib
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from samc.errors import DataError

FREE_BYTES = 2**28
# that the arrays of any file may take together, however small it is
MOST_INFLATION = 200
# that one byte of a larger file may stand for; pictures of one colour stay below it, a file made to burst does not
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# by version of the format; the third is for records with names beyond Latin-1, which are no images
ENCRYPTED = 1
# the bit of a member's flags


def read_npz(file: BinaryIO, origin: str, needed: Sequence[str], optional: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The named arrays of an npz file; never unpickles. `origin` is what an error calls the file."""
    try:
        with opened(file, origin) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if missing := [name for name in needed if name not in members]:
                found = ", ".join(members) or "nothing"
                raise DataError(f"{origin} has no array {missing[0]!r}, only {found}; it needs {', '.join(needed)}")
            wanted = {name: members[name] for name in (*needed, *optional) if name in members}
            check_sizes(origin, wanted, file)
            return {name: read_member(archive, info) for name, info in wanted.items()}
    except DataError:
        raise
    # each way of packing fails in its own way, and a stranger's header may make numpy fail in any
    except Exception as error:
        raise unreadable(origin, error) from None


def opened(file: BinaryIO, origin: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        raise DataError(f"{origin} is not a whole npz file; copy it again, or save it anew with numpy.savez") from None


def check_sizes(origin: str, members: dict[str, zipfile.ZipInfo], file: BinaryIO) -> None:
    """Refuse what is encrypted, and arrays out of all proportion to the file."""
    if any(info.flag_bits & ENCRYPTED for info in members.values()):
        raise DataError(f"{origin} is encrypted; save plain arrays with numpy.savez")
    size, claimed = file.seek(0, 2), sum(info.file_size for info in members.values())
    if claimed > max(FREE_BYTES, MOST_INFLATION * size):
        raise DataError(
            f"{origin} claims arrays of {claimed:,} bytes in a file of {size:,}; "
            "if they are yours, save them with numpy.savez, which does not compress"
        )


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """One array, once its header is known to fit the bytes that are there."""
    with archive.open(info) as member:
        version = npy.read_magic(member)
        if version not in HEADERS:
            raise ValueError(f"{info.filename} is in another format than numpy.savez writes for arrays of numbers")
        shape, _, dtype = HEADERS[version](member)
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded")
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
            raise ValueError(f"{info.filename} has other bytes than its shape {shape} says")
    with archive.open(info) as member:
        return npy.read_array(member, allow_pickle=False)


def unreadable(origin: str, error: Exception) -> DataError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, zlib.error):
        reason = f"damaged, {reason}"
    return DataError(f"cannot read {origin} ({reason}); copy it again, or save plain arrays with numpy.savez")
