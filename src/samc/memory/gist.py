"""A gist of the whole image under its salient pixels: a coarse picture everywhere, and what mattered exactly."""

from collections.abc import Sequence

import cv2
import numpy as np
from jaxtyping import Bool, UInt8

from samc.errors import DataError
from samc.memory.masked import DAMAGED, Masked
from samc.memory.pictures import Picture
from samc.memory.selection import Selection

LENGTH = np.dtype("<u2")
BLUR = 4
# pixels a side that are one outside the salient region of a focused picture


class Gist:
    """The picture's bytes, their number before them where it varies, then the masked image's."""

    gist = True

    def __init__(self, under: Picture, over: Masked):
        self.under, self.over = under, over
        self.spec = f"gist:{under.spec}+{over.spec}"
        self.image_shape = under.image_shape
        self.blob_bytes: int | None = None

    def encode(self, images: UInt8[np.ndarray, "b c h w"], kept: Selection) -> list[bytes]:
        pairs = zip(self.under.encode(images, kept), self.over.encode(images, kept), strict=True)
        return [self.length(len(picture)) + picture + pixels for picture, pixels in pairs]

    def length(self, size: int) -> bytes:
        return b"" if self.under.blob_bytes else np.array(size, LENGTH).tobytes()

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        """Dropped pixels are the coarse picture's."""
        pictures, pixels = zip(*map(self.halves, blobs), strict=True) if blobs else ((), ())
        coarse, _ = self.under.decode(pictures)
        exact, masks = self.over.decode(pixels)
        return np.where(masks[:, None], exact, coarse), masks

    def halves(self, blob: bytes) -> tuple[bytes, bytes]:
        """The picture's bytes and the pixels'."""
        start = 0 if self.under.blob_bytes else LENGTH.itemsize
        if len(blob) < start:
            raise DataError(DAMAGED)
        end = start + (self.under.blob_bytes or int(np.frombuffer(blob, LENGTH, 1)[0]))
        if len(blob) < end:
            raise DataError(DAMAGED)
        return blob[start:end], blob[end:]

    def parts(self, blob: bytes) -> dict[str, int]:
        picture, pixels = self.halves(blob)
        header = len(blob) - len(picture) - len(pixels)
        return {"headers": header, "gist": len(picture), **self.over.parts(pixels)}

    def most_pixels(self, size_bytes: int) -> int:
        """What surely fits beside a picture that takes as much as a quarter of the raw image."""
        assumed = self.under.blob_bytes or int(np.prod(self.image_shape)) // 4
        return self.over.most_pixels(size_bytes - assumed - LENGTH.itemsize)


class Focus:
    """One lossy picture of the whole image whose bits go where it mattered: the rest is smoothed before it is packed.

    No mask is stored, none is needed: masks come back full.
    """

    gist = True

    def __init__(self, under: Picture):
        self.under = under
        self.spec = f"focus:{under.spec}"
        self.image_shape = under.image_shape
        self.blob_bytes: int | None = None

    def encode(self, images: UInt8[np.ndarray, "b c h w"], kept: Selection) -> list[bytes]:
        _, height, width = self.image_shape
        small = max(1, width // BLUR), max(1, height // BLUR)
        mixed = images.copy()
        for image, mask in zip(mixed, kept.masks, strict=True):
            for plane in image:
                coarse = cv2.resize(plane, small, interpolation=cv2.INTER_AREA)
                plane[~mask] = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)[~mask]
        return self.under.encode(mixed, kept)

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        return self.under.decode(blobs)

    def parts(self, blob: bytes) -> dict[str, int]:
        return self.under.parts(blob)

    def most_pixels(self, size_bytes: int) -> int:
        return self.under.most_pixels(size_bytes)
