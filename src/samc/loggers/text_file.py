"""A log as lines of a text file, each entry written at once; pictures lie beside it as PNG files."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from samc.loggers.base import NOTHING, Entry
from samc.memory.notebook import as_png

PICTURES = "log-pictures"
# the folder of them, shared by all logs of a run


class TextFile:
    """A subclass says what lines an entry makes (`text`), and of what step a line is (`step_of`)."""

    place: ClassVar[str]
    heading: ClassVar[str] = ""

    def __init__(self, folder: Path, config: Mapping[str, Any], *, resumed: bool):
        self.folder, path = folder, folder / self.place
        content = path.read_bytes() if resumed and path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]  # a power cut may have left half a line
        self.last = self.step_of(whole.decode().splitlines()[-1]) if len(whole) > len(self.heading) else NOTHING
        if len(whole) < len(content):
            os.truncate(path, len(whole))
        # without a buffer: whoever follows the file sees each entry, and nothing is left to write when it is closed
        self.file = path.open("ab" if content else "wb", buffering=0)
        self.before = "" if whole else self.heading

    @classmethod
    def check(cls) -> None: ...

    def text(self, entry: Entry, pictures: dict[str, str]) -> str:
        """The lines of an entry whose pictures have been written to these files."""
        raise TypeError(f"{type(self).__name__} does not say what its lines are")

    @staticmethod
    def step_of(line: str) -> int:
        raise TypeError("it is not known what step a line is of")

    def write(self, entry: Entry) -> None:
        files = {}
        for name, picture in entry.pictures.items():
            files[name] = f"{PICTURES}/{name}-{entry.step:07d}.png"
            (self.folder / PICTURES).mkdir(exist_ok=True)
            (self.folder / files[name]).write_bytes(as_png(picture))
        content = (self.before + self.text(entry, files)).encode()
        self.before = ""
        if self.file.write(content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        self.file.close()
