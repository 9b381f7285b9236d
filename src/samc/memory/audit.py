"""The audit of a memory file: do its bytes add up, and can a pixel that was dropped be recovered from it.

It finds originals that were put into the file as they are, wherever that is, and a codec that keeps more than it says.
It does not find what somebody has encrypted into numbers that any memory has; nothing could.
"""

import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, UInt8
from PIL import Image

from samc.errors import DataError
from samc.files import open_regular
from samc.memory.buffer import EpisodicMemory
from samc.memory.codec import Codec
from samc.memory.container import REMEDY, Container, read
from samc.memory.file import load
from samc.memory.gist import Focus, Gist
from samc.memory.jpeg_scan import has_other_bytes
from samc.memory.masked import Cam
from samc.memory.pictures import Jpeg, WebP, as_picture
from samc.memory.scaled import Crop, Resized
from samc.memory.search import count_runs, distinctive_runs, matching_originals
from samc.memory.selection import KEEP_ALL

TAIL_BYTES = 4
# a WebP picture without its last bytes is another, or none; where it is the same, they were no part of it
MAX_EXACT_SHARE = 0.25
# a coarse picture that gives more of the dropped values exactly is not coarse


@dataclass(frozen=True)
class Audit:
    """What was found; the file has passed if there is no complaint."""

    path: Path
    file_bytes: int
    container_bytes: int
    counted_bytes: int
    images: int
    dropped_share: float
    compared: int | None
    exact_share: float | None
    complaints: tuple[str, ...]
    kept_as: str = "whole images"

    @property
    def passed(self) -> bool:
        return not self.complaints

    @property
    def verdict(self) -> str:
        """One line."""
        if not self.passed:
            return f"FAILED: {self.path}: {'; '.join(self.complaints)}"
        sums = (
            f"{self.file_bytes:,} bytes on disk = {self.counted_bytes:,} counted + {self.container_bytes:,} container"
        )
        if not self.dropped_share:
            return f"passed: {sums}; {self.images} images; keeps {self.kept_as}, nothing to hide"
        share = f"{self.images} images without {self.dropped_share:.0%} of their pixels"
        if self.compared is None:
            return f"passed: {sums}; {share}; whether those can be had from the file only the originals can tell"
        comparison = f"{self.compared} of them compared with their originals"
        coarse = " but coarsely" if self.exact_share is not None else ""
        return f"passed: {sums}; {share}, which cannot be had from the file{coarse} ({comparison})"


def audit(path: Path, originals: UInt8[np.ndarray, "n c h w"] | None = None) -> Audit:
    """Decode everything, add up the bytes and, given the originals, search for what was dropped."""
    with open_regular(path, REMEDY) as file:  # one that cannot be opened is no file that has failed
        size = os.fstat(file.fileno()).st_size
    try:
        memory, container = load(path), read(path)
    except DataError as error:
        reason = str(error).removeprefix(f"{path} ").rpartition("; ")[0]
        return Audit(path, size, 0, 0, 0, 0.0, None, None, (reason,))
    complaints, blobs = [], stored_blobs(memory)
    if size != container.nbytes + memory.nbytes:
        complaints.append(f"{size:,} bytes on disk, {memory.nbytes:,} counted and {container.nbytes:,} of container")
    suspicious = sum(has_unused_bytes(memory.codec, blob) for blob in blobs)
    if suspicious:
        complaints.append(f"{suspicious} of {len(blobs)} images carry bytes that their codec would not have written")
    dropped_share, comes_back = dropped_pixels(memory)
    if comes_back:
        complaints.append("pixels that count as dropped come back")
    compared = exact_share = None
    if originals is not None and dropped_share:
        if originals.shape[1:] != memory.codec.image_shape:
            sizes = " and ".join("x".join(map(str, shape)) for shape in (memory.codec.image_shape, originals.shape[1:]))
            raise DataError(f"{path} remembers other images than the originals ({sizes}); give those it was made from")
        compared, exact_share, leaks = compare_with_originals(memory, container, originals)
        complaints += leaks
        if not compared and not leaks:
            raise DataError(f"none of the images in {path} is among the originals; give those it was made from")
    return Audit(
        path,
        size,
        container.nbytes,
        memory.nbytes,
        len(blobs),
        dropped_share,
        compared,
        exact_share,
        tuple(complaints),
        what_is_kept(memory.codec),
    )


def dropped_pixels(memory: EpisodicMemory) -> tuple[float, bool]:
    """The share of all pixels that is dropped, and whether any of them comes back from a codec that has no gist."""
    kept = total = 0
    comes_back = False
    for _, image, mask in memory.decoded():
        kept, total = kept + int(mask.sum()), total + mask.size
        comes_back |= not memory.codec.gist and bool((image * ~mask).any())
    return (total - kept) / max(1, total), comes_back


