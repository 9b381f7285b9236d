"""What a logger is: a place that takes one entry after the other; what an entry holds; which entry came last."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from jaxtyping import UInt8

NOTHING = -1
# the last step of a log that holds none


@dataclass(frozen=True)
class Entry:
    """What is known after so many steps of the whole run; no two entries have the same step."""

    step: int
    scalars: Mapping[str, float]
    pictures: Mapping[str, UInt8[np.ndarray, "h w c"]] = field(default_factory=dict)


class Logger(Protocol):
    """Made with the folder of a run; `resumed` tells whether it goes on with a log that is there, or begins one.

    place   its file or folder in that of the run
    last    the step of the last entry that it holds already: what a run repeats after an interruption is left out
    """

    place: ClassVar[str]
    last: int

    def __init__(self, folder: Path, config: Mapping[str, Any], *, resumed: bool): ...
    def write(self, entry: Entry) -> None: ...
    def close(self) -> None: ...

    @classmethod
    def check(cls) -> None:
        """Raise an ImportError for want of a package, a ConfigError where it cannot be used for another reason."""


class Marker:
    """The last step of a log that cannot be read back, and what else is needed to go on with it, in a small file."""

    def __init__(self, path: Path, *, resumed: bool):
        self.path = path
        self.content: dict[str, Any] = {"step": NOTHING}
        if resumed and path.exists():
            try:
                self.content = dict(json.loads(path.read_text()))
                self.content["step"] = int(self.content["step"])
            except (OSError, ValueError, TypeError, KeyError):  # a log is not worth a run: it goes on as a new one
                self.content = {"step": NOTHING}

    def move(self, step: int) -> None:
        self.content["step"] = step
        self.path.write_text(json.dumps(self.content) + "\n")
