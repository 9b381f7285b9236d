"""Continual learning in a fixed memory: SAMC and its rivals, counted in bytes that exist."""

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

# read when torch's threads start. As torch comes, a thread that waits for work keeps its core busy for long, and two
# runs on one machine take ten times as long as one (benchmarks/results/tuning-two-cores.md)
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

from samc.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from samc import streams
    from samc.avalanche import from_avalanche as from_avalanche
    from samc.errors import UserError
    from samc.learners import AGEM, DER, EBM, EEC, ER, EWC, GEM, LEARNERS, MER, SAMC, Finetune, ICaRL, Joint, LwF
    from samc.learners import load as load
    from samc.learners.exporting import export as export
    from samc.memory import EpisodicMemory
    from samc.memory import EpisodicMemory as Memory
    from samc.protocol import run
    from samc.record import RunRecord
    from samc.report.explanation import explain
    from samc.streams import Stream, Task

HOMES = {
    "samc.avalanche": ("from_avalanche",),
    "samc.learners": (
        "AGEM", "DER", "EBM", "EEC", "ER", "EWC", "GEM", "LEARNERS", "MER", "SAMC", "Finetune", "ICaRL", "Joint", "LwF",
        "load",
    ),
    "samc.learners.exporting": ("export",),
    "samc.errors": ("UserError",),
    "samc.memory": ("EpisodicMemory", "Memory"),
    "samc.protocol": ("run",),
    "samc.record": ("RunRecord",),
    "samc.report.explanation": ("explain",),
    "samc.streams": ("Stream", "Task", "stream_of"),
}  # fmt: skip
HOME_OF = {name: home for home, names in HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Public names are imported when they are used: torch alone takes seconds, and `samc --help` needs none of it."""
    if not name.startswith("_"):
        if importlib.util.find_spec(f"samc.{name}"):
            return importlib.import_module(f"samc.{name}")
        home = importlib.import_module(HOME_OF.get(name, "samc.learners"))  # where a method that was added is, too
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module 'samc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "AGEM",
    "DER",
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
    "explain",
    "export",
    "load",
    "run",
    "streams",
]
