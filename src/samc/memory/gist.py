"""Codecs that keep something of the whole image: a coarse picture under exact salient pixels, or a focused picture."""

from collections.abc import Sequence

import cv2
import numpy as np
from jaxtyping import Bool, UInt8

from samc.errors import DataError
from samc.memory.codec import Codec
from samc.memory.masked import DAMAGED, MaskedCodec
from samc.memory.pictures import PictureCodec
from samc.memory.scaled import Resized
from samc.memory.selection import Selection

LENGTH = np.dtype("<u2")
# of a coarse picture, written before it where pictures differ in length
BLOCK = 4
# outside the salient region, a focused picture is smoothed over blocks of so many pixels per side, unless it says so


class Gist(Codec):
    """A coarse picture of the whole image, followed by the exact salient pixels."""

    gist = True

    def __init__(self, picture: PictureCodec, masked: MaskedCodec):
        self.picture, self.masked = picture, masked
        self.spec = f"gist:{picture.spec}+{masked.spec}"
        self.image_shape = picture.image_shape
        self.blob_bytes: int | None = None

    def encode(self, images: UInt8[np.ndarray, "b c h w"], selection: Selection) -> list[bytes]:
        pairs = zip(self.picture.encode(images, selection), self.masked.encode(images, selection), strict=True)
        return [self.length_bytes(len(picture)) + picture + pixels for picture, pixels in pairs]

    def length_bytes(self, length: int) -> bytes:
        """What stands before a picture of so many bytes."""
        return b"" if self.picture.blob_bytes else np.array(length, LENGTH).tobytes()

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        """Dropped pixels are the coarse picture's."""
        pictures, pixels = zip(*map(self.split, blobs), strict=True) if blobs else ((), ())
        coarse, _ = self.picture.decode(pictures)
        exact, masks = self.masked.decode(pixels)
        return np.where(masks[:, None], exact, coarse), masks

    def split(self, blob: bytes) -> tuple[bytes, bytes]:
        """The coarse picture's bytes, and those of the exact pixels."""
        start = 0 if self.picture.blob_bytes else LENGTH.itemsize
        if len(blob) < start:
            raise DataError(DAMAGED)
        end = start + (self.picture.blob_bytes or int(np.frombuffer(blob, LENGTH, 1)[0]))
        if len(blob) < end:
            raise DataError(DAMAGED)
        return blob[start:end], blob[end:]

    def nbytes_by_part(self, blob: bytes) -> dict[str, int]:
        picture, pixels = self.split(blob)
        header = len(blob) - len(picture) - len(pixels)
        return {"headers": header, "gist": len(picture), **self.masked.nbytes_by_part(pixels)}

    def max_pixels(self, size_bytes: int) -> int:
        """What surely fits after a picture that takes as much as a quarter of the raw image."""
        assumed = self.picture.blob_bytes or int(np.prod(self.image_shape)) // 4
        return self.masked.max_pixels(size_bytes - assumed - LENGTH.itemsize)


class Focus(Codec):
    """One lossy picture of the whole image whose bits go to the salient region: the rest is smoothed beforehand.

    No mask is stored, none is needed: masks come back full.
    """

    gist = True

    def __init__(self, picture: PictureCodec | Resized, block: int = BLOCK):
        self.picture, self.block = picture, block
        self.spec = f"focus:{picture.spec}" if block == BLOCK else f"focus:{block}:{picture.spec}"
        self.image_shape = picture.image_shape
        self.blob_bytes: int | None = None

    def encode(self, images: UInt8[np.ndarray, "b c h w"], selection: Selection) -> list[bytes]:
        _, height, width = self.image_shape
        small = max(1, width // self.block), max(1, height // self.block)
        focused = images.copy()
        for image, mask in zip(focused, selection.masks, strict=True):
            for channel in image:
                coarse = cv2.resize(channel, small, interpolation=cv2.INTER_AREA)
                channel[~mask] = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)[~mask]
        return self.picture.encode(focused, selection)

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        return self.picture.decode(blobs)

    def nbytes_by_part(self, blob: bytes) -> dict[str, int]:
        return self.picture.nbytes_by_part(blob)

    def max_pixels(self, size_bytes: int) -> int:
        """All of them: what they cost is known once the picture is packed."""
        return int(np.prod(self.image_shape[1:]))
