"""Continual learning in a fixed memory: SAMC and its rivals, counted in bytes that exist."""

from samc import streams
from samc.errors import UserError
from samc.learners import GEM, LEARNERS, SAMC, Finetune
from samc.memory import EpisodicMemory
from samc.protocol import run
from samc.record import RunRecord

__version__ = "0.1.0"

__all__ = ["GEM", "LEARNERS", "SAMC", "EpisodicMemory", "Finetune", "RunRecord", "UserError", "run", "streams"]
