"""Episodic memory: codecs that turn images into bytes, and the buffer that keeps those under a budget."""

from samc.memory.buffer import EpisodicMemory
from samc.memory.codec import CODECS, Codec, Coordinates, Raw

__all__ = ["CODECS", "Codec", "Coordinates", "EpisodicMemory", "Raw"]
