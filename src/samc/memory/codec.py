"""Codecs: an image and which of its pixels to keep, to bytes and back. What a codec returns is all that is kept."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, UInt8

from samc.errors import ConfigError, DataError
from samc.memory.selection import Selection

Shape = tuple[int, int, int]


@runtime_checkable
class Codec(Protocol):
    """Images are uint8 (b, c, h, w), masks bool (b, h, w), True where a pixel is kept.

    `spec` is its name on the command line; made again from it, a codec reads what it has written. `blob_bytes` is the
    size of every blob, or None where they differ. Pixels that were dropped come back as what the codec still knows of
    them: zero, or a coarse picture if it has a `gist`.
    """

    spec: str
    image_shape: Shape
    blob_bytes: int | None
    gist: bool

    def encode(self, images: np.ndarray, kept: Selection) -> list[bytes]: ...
    def decode(self, blobs: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]: ...
    def parts(self, blob: bytes) -> dict[str, int]: ...
    def most_pixels(self, size_bytes: int) -> int: ...


def smallest_type(largest: int) -> np.dtype:
    """The smallest unsigned integer, little-endian, that holds every number up to `largest`."""
    for name in ("<u1", "<u2", "<u4"):
        if largest <= np.iinfo(name).max:
            return np.dtype(name)
    raise ConfigError(f"numbers up to {largest} are more than this format holds; use smaller images")


class Raw:
    """Whole images, byte for byte; masks come back full."""

    gist = False

    def __init__(self, image_shape: Shape):
        self.spec = "raw"
        self.image_shape = image_shape
        self.blob_bytes: int | None = int(np.prod(image_shape))

    def encode(self, images: UInt8[np.ndarray, "b c h w"], kept: Selection) -> list[bytes]:
        return [image.tobytes() for image in images]

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        if any(len(blob) != self.blob_bytes for blob in blobs):
            raise DataError(f"a whole image takes {self.blob_bytes} bytes; the memory is damaged")
        images = np.frombuffer(b"".join(blobs), np.uint8).reshape(-1, *self.image_shape)
        return images.copy(), np.ones((len(images), *self.image_shape[1:]), bool)

    def parts(self, blob: bytes) -> dict[str, int]:
        return {"colours": len(blob)}

    def most_pixels(self, size_bytes: int) -> int:
        """All of an image or none of it."""
        _, height, width = self.image_shape
        return height * width if size_bytes >= int(np.prod(self.image_shape)) else 0