def what_is_kept(codec: Codec) -> str:
    """By a codec that drops no single pixel; those of a picture of another size are not the original's."""
    picture = codec.picture if isinstance(codec, Focus) else codec
    if not isinstance(picture, Resized) or picture.picture.image_shape == codec.image_shape:
        return "whole images"
    size = "x".join(map(str, picture.picture.image_shape[1:]))
    if isinstance(picture, Crop):
        return f"a window of {size} pixels of each image, which comes back enlarged"
    return f"whole images at {size} pixels, which come back enlarged"


def stored_blobs(memory: EpisodicMemory) -> list[bytes]:
    return [image.blob for held in memory.by_task.values() for image in held.images]


def compare_with_originals(
    memory: EpisodicMemory, container: Container, originals: UInt8[np.ndarray, "m c h w"]
) -> tuple[int, float | None, list[str]]:
    """How many images have an original, the share of dropped values that come back exactly, and the complaints."""
    kept: dict[int, Bool[np.ndarray, "h w"]] = {}
    searched, errors, start, compared = [container.header], [], 0, 0
    searched += [container.tensors["notes"]] if memory.note is not None else []
    for blob, image, mask in memory.decoded():
        rows = matching_originals(image, mask, originals)
        compared += bool(len(rows))
        for row in rows:
            kept[int(row)] = kept.get(int(row), np.zeros_like(mask)) | mask
        if memory.codec.gist and len(rows):
            errors.append(differences(image, originals[rows[0]], ~mask))
        # where an image is what it says, finding the pixels that it keeps is no surprise: they are not searched
        length = kept_pixels_start(memory.codec, blob) if len(rows) else len(blob)
        searched.append(container.tensors["blobs"][start : start + length])
        start += len(blob)
    complaints = []
    smuggled = np.flatnonzero(count_runs(distinctive_runs(searched), originals, kept))
    if len(smuggled):
        which = f"{len(smuggled)} of the originals, the first of them number {smuggled[0]},"
        complaints.append(f"dropped pixels of {which} are in the file as they were")
    exact = None
    if errors and (values := np.abs(np.concatenate(errors))).size:
        exact, near = float((values == 0).mean()), float((values == 1).mean()) / 2
        # a coarse picture is as often right as it is one too high; small samples vary
        if exact > min(MAX_EXACT_SHARE, 2 * near + 0.05) + values.size**-0.5:
            complaints.append(f"{exact:.0%} of the dropped values come back exactly, where chance gives {near:.0%}")
    return compared, exact, complaints


def differences(
    image: UInt8[np.ndarray, "c h w"], truth: UInt8[np.ndarray, "c h w"], dropped: Bool[np.ndarray, "h w"]
) -> np.ndarray:
    """Decoded minus true values of dropped pixels, without those that equal a neighbour and could be guessed."""
    counted = np.broadcast_to(dropped, truth.shape).copy()
    counted[:, 1:] &= truth[:, 1:] != truth[:, :-1]
    counted[:, :, 1:] &= truth[:, :, 1:] != truth[:, :, :-1]
    return image[counted].astype(np.int16) - truth[counted]


def kept_pixels_start(codec: Codec, blob: bytes) -> int:
    """Where in a blob the kept pixels begin that are stored as they are; its end, if they are compressed."""
    start = len(blob) - codec.nbytes_by_part(blob)["colours"]
    if codec.spec.endswith("+deflate"):
        return start + 1 if blob[start : start + 1] == b"\0" else len(blob)
    # positions in rising order can hold nothing else
    return 0 if codec.spec == "coo" else start


def has_unused_bytes(codec: Codec, blob: bytes) -> bool:
    """Whether an image is the same without some of its bytes, or a picture is finer than its codec makes them."""
    if isinstance(codec, Gist):
        picture, pixels = codec.split(blob)
        return has_unused_bytes(codec.picture, picture) or has_unused_bytes(codec.masked, pixels)
    if isinstance(codec, Focus | Resized):
        return has_unused_bytes(codec.picture, blob)
    if isinstance(codec, Cam):  # the map of an image that is kept whole says nothing
        return int.from_bytes(blob[:2], "little") == KEEP_ALL and any(blob[2 : codec.fixed_bytes])
    if isinstance(codec, Jpeg):
        return has_other_bytes(codec.header, blob)
    return isinstance(codec, WebP) and len(blob) > TAIL_BYTES and webp_has_unused_bytes(codec, blob)


def webp_has_unused_bytes(codec: WebP, blob: bytes) -> bool:
    if len(blob) > 2 * len(codec.compress(as_picture(codec.read(blob)))) + 32:
        # WebP says itself how fine it is; compressed again as its codec would, an honest one hardly shrinks
        return True
    complete, cut = (pixels_of_file(codec.as_file(part)) for part in (blob, blob[:-TAIL_BYTES]))
    return complete is not None and cut is not None and np.array_equal(complete, cut)


def pixels_of_file(content: bytes) -> np.ndarray | None:
    """With Pillow, which prints nothing about pictures that are cut short."""
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG", "WEBP")) as picture:
            return np.array(picture)
    except (OSError, SyntaxError, ValueError):
        return None
