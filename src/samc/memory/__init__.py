"""Episodic memory: codecs that turn images into bytes, and the buffer that keeps those under a budget."""

from samc.memory.budget import Accounting, Budget, budget_of
from samc.memory.buffer import EpisodicMemory
from samc.memory.codec import Codec
from samc.memory.codecs import parse
from samc.memory.selection import Selection, select, whole

__all__ = ["Accounting", "Budget", "Codec", "EpisodicMemory", "Selection", "budget_of", "parse", "select", "whole"]
