"""Continual learning in a fixed memory: SAMC and its rivals, counted in bytes that exist."""

import os

# read when torch's threads start. As torch comes, a thread that waits for work keeps its core busy for long, and two
# runs on one machine take ten times as long as one (benchmarks/results/tuning-two-cores.md)
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

from samc import streams
from samc.errors import UserError
from samc.learners import AGEM, EBM, EEC, ER, EWC, GEM, LEARNERS, MER, SAMC, Finetune, ICaRL, Joint, LwF
from samc.memory import EpisodicMemory
from samc.memory import EpisodicMemory as Memory
from samc.protocol import run
from samc.record import RunRecord
from samc.version import VERSION

__version__ = VERSION

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
    "UserError",
    "__version__",
    "run",
    "streams",
]
