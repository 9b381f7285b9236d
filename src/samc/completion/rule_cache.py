"""A cache of what a completion rule has filled in: memories of past tasks do not change, and inpainting is slow."""

import hashlib

import numpy as np
from jaxtyping import Bool, UInt8

from samc.completion.rules import Rule

MAX_BYTES = 64 << 20
# of images; those used longest ago are dropped first


class RuleCache:
    """The results of a rule for the batches that it was last asked for, found by a hash of the batch.

    They are made from the memory and can be made again: working space, like the dense images of a task.
    """

    def __init__(self) -> None:
        self.results: dict[bytes, np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        return sum(result.nbytes for result in self.results.values())

    def __call__(
        self, rule: Rule, images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]
    ) -> UInt8[np.ndarray, "b c h w"]:
        key = hashlib.blake2b(repr(images.shape).encode() + images.tobytes() + masks.tobytes(), digest_size=16).digest()
        cached = self.results.pop(key, None)
        self.results[key] = rule(images, masks) if cached is None else cached  # used last, dropped last
        while len(self.results) > 1 and self.nbytes > MAX_BYTES:
            del self.results[next(iter(self.results))]
        return self.results[key]
