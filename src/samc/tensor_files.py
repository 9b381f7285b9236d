"""Safetensors files that anybody may have written: their size and their header's are looked at before they are read."""

import os
from pathlib import Path
from typing import BinaryIO

from samc.errors import DataError
from samc.files import open_regular

LENGTH_BYTES = 8
# at the beginning of a file, they say how long the header is
MOST_BYTES = 2**33
# of any such file; a network of two thousand million parameters has as many
FREE_HEADER_BYTES = 2**22
# of a header, however small the file is; to parse it takes some thirty times its size
MOST_HEADER_SHARE = 2
# times what comes after it, where it is larger than that


def open_tensors(path: Path, remedy: str, most_bytes: int = MOST_BYTES) -> BinaryIO:
    """A plain file, opened for reading, of no more bytes than one of its kind has, with a header in proportion."""
    file = open_regular(path, remedy)
    size = os.fstat(file.fileno()).st_size
    header = int.from_bytes(file.read(LENGTH_BYTES), "little")
    file.seek(0)
    after = size - LENGTH_BYTES - header  # below 0 it is cut, which its reader says
    if size <= most_bytes and (after < 0 or header <= max(FREE_HEADER_BYTES, MOST_HEADER_SHARE * after)):
        return file
    file.close()
    if size > most_bytes:
        raise DataError(f"{path} has {size:,} bytes, no file of its kind has more than {most_bytes:,}; {remedy}")
    raise DataError(
        f"{path} claims a header of {header:,} bytes in a file of {size:,}, as no whole file does; {remedy}"
    )
