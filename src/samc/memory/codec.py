"""Codecs: an image and its mask to bytes, and back. What a codec returns is all that is kept of the image."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, UInt8

from samc.errors import ConfigError, DataError

Shape = tuple[int, int, int]


@runtime_checkable
class Codec(Protocol):
    """Images are uint8 (b, c, h, w), masks bool (b, h, w), True where a pixel is kept."""

    image_shape: Shape

    def encode(self, images: np.ndarray, masks: np.ndarray) -> list[bytes]: ...
    def decode(self, blobs: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]: ...
    def parts(self, blob: bytes) -> dict[str, int]: ...
    def most_pixels(self, size_bytes: int) -> int: ...


class Raw:
    """Whole images, byte for byte; masks are ignored, and come back full."""

    def __init__(self, image_shape: Shape):
        self.image_shape = image_shape

    def encode(self, images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]) -> list[bytes]:
        return [image.tobytes() for image in images]

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        images = np.frombuffer(b"".join(blobs), np.uint8).reshape(-1, *self.image_shape)
        return images.copy(), np.ones((len(images), *self.image_shape[1:]), bool)

    def parts(self, blob: bytes) -> dict[str, int]:
        return {"colours": len(blob)}

    def most_pixels(self, size_bytes: int) -> int:
        """All of an image or none of it."""
        _, height, width = self.image_shape
        return height * width if size_bytes >= int(np.prod(self.image_shape)) else 0


class Coordinates:
    """The paper's coordinate format (COO): how many pixels, their rows, their columns, their colours.

    Rows, columns and the count take the smallest unsigned type that the image's size allows, little-endian;
    at 32x32 a kept pixel costs one byte of row, one of column and three of colour.
    """

    def __init__(self, image_shape: Shape):
        self.image_shape = image_shape
        _, height, width = image_shape
        self.count_type = smallest_type(height * width)
        self.row_type, self.column_type = smallest_type(height - 1), smallest_type(width - 1)
        self.pixel_bytes = self.row_type.itemsize + self.column_type.itemsize + image_shape[0]

    def encode(self, images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]) -> list[bytes]:
        blobs = []
        for image, mask in zip(images, masks, strict=True):
            rows, columns = np.nonzero(mask)
            fields = (
                np.array(len(rows), self.count_type),
                rows.astype(self.row_type),
                columns.astype(self.column_type),
                image[:, rows, columns],
            )
            blobs.append(b"".join(field.tobytes() for field in fields))
        return blobs

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        """Dropped pixels are zero."""
        channels, height, width = self.image_shape
        images = np.zeros((len(blobs), channels, height, width), np.uint8)
        masks = np.zeros((len(blobs), height, width), bool)
        for image, mask, blob in zip(images, masks, blobs, strict=True):
            count = self.count(blob)
            after_rows = self.count_type.itemsize + count * self.row_type.itemsize
            rows = np.frombuffer(blob, self.row_type, count, self.count_type.itemsize)
            columns = np.frombuffer(blob, self.column_type, count, after_rows)
            colours = np.frombuffer(blob, np.uint8, offset=after_rows + count * self.column_type.itemsize)
            if count and (rows.max() >= height or columns.max() >= width):
                raise DataError(f"a remembered pixel lies outside its {height}x{width} image; the memory is damaged")
            mask[rows, columns] = True
            image[:, rows, columns] = colours.reshape(channels, count)
        return images, masks

    def parts(self, blob: bytes) -> dict[str, int]:
        count = self.count(blob)
        positions = count * (self.pixel_bytes - self.image_shape[0])
        return {"headers": self.count_type.itemsize, "positions": positions, "colours": count * self.image_shape[0]}

    def most_pixels(self, size_bytes: int) -> int:
        _, height, width = self.image_shape
        return min(height * width, max(0, size_bytes - self.count_type.itemsize) // self.pixel_bytes)

    def count(self, blob: bytes) -> int:
        """How many pixels a blob holds, from its length; its header must agree."""
        header = self.count_type.itemsize
        count, rest = divmod(len(blob) - header, self.pixel_bytes)
        if count < 0 or rest or int(np.frombuffer(blob, self.count_type, 1)[0]) != count:
            raise DataError(f"a remembered image of {len(blob)} bytes does not match its own header; it is damaged")
        return count


CODECS: dict[str, type[Raw] | type[Coordinates]] = {"coo": Coordinates, "raw": Raw}


def smallest_type(largest: int) -> np.dtype:
    """The smallest unsigned integer, little-endian, that holds every number up to `largest`."""
    for name in ("<u1", "<u2", "<u4"):
        if largest <= np.iinfo(name).max:
            return np.dtype(name)
    raise ConfigError(f"numbers up to {largest} are more than this format holds; use smaller images")
