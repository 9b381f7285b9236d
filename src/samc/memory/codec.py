"""What a codec is: an image and the selection of its pixels to keep, turned into bytes and back."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, UInt8

from samc.errors import ConfigError, DataError
from samc.memory.selection import Selection, full_selection

Shape = tuple[int, int, int]
# of an image: channels, height, width
Grid = tuple[int, int]
# of a saliency map: rows, columns
MAX_UNKNOWN_CLASSES = 65_536
# where the number of classes is not known, labels take two bytes


@runtime_checkable
class Codec(Protocol):
    """Images are uint8 (b, c, h, w); masks are bool (b, h, w), True where a pixel is kept.

    What `encode` returns is all that is kept of an image. `decode` gives images and masks back; dropped pixels come
    back as what the codec still knows of them: zero, or a coarse picture if the codec has a `gist`.

    `spec` is the codec's full name: `parse_codec(spec, image_shape)` makes a codec that reads what this one has
    written. `blob_bytes` is the size of every encoded image, or None where sizes differ. One that is not `selective`
    stores whole images, whatever is selected.
    """

    spec: str
    image_shape: Shape
    blob_bytes: int | None
    gist: bool
    selective: bool = True

    def encode(self, images: np.ndarray, selection: Selection) -> list[bytes]: ...

    def decode(self, blobs: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]: ...

    def nbytes_by_part(self, blob: bytes) -> dict[str, int]:
        """What the bytes of an encoded image are for: positions, colours, headers, gist."""
        ...

    def max_pixels(self, size_bytes: int) -> int:
        """How many kept pixels are sure to fit into so many bytes."""
        ...

    def __repr__(self) -> str:
        return f"parse_codec({self.spec!r}, {self.image_shape})"


class Raw(Codec):
    """Whole images, byte for byte; masks come back full."""

    gist = False
    selective = False

    def __init__(self, image_shape: Shape):
        self.spec = "raw"
        self.image_shape = image_shape
        self.blob_bytes: int | None = int(np.prod(image_shape))

    def encode(self, images: UInt8[np.ndarray, "b c h w"], selection: Selection) -> list[bytes]:
        return [image.tobytes() for image in images]

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        if any(len(blob) != self.blob_bytes for blob in blobs):
            raise DataError(f"a whole image takes {self.blob_bytes} bytes; the memory is damaged")
        images = np.frombuffer(b"".join(blobs), np.uint8).reshape(-1, *self.image_shape)
        return images.copy(), np.ones((len(images), *self.image_shape[1:]), bool)

    def nbytes_by_part(self, blob: bytes) -> dict[str, int]:
        return {"colours": len(blob)}

    def max_pixels(self, size_bytes: int) -> int:
        """All of an image or none of it."""
        _, height, width = self.image_shape
        return height * width if size_bytes >= int(np.prod(self.image_shape)) else 0


def largest_blob(codec: Codec, images: UInt8[np.ndarray, "n c h w"]) -> int:
    """What the largest of some pictures takes; of those that depend on what is salient, as if nothing were."""
    count, _, height, width = images.shape
    everything = full_selection(count, height, width)
    nothing = replace(everything, masks=np.zeros_like(everything.masks))
    return max(map(len, codec.encode(images, nothing if codec.selective else everything)), default=0)


def smallest_type(largest: int) -> np.dtype:
    """The smallest unsigned integer type, little-endian, that holds every number up to `largest`."""
    for name in ("<u1", "<u2", "<u4"):
        if largest <= np.iinfo(name).max:
            return np.dtype(name)
    raise ConfigError(f"numbers up to {largest} are more than this format holds; use smaller images")


def label_type(num_classes: int | None) -> np.dtype:
    """The type of a stored label; two bytes where the number of classes is not known."""
    return smallest_type((MAX_UNKNOWN_CLASSES if num_classes is None else num_classes) - 1)
