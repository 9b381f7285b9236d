"""Codecs of whole images: JPEG and WebP without the headers that all their files share, and thumbnails."""

from collections.abc import Sequence

import cv2
import numpy as np
from jaxtyping import Bool, UInt8

from samc.errors import ConfigError, DataError
from samc.memory.codec import Codec, Shape
from samc.memory.selection import Selection

START_CODE = b"\x9d\x01\x2a"
# of a VP8 key frame
END_OF_IMAGE = b"\xff\xd9"
# of a JPEG file


class PictureCodec(Codec):
    """Whole images, lossy; masks come back full.

    A subclass says how a picture is compressed (`compress`) and how its bytes become a file again (`as_file`), or reads
    them itself (`read`).
    """

    gist = False
    selective = False
    name: str

    def __init__(self, image_shape: Shape, quality: int):
        if not 1 <= quality <= 100:
            raise ConfigError(f"the quality of {self.name} is from 1 to 100, got {quality}; 20 is small, 75 is fine")
        self.spec = f"{self.name}:{quality}"
        self.image_shape = image_shape
        self.quality = quality
        self.blob_bytes: int | None = None

    def compress(self, picture: UInt8[np.ndarray, "h w *c"]) -> bytes:
        raise TypeError(f"{type(self).__name__} does not say how pictures are written")

    def as_file(self, blob: bytes) -> bytes:
        """The bytes of a file that any decoder reads."""
        raise TypeError(f"{type(self).__name__} does not say how pictures are read")

    def encode(self, images: UInt8[np.ndarray, "b c h w"], selection: Selection) -> list[bytes]:
        return [self.compress(as_picture(image)) for image in images]

    def decode(self, blobs: Sequence[bytes]) -> tuple[UInt8[np.ndarray, "b c h w"], Bool[np.ndarray, "b h w"]]:
        images = np.empty((len(blobs), *self.image_shape), np.uint8)
        for image, blob in zip(images, blobs, strict=True):
            image[:] = self.read(blob)
        return images, np.ones((len(blobs), *self.image_shape[1:]), bool)

    def read(self, blob: bytes) -> UInt8[np.ndarray, "c h w"]:
        channels, height, width = self.image_shape
        mode = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR
        picture = cv2.imdecode(np.frombuffer(self.as_file(blob), np.uint8), mode)
        if picture is None or picture.shape[:2] != (height, width):
            raise DataError(f"a remembered {self.name} picture cannot be read; the memory is damaged")
        return picture[None] if channels == 1 else picture[:, :, ::-1].transpose(2, 0, 1)

    def nbytes_by_part(self, blob: bytes) -> dict[str, int]:
        return {"colours": len(blob)}

    def max_pixels(self, size_bytes: int) -> int:
        """How small a picture gets is known only once it is compressed; a memory refuses one that does not fit."""
        return int(np.prod(self.image_shape[1:]))


class Jpeg(PictureCodec):
    """What comes before a JPEG's own bits (tables, size) depends on quality and shape alone, and is made again."""

    name = "jpeg"

    def __init__(self, image_shape: Shape, quality: int):
        super().__init__(image_shape, quality)
        empty = self.file(np.zeros(image_shape[1:] if image_shape[0] == 1 else (*image_shape[1:], 3), np.uint8))
        scan = empty.index(b"\xff\xda")
        self.header = empty[: scan + 2 + int.from_bytes(empty[scan + 2 : scan + 4], "big")]

    def file(self, picture: UInt8[np.ndarray, "h w *c"]) -> bytes:
        return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, self.quality])[1].tobytes()

    def compress(self, picture: UInt8[np.ndarray, "h w *c"]) -> bytes:
        content = self.file(picture)
        assert content.startswith(self.header)
        return content[len(self.header) : -len(END_OF_IMAGE)]

    def as_file(self, blob: bytes) -> bytes:
        return self.header + blob + END_OF_IMAGE


class WebP(PictureCodec):
    """Lossy WebP; its container and the size of the picture are left out, and made again."""

    name = "webp"

    def compress(self, picture: UInt8[np.ndarray, "h w *c"]) -> bytes:
        if picture.ndim == 2:
            picture = np.repeat(picture[:, :, None], 3, axis=2)
        content = cv2.imencode(".webp", picture, [cv2.IMWRITE_WEBP_QUALITY, self.quality])[1].tobytes()
        assert content[12:16] == b"VP8 "
        frame = content[20 : 20 + int.from_bytes(content[16:20], "little")]
        assert frame[3:6] == START_CODE
        return frame[:3] + frame[10:]

    def as_file(self, blob: bytes) -> bytes:
        _, height, width = self.image_shape
        size = width.to_bytes(2, "little") + height.to_bytes(2, "little")
        frame = blob[:3] + START_CODE + size + blob[3:]
        chunk = b"VP8 " + len(frame).to_bytes(4, "little") + frame + bytes(len(frame) % 2)
        return b"RIFF" + (4 + len(chunk)).to_bytes(4, "little") + b"WEBP" + chunk


class Thumbnail(PictureCodec):
    """So many pixels per side, each the mean of the area it stands for; enlarged bilinearly."""

    name = "thumb"

    def __init__(self, image_shape: Shape, side: int):
        self.side = max(1, min(side, *image_shape[1:]))
        super().__init__(image_shape, self.side)
        self.blob_bytes = self.side**2 * image_shape[0]

    def compress(self, picture: UInt8[np.ndarray, "h w *c"]) -> bytes:
        return cv2.resize(picture, (self.side, self.side), interpolation=cv2.INTER_AREA).tobytes()

    def read(self, blob: bytes) -> UInt8[np.ndarray, "c h w"]:
        channels, height, width = self.image_shape
        if len(blob) != self.blob_bytes:
            raise DataError("a remembered thumbnail has another size than it should; the memory is damaged")
        small = np.frombuffer(blob, np.uint8).reshape(self.side, self.side, channels)
        large = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
        return large.reshape(height, width, channels)[:, :, :: -1 if channels == 3 else 1].transpose(2, 0, 1)


def as_picture(image: UInt8[np.ndarray, "c h w"]) -> UInt8[np.ndarray, "h w *c"]:
    """As OpenCV takes it: channels last with blue first, or one channel alone."""
    return image[0] if len(image) == 1 else np.ascontiguousarray(image[::-1].transpose(1, 2, 0))
