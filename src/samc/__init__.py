"""Continual learning in a fixed memory: SAMC and its rivals, counted in bytes that exist."""

import importlib
import os
from typing import TYPE_CHECKING, Any

# read when torch's threads start. As torch comes, a thread that waits for work keeps its core busy for long, and two
# runs on one machine take ten times as long as one (benchmarks/results/tuning-two-cores.md)
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

from samc.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from samc import streams
    from samc.errors import UserError
    from samc.learners import AGEM, EBM, EEC, ER, EWC, GEM, LEARNERS, MER, SAMC, Finetune, ICaRL, Joint, LwF
    from samc.memory import EpisodicMemory
    from samc.memory import EpisodicMemory as Memory
    from samc.protocol import run
    from samc.record import RunRecord
    from samc.streams import Stream, Task

HOMES = {
    "samc.learners": (
        "AGEM", "EBM", "EEC", "ER", "EWC", "GEM", "LEARNERS", "MER", "SAMC", "Finetune", "ICaRL", "Joint", "LwF",
    ),
    "samc.errors": ("UserError",),
    "samc.memory": ("EpisodicMemory",),
    "samc.protocol": ("run",),
    "samc.record": ("RunRecord",),
    "samc.streams": ("Stream", "Task", "stream_of"),
}  # fmt: skip
NAMES = {name: home for home, names in HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Public names are imported when they are used: torch alone takes seconds, and `samc --help` needs none of it."""
    if name == "streams":
        return importlib.import_module("samc.streams")
    if name == "Memory":
        name = "EpisodicMemory"
    if name not in NAMES:
        raise AttributeError(f"module 'samc' has no attribute {name!r}")
    return getattr(importlib.import_module(NAMES[name]), name)


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "AGEM",
    "EBM",
    "EEC",
    "ER",
    "EWC",
    "GEM",
    "LEARNERS",
    "MER",
    "SAMC",
    "EpisodicMemory",
    "Finetune",
    "ICaRL",
    "Joint",
    "LwF",
    "Memory",
    "RunRecord",
    "Stream",
    "Task",
    "UserError",
    "__version__",
    "run",
    "streams",
]
