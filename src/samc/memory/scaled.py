"""Codecs that pack fewer pixels into a picture: the whole image made smaller, or a window around what is salient."""

from collections.abc import Sequence

import cv2
import numpy as np
from jaxtyping import Bool, UInt8

from samc.memory.codec import Codec, Shape
from samc.memory.pictures import PictureCodec
from samc.memory.selection import Selection


class Resized(Codec):
    """A picture of another size than the image, enlarged to the image's when it comes back; masks come back full."""

    gist = False
    selective = False

    def __init__(self, spec: str, image_shape: Shape, picture: PictureCodec):
        self.spec = spec
        self.image_shape = image_shape
        self.picture = picture
        self.blob_bytes = picture.blob_bytes

    def cut(self, image: UInt8[np.ndarray, "c h w"], mask: Bool[np.ndarray, "h w"]) -> UInt8[np.ndarray, "c i j"]:
        """What the picture shows: the whole image, made smaller."""
        return resized(image, self.picture.image_shape, cv2.INTER_AREA)

    def encode(self, images: UInt8[np.ndarray, "b c h w"], selection: Selection) -> list[bytes]:
        pairs = zip(images, selection.masks, strict=True)
        parts = [self.cut(image, mask) for image, mask in pairs]
        return self.picture.encode(np.stack(parts), selection) if parts else []

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        images = np.empty((len(blobs), *self.image_shape), np.uint8)
        for image, small in zip(images, self.picture.decode(blobs)[0], strict=True):
            image[:] = resized(small, self.image_shape, cv2.INTER_CUBIC)
        return images, np.ones((len(blobs), *self.image_shape[1:]), bool)

    def nbytes_by_part(self, blob: bytes) -> dict[str, int]:
        return self.picture.nbytes_by_part(blob)

    def max_pixels(self, size_bytes: int) -> int:
        """All of them: what they cost is known once the picture is packed."""
        return int(np.prod(self.image_shape[1:]))


class Crop(Resized):
    """A window of the image's proportions around its salient pixels; what comes back is the window, enlarged.

    Where nothing is salient the window is in the middle.
    """

    gist = True
    selective = True

    def cut(self, image: UInt8[np.ndarray, "c h w"], mask: Bool[np.ndarray, "h w"]) -> UInt8[np.ndarray, "c i j"]:
        _, height, width = self.picture.image_shape
        rows, columns = np.nonzero(mask if mask.any() else np.ones_like(mask))
        top, left = (
            min(max(int(places.mean() + 0.5) - size // 2, 0), whole - size)
            for places, size, whole in zip((rows, columns), (height, width), mask.shape, strict=True)
        )
        return image[:, top : top + height, left : left + width]


def smaller(image_shape: Shape, side: int) -> Shape:
    """The same proportions with so many pixels along the longer side, if that is smaller."""
    channels, height, width = image_shape
    side = min(side, max(height, width))
    return channels, max(1, round(height * side / max(height, width))), max(1, round(width * side / max(height, width)))


def resized(image: UInt8[np.ndarray, "c i j"], shape: Shape, how: int) -> UInt8[np.ndarray, "c h w"]:
    channels, height, width = shape
    picture = cv2.resize(np.ascontiguousarray(image.transpose(1, 2, 0)), (width, height), interpolation=how)
    return picture.reshape(height, width, channels).transpose(2, 0, 1)
