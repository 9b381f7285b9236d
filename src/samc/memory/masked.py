"""Codecs of masked images: where the kept pixels are, written in one of three ways, followed by their colours."""

import zlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, UInt8

from samc.errors import ConfigError, DataError
from samc.memory.codec import Codec, Grid, Shape, smallest_type
from samc.memory.selection import KEEP_ALL, Selection, masks_of

DAMAGED = "a remembered image does not match its own header; the memory is damaged"


class MaskedCodec(Codec):
    """Writes the mask, then the colours of the kept pixels, one channel after the other.

    A subclass says how a mask is written (`mask_bytes`) and read (`read_mask`). With `deflate`, colours are compressed.
    """

    gist = False

    def __init__(self, name: str, image_shape: Shape, *, deflate: bool = False):
        self.spec = f"{name}+deflate" if deflate else name
        self.image_shape = image_shape
        self.blob_bytes: int | None = None
        self.deflate = deflate

    def mask_bytes(self, selection: Selection, row: int) -> bytes:
        """The mask of one image of a selection, as it is stored."""
        raise TypeError(f"{type(self).__name__} does not say how masks are written")

    def read_mask(self, blob: bytes) -> tuple[Bool[np.ndarray, "h w"], int]:
        """The mask at the beginning of a blob, and how many bytes it took."""
        raise TypeError(f"{type(self).__name__} does not say how masks are read")

    @property
    def fixed_bytes(self) -> int:
        """What a mask takes, however many pixels it keeps."""
        return 0

    @property
    def position_bytes(self) -> int:
        """What the position of each kept pixel takes on top."""
        return 0

    def encode(self, images: UInt8[np.ndarray, "b c h w"], selection: Selection) -> list[bytes]:
        blobs = []
        for row, image in enumerate(images):
            # taking by index is faster than by mask
            colours = image.reshape(len(image), -1).take(np.flatnonzero(selection.masks[row]), 1)
            blobs.append(self.mask_bytes(selection, row) + (deflated(colours) if self.deflate else colours.tobytes()))
        return blobs

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        """Dropped pixels are zero."""
        channels, height, width = self.image_shape
        images = np.zeros((len(blobs), channels, height, width), np.uint8)
        masks = np.zeros((len(blobs), height, width), bool)
        for image, mask, blob in zip(images, masks, blobs, strict=True):
            mask[:], start = self.read_mask(blob)
            image[:, mask] = self.read_colours(blob[start:], int(mask.sum()))
        return images, masks

    def read_colours(self, content: bytes, count: int) -> UInt8[np.ndarray, "c n"]:
        channels = self.image_shape[0]
        if self.deflate:
            return inflated(content, channels, count)
        if len(content) != channels * count:
            raise DataError(DAMAGED)
        return np.frombuffer(content, np.uint8).reshape(channels, count)

    def nbytes_by_part(self, blob: bytes) -> dict[str, int]:
        positions = self.fixed_bytes
        return {"positions": positions, "colours": len(blob) - positions}

    def max_pixels(self, size_bytes: int) -> int:
        """As if compression did not help."""
        channels, height, width = self.image_shape
        room = size_bytes - self.fixed_bytes - self.deflate
        return min(height * width, max(0, room) // (channels + self.position_bytes))


class Coordinates(MaskedCodec):
    """The paper's coordinate format (COO): the rows of the kept pixels, their columns, their colours.

    Rows and columns take the smallest unsigned type that the image's size allows, little-endian; at 32x32 a kept pixel
    costs one byte of row, one of column and three of colour. How many there are follows from the blob's length.
    """

    def __init__(self, image_shape: Shape, *, deflate: bool = False):
        if deflate:
            raise ConfigError("coo keeps the paper's plain colours; use cam+deflate or bitmask+deflate")
        super().__init__("coo", image_shape)
        _, height, width = image_shape
        self.row_type, self.column_type = smallest_type(height - 1), smallest_type(width - 1)

    @property
    def position_bytes(self) -> int:
        return self.row_type.itemsize + self.column_type.itemsize

    def mask_bytes(self, selection: Selection, row: int) -> bytes:
        rows, columns = np.divmod(np.flatnonzero(selection.masks[row]), self.image_shape[2])
        return rows.astype(self.row_type).tobytes() + columns.astype(self.column_type).tobytes()

    def read_mask(self, blob: bytes) -> tuple[Bool[np.ndarray, "h w"], int]:
        channels, height, width = self.image_shape
        count, rest = divmod(len(blob), self.position_bytes + channels)
        rows = np.frombuffer(blob, self.row_type, count)
        columns = np.frombuffer(blob, self.column_type, count, count * self.row_type.itemsize)
        indices = rows.astype(np.int64) * width + columns
        if rest or (count and (columns.max() >= width or rows.max() >= height or (np.diff(indices) <= 0).any())):
            raise DataError(DAMAGED)
        mask = np.zeros((height, width), bool)
        mask[rows, columns] = True
        return mask, count * self.position_bytes

    def nbytes_by_part(self, blob: bytes) -> dict[str, int]:
        positions = len(blob) // (self.position_bytes + self.image_shape[0]) * self.position_bytes
        return {"positions": positions, "colours": len(blob) - positions}


class Bitmask(MaskedCodec):
    """One bit per pixel, kept or not."""

    def __init__(self, image_shape: Shape, *, deflate: bool = False):
        super().__init__("bitmask", image_shape, deflate=deflate)

    @property
    def fixed_bytes(self) -> int:
        _, height, width = self.image_shape
        return -(-height * width // 8)

    def mask_bytes(self, selection: Selection, row: int) -> bytes:
        return np.packbits(selection.masks[row]).tobytes()

    def read_mask(self, blob: bytes) -> tuple[Bool[np.ndarray, "h w"], int]:
        _, height, width = self.image_shape
        if len(blob) < self.fixed_bytes:
            raise DataError(DAMAGED)
        bits = np.unpackbits(np.frombuffer(blob, np.uint8, self.fixed_bytes))
        if bits[height * width :].any():
            raise DataError(DAMAGED)
        return bits[: height * width].reshape(height, width).astype(bool), self.fixed_bytes


class Cam(MaskedCodec):
    """The cutoff in two bytes and the saliency map, one byte per cell; the mask is rebuilt from them.

    The `grid` of the maps is a part of the codec: whoever makes the maps knows it.
    """

    def __init__(self, image_shape: Shape, grid: Grid, *, deflate: bool = False):
        (_, height, width), (rows, columns) = image_shape, grid
        if not (1 <= rows <= height and 1 <= columns <= width):
            limits = f"from 1x1 up to the image's {height}x{width}"
            raise ConfigError(f"the grid of cam is {limits}, got {rows}x{columns}; other maps need bitmask")
        super().__init__(f"cam:{rows}x{columns}", image_shape, deflate=deflate)
        self.grid = grid

    @property
    def fixed_bytes(self) -> int:
        return 2 + self.grid[0] * self.grid[1]

    def mask_bytes(self, selection: Selection, row: int) -> bytes:
        if selection.cutoffs[row] == KEEP_ALL:  # whatever the map was, it says nothing here
            return np.uint16(KEEP_ALL).astype("<u2").tobytes() + bytes(self.fixed_bytes - 2)
        if selection.maps.shape[1:] != self.grid:
            raise ConfigError(
                f"{self.spec} stores maps of {self.grid} cells, got {selection.maps.shape[1:]}; "
                f"name the grid of the maps in the codec"
            )
        return selection.cutoffs[row].astype("<u2").tobytes() + selection.maps[row].tobytes()

    def read_mask(self, blob: bytes) -> tuple[Bool[np.ndarray, "h w"], int]:
        if len(blob) < self.fixed_bytes:
            raise DataError(DAMAGED)
        cutoffs = np.frombuffer(blob, "<u2", 1).astype(np.uint16)
        return masks_of(self.saliency(blob)[None], cutoffs, *self.image_shape[1:])[0], self.fixed_bytes

    def saliency(self, blob: bytes) -> UInt8[np.ndarray, "i j"]:
        """The map at the beginning of a blob; of an image that is kept whole it says nothing."""
        return np.frombuffer(blob, np.uint8, self.fixed_bytes - 2, 2).reshape(self.grid)


def deflated(colours: UInt8[np.ndarray, "c n"]) -> bytes:
    """Colours, compressed where that helps; the first byte says whether it did.

    Before compression each colour becomes its difference to the pixel before, red and blue theirs to green.
    """
    differences = colours.copy()
    if len(differences) == 3:
        differences[[0, 2]] -= colours[1]
    content = np.diff(differences, axis=1, prepend=np.uint8(0)).astype(np.uint8).tobytes()
    compressed = zlib.compress(content, 9, wbits=-15)
    return b"\1" + compressed if len(compressed) < colours.size else b"\0" + colours.tobytes()


def inflated(blob: bytes, channels: int, count: int) -> UInt8[np.ndarray, "c n"]:
    """The colours again; never more than so many are taken, whatever the bytes claim."""
    if not blob or blob[0] > 1:
        raise DataError(DAMAGED)
    compressed, content = bool(blob[0]), blob[1:]
    if compressed:
        try:
            decompressor = zlib.decompressobj(wbits=-15)
            content = decompressor.decompress(content, channels * count + 1)
            complete = decompressor.eof and not decompressor.unused_data
        except zlib.error:
            raise DataError(DAMAGED) from None
        if not complete:
            raise DataError(DAMAGED)
    if len(content) != channels * count:
        raise DataError(DAMAGED)
    values = np.frombuffer(content, np.uint8).reshape(channels, count)
    if not compressed:
        return values
    colours = np.cumsum(values, axis=1, dtype=np.uint8)
    if channels == 3:
        colours[[0, 2]] += colours[1]
    return colours
