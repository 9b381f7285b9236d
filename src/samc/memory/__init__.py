"""Episodic memory: codecs that turn images into bytes, and the buffer that keeps these bytes under a budget."""

from samc.memory.budget import Accounting, Budget, budget_of, parse_budget
from samc.memory.buffer import EpisodicMemory
from samc.memory.codec import Codec
from samc.memory.codecs import AUTO, codec_for, parse_codec
from samc.memory.selection import Selection, full_selection, select

Memory = EpisodicMemory
# its name for users: samc.Memory

__all__ = [
    "AUTO",
    "Accounting",
    "Budget",
    "Codec",
    "EpisodicMemory",
    "Selection",
    "budget_of",
    "codec_for",
    "full_selection",
    "parse_budget",
    "parse_codec",
    "select",
]
