"""Pictures that a rule has painted already: memories of past tasks do not change, and inpainting is slow."""

import hashlib

import numpy as np
from jaxtyping import Bool, UInt8

from samc.completion.rules import Rule

MOST_BYTES = 64 << 20
# of pictures; the ones used longest ago go first


class Painted:
    """A rule's pictures of the batches that it was last asked for; each is known by its bytes.

    They are made from the memory and can be made again: working space, like the dense images of a task.
    """

    def __init__(self) -> None:
        self.pictures: dict[bytes, np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        return sum(picture.nbytes for picture in self.pictures.values())

    def __call__(
        self, rule: Rule, images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]
    ) -> UInt8[np.ndarray, "b c h w"]:
        key = hashlib.blake2b(repr(images.shape).encode() + images.tobytes() + masks.tobytes(), digest_size=16).digest()
        found = self.pictures.pop(key, None)
        self.pictures[key] = rule(images, masks) if found is None else found  # used last, the last to go
        while len(self.pictures) > 1 and self.nbytes > MOST_BYTES:
            del self.pictures[next(iter(self.pictures))]
        return self.pictures[key]
