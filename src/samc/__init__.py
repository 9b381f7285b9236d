"""Continual learning in a fixed memory: SAMC and its rivals, counted in bytes that exist."""

from samc import streams
from samc.errors import UserError
from samc.learners import GEM, LEARNERS, SAMC, Finetune
from samc.memory import EpisodicMemory
from samc.protocol import run
from samc.record import RunRecord
from samc.version import VERSION

__version__ = VERSION

__all__ = [
    "GEM",
    "LEARNERS",
    "SAMC",
    "EpisodicMemory",
    "Finetune",
    "RunRecord",
    "UserError",
    "__version__",
    "run",
    "streams",
]
