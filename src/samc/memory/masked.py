"""Codecs of masked images: where the kept pixels are, in one of three ways, and then their colours."""

import zlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, UInt8

from samc.errors import ConfigError, DataError
from samc.memory.codec import Shape, smallest_type
from samc.memory.selection import WHOLE, Selection, masks_of

DAMAGED = "a remembered image does not match its own header; the memory is damaged"


class Masked:
    """Writes a mask, then the colours of its pixels, plane after plane; deflated colours carry a byte that says so.

    A kind of mask says how it is written (`mask_bytes`) and read (`read_mask`).
    """

    gist = False
    name: str

    def __init__(self, image_shape: Shape, *, deflate: bool = False):
        self.spec = f"{self.name}+deflate" if deflate else self.name
        self.image_shape = image_shape
        self.blob_bytes: int | None = None
        self.deflate = deflate

    def mask_bytes(self, kept: Selection, row: int) -> bytes:
        raise TypeError(f"{type(self).__name__} does not say how masks are written")

    def read_mask(self, blob: bytes) -> tuple[Bool[np.ndarray, "h w"], int]:
        """The mask at the beginning of a blob, and how many bytes it took."""
        raise TypeError(f"{type(self).__name__} does not say how masks are read")

    def encode(self, images: UInt8[np.ndarray, "b c h w"], kept: Selection) -> list[bytes]:
        blobs = []
        for row, image in enumerate(images):
            # taking by place is faster than by mask
            colours = image.reshape(len(image), -1).take(np.flatnonzero(kept.masks[row]), 1)
            blobs.append(self.mask_bytes(kept, row) + (deflated(colours) if self.deflate else colours.tobytes()))
        return blobs

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        """Dropped pixels are zero."""
        channels, height, width = self.image_shape
        images = np.zeros((len(blobs), channels, height, width), np.uint8)
        masks = np.zeros((len(blobs), height, width), bool)
        for image, mask, blob in zip(images, masks, blobs, strict=True):
            mask[:], start = self.read_mask(blob)
            image[:, mask] = self.colours(blob[start:], int(mask.sum()))
        return images, masks

    def colours(self, blob: bytes, count: int) -> UInt8[np.ndarray, "c n"]:
        wanted = self.image_shape[0] * count
        if self.deflate:
            return inflated(blob, self.image_shape[0], count)
        if len(blob) != wanted:
            raise DataError(DAMAGED)
        return np.frombuffer(blob, np.uint8).reshape(self.image_shape[0], count)

    def parts(self, blob: bytes) -> dict[str, int]:
        start = self.read_mask(blob)[1]
        return {"positions": start, "colours": len(blob) - start}

    def most_pixels(self, size_bytes: int) -> int:
        """The most pixels that surely fit: deflating may not help."""
        channels, height, width = self.image_shape
        room = size_bytes - self.fixed_bytes - self.deflate
        return min(height * width, max(0, room) // (channels + self.pixel_bytes))

    @property
    def fixed_bytes(self) -> int:
        """What a mask takes however many pixels it has."""
        return 0

    @property
    def pixel_bytes(self) -> int:
        """What each kept pixel's position takes."""
        return 0


class Coordinates(Masked):
    """The paper's coordinate format (COO): the rows of the kept pixels, their columns, their colours.

    Rows and columns take the smallest unsigned type that the image's size allows, little-endian; at 32x32 a kept pixel
    costs one byte of row, one of column and three of colour. How many there are follows from the blob's length.
    """

    name = "coo"

    def __init__(self, image_shape: Shape, *, deflate: bool = False):
        if deflate:
            raise ConfigError("coo keeps the paper's plain colours; use cam+deflate or bitmask+deflate")
        super().__init__(image_shape)
        _, height, width = image_shape
        self.row_type, self.column_type = smallest_type(height - 1), smallest_type(width - 1)

    @property
    def pixel_bytes(self) -> int:
        return self.row_type.itemsize + self.column_type.itemsize

    def mask_bytes(self, kept: Selection, row: int) -> bytes:
        rows, columns = np.divmod(np.flatnonzero(kept.masks[row]), self.image_shape[2])
        return rows.astype(self.row_type).tobytes() + columns.astype(self.column_type).tobytes()

    def read_mask(self, blob: bytes) -> tuple[Bool[np.ndarray, "h w"], int]:
        channels, height, width = self.image_shape
        count, rest = divmod(len(blob), self.pixel_bytes + channels)
        rows = np.frombuffer(blob, self.row_type, count)
        columns = np.frombuffer(blob, self.column_type, count, count * self.row_type.itemsize)
        places = rows.astype(np.int64) * width + columns
        if rest or (count and (columns.max() >= width or rows.max() >= height or (np.diff(places) <= 0).any())):
            raise DataError(DAMAGED)
        mask = np.zeros((height, width), bool)
        mask[rows, columns] = True
        return mask, count * self.pixel_bytes

    def parts(self, blob: bytes) -> dict[str, int]:
        positions = len(blob) // (self.pixel_bytes + self.image_shape[0]) * self.pixel_bytes
        return {"positions": positions, "colours": len(blob) - positions}


class Bitmask(Masked):
    """One bit a pixel, kept or not."""

    name = "bitmask"

    @property
    def fixed_bytes(self) -> int:
        _, height, width = self.image_shape
        return -(-height * width // 8)

    def mask_bytes(self, kept: Selection, row: int) -> bytes:
        return np.packbits(kept.masks[row]).tobytes()

    def read_mask(self, blob: bytes) -> tuple[Bool[np.ndarray, "h w"], int]:
        _, height, width = self.image_shape
        if len(blob) < self.fixed_bytes:
            raise DataError(DAMAGED)
        bits = np.unpackbits(np.frombuffer(blob, np.uint8, self.fixed_bytes))
        if bits[height * width :].any():
            raise DataError(DAMAGED)
        return bits[: height * width].reshape(height, width).astype(bool), self.fixed_bytes


class Cam(Masked):
    """The saliency map at the network's own resolution, a byte a cell, and the cut; the mask is made from them."""

    name = "cam"

    @property
    def grid(self) -> tuple[int, int]:
        """The map's size: the network halves a picture three times."""
        _, height, width = self.image_shape
        return -(-height // 8), -(-width // 8)

    @property
    def fixed_bytes(self) -> int:
        return 2 + self.grid[0] * self.grid[1]

    def mask_bytes(self, kept: Selection, row: int) -> bytes:
        if kept.cuts[row] == WHOLE:  # whatever the map was, it says nothing here
            return np.uint16(WHOLE).astype("<u2").tobytes() + bytes(self.fixed_bytes - 2)
        if kept.maps.shape[1:] != self.grid:
            raise ConfigError(f"cam keeps maps of {self.grid} cells, got {kept.maps.shape[1:]}")
        return kept.cuts[row].astype("<u2").tobytes() + kept.maps[row].tobytes()

    def read_mask(self, blob: bytes) -> tuple[Bool[np.ndarray, "h w"], int]:
        if len(blob) < self.fixed_bytes:
            raise DataError(DAMAGED)
        cuts = np.frombuffer(blob, "<u2", 1).astype(np.uint16)
        maps = np.frombuffer(blob, np.uint8, self.fixed_bytes - 2, 2).reshape(1, *self.grid)
        return masks_of(maps, cuts, *self.image_shape[1:])[0], self.fixed_bytes


def deflated(colours: UInt8[np.ndarray, "c n"]) -> bytes:
    """Each colour as its difference to the pixel before, blue and red as theirs to green; deflated where that helps."""
    mixed = colours.copy()
    if len(mixed) == 3:
        mixed[[0, 2]] -= colours[1]
    packed = zlib.compress(np.diff(mixed, axis=1, prepend=np.uint8(0)).astype(np.uint8).tobytes(), 9, wbits=-15)
    return b"\1" + packed if len(packed) < colours.size else b"\0" + colours.tobytes()


def inflated(blob: bytes, channels: int, count: int) -> UInt8[np.ndarray, "c n"]:
    if not blob or blob[0] > 1:
        raise DataError(DAMAGED)
    content = blob[1:]
    if blob[0]:
        try:
            # never more than is wanted, whatever the bytes claim
            engine = zlib.decompressobj(wbits=-15)
            content = engine.decompress(content, channels * count + 1)
            whole = engine.eof and not engine.unused_data
        except zlib.error:
            raise DataError(DAMAGED) from None
        if not whole:
            raise DataError(DAMAGED)
    if len(content) != channels * count:
        raise DataError(DAMAGED)
    colours = np.frombuffer(content, np.uint8).reshape(channels, count)
    if not blob[0]:
        return colours
    mixed = np.cumsum(colours, axis=1, dtype=np.uint8)
    if channels == 3:
        mixed[[0, 2]] += mixed[1]
    return mixed
