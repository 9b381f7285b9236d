"""The audit of a memory's file: do its bytes add up, and can a pixel that was dropped be had from it after all.

It finds originals that were put into the file as they are, wherever that is, and a codec that keeps more than it says.
It does not find what somebody has encrypted into numbers that any memory has; nothing could.
"""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, UInt8
from PIL import Image

from samc.errors import DataError
from samc.memory.buffer import EpisodicMemory
from samc.memory.codec import Codec
from samc.memory.container import Container, read
from samc.memory.file import load
from samc.memory.gist import Gist
from samc.memory.masked import Cam
from samc.memory.pictures import Jpeg, WebP, as_picture
from samc.memory.search import found_runs, matches, telling_runs
from samc.memory.selection import WHOLE

TAIL = 4
# a picture without its last bytes is another picture, or none; where it is not, they were no part of it
MOST_EXACT = 0.25
# a coarse picture that gives so many dropped values exactly is not coarse


@dataclass(frozen=True)
class Audit:
    """What was found; it has passed if there is no complaint."""

    path: Path
    file_bytes: int
    container_bytes: int
    counted_bytes: int
    images: int
    dropped_share: float
    compared: int | None
    exact_share: float | None
    complaints: tuple[str, ...]

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
            return f"passed: {sums}; {self.images} images; keeps whole images, nothing to hide"
        share = f"{self.images} images without {self.dropped_share:.0%} of their pixels"
        if self.compared is None:
            return f"passed: {sums}; {share}; whether those can be had from the file only the originals can tell"
        seen = f"{self.compared} of them compared with their originals"
        coarse = " but coarsely" if self.exact_share is not None else ""
        return f"passed: {sums}; {share}, which cannot be had from the file{coarse} ({seen})"


def audit(path: Path, originals: UInt8[np.ndarray, "n c h w"] | None = None) -> Audit:
    """Decode everything, add up the bytes and, given the originals, look for what was dropped."""
    if not path.is_file():
        raise DataError(f"{path} is not there; give the path of a memory's file, such as runs/first/memory.samc")
    size = path.stat().st_size
    try:
        memory, container = load(path), read(path)
    except DataError as error:
        reason = str(error).removeprefix(f"{path} ").rpartition("; ")[0]
        return Audit(path, size, 0, 0, 0, 0.0, None, None, (reason,))
    items = [item for shelf in memory.shelves.values() for item in shelf.items]
    images, masks = memory.codec.decode([item.blob for item in items])
    complaints = []
    if size != container.own_bytes + memory.nbytes:
        complaints.append(f"{size:,} bytes on disk, {memory.nbytes:,} counted and {container.own_bytes:,} of container")
    idle = sum(has_idle_bytes(memory.codec, item.blob) for item in items)
    if idle:
        complaints.append(f"{idle} of {len(items)} images carry bytes that their codec would not have written")
    if not memory.codec.gist and (images * ~masks[:, None]).any():
        complaints.append("pixels that count as dropped come back")
    compared = exact = None
    if originals is not None and not masks.all():
        if originals.shape[1:] != images.shape[1:]:
            sizes = " and ".join("x".join(map(str, each.shape[1:])) for each in (images, originals))
            raise DataError(f"{path} remembers other images than the originals ({sizes}); give those it was made from")
        compared, exact, found = against(memory, container, images, masks, originals)
        complaints += found
        if not compared and not found:
            raise DataError(f"none of the images in {path} is among the originals; give those it was made from")
    dropped = 1 - float(masks.mean()) if len(masks) else 0.0
    return Audit(
        path, size, container.own_bytes, memory.nbytes, len(items), dropped, compared, exact, tuple(complaints)
    )


def against(
    memory: EpisodicMemory,
    container: Container,
    images: UInt8[np.ndarray, "n c h w"],
    masks: Bool[np.ndarray, "n h w"],
    originals: UInt8[np.ndarray, "m c h w"],
) -> tuple[int, float | None, list[str]]:
    """How many images have an original, the share of dropped values given exactly, and what is wrong."""
    items = [item for shelf in memory.shelves.values() for item in shelf.items]
    kept: dict[int, Bool[np.ndarray, "h w"]] = {}
    searched, errors, start, compared = [container.header], [], 0, 0
    for item, image, mask in zip(items, images, masks, strict=True):
        rows = matches(image, mask, originals)
        compared += bool(len(rows))
        for row in rows:
            kept[int(row)] = kept.get(int(row), np.zeros_like(mask)) | mask
        if memory.codec.gist and len(rows):
            errors.append(differences(image, originals[rows[0]], ~mask))
        # of an image that is what it says, the pixels that it keeps are no find
        length = explained_from(memory.codec, item.blob) if len(rows) else len(item.blob)
        searched.append(container.tensors["blobs"][start : start + length])
        start += len(item.blob)
    complaints = []
    counts = found_runs(telling_runs(searched), originals, kept)
    smuggled = np.flatnonzero(counts)
    if len(smuggled):
        which = f"{len(smuggled)} of the originals, the first of them number {smuggled[0]},"
        complaints.append(f"dropped pixels of {which} are in the file as they were")
    exact = None
    if errors and (values := np.abs(np.concatenate(errors))).size:
        exact, near = float((values == 0).mean()), float((values == 1).mean()) / 2
        # a coarse picture is as often right as it is one too high; small samples vary
        if exact > min(MOST_EXACT, 2 * near + 0.05) + values.size**-0.5:
            complaints.append(f"{exact:.0%} of the dropped values come back exactly, where chance gives {near:.0%}")
    return compared, exact, complaints


def differences(
    image: UInt8[np.ndarray, "c h w"], truth: UInt8[np.ndarray, "c h w"], dropped: Bool[np.ndarray, "h w"]
) -> np.ndarray:
    """Decoded less true values of dropped pixels, without those that their neighbours give away."""
    telling = np.broadcast_to(dropped, truth.shape).copy()
    telling[:, 1:] &= truth[:, 1:] != truth[:, :-1]
    telling[:, :, 1:] &= truth[:, :, 1:] != truth[:, :, :-1]
    return image[telling].astype(np.int16) - truth[telling]


def explained_from(codec: Codec, blob: bytes) -> int:
    """Where in a blob the kept pixels begin that stand there as they are; its end, if they are deflated."""
    start = len(blob) - codec.parts(blob)["colours"]
    if codec.spec.endswith("+deflate"):
        return start + 1 if blob[start : start + 1] == b"\0" else len(blob)
    # a list of places in rising order holds nothing else
    return 0 if codec.spec == "coo" else start


def has_idle_bytes(codec: Codec, blob: bytes) -> bool:
    """Whether an image is the same without some of its bytes, or a picture finer than its codec makes them."""
    if isinstance(codec, Gist):
        picture, rest = codec.halves(blob)
        return has_idle_bytes(codec.under, picture) or has_idle_bytes(codec.over, rest)
    if isinstance(codec, Cam):  # the map of an image that is kept whole says nothing
        return int.from_bytes(blob[:2], "little") == WHOLE and any(blob[2 : codec.fixed_bytes])
    if not isinstance(codec, Jpeg | WebP) or len(blob) <= TAIL:
        return False
    if len(blob) > 2 * len(codec.packed(as_picture(codec.read(blob)))) + 32:
        return True  # WebP says itself how fine it is; packed again as its codec would, an honest one hardly shrinks
    whole, cut = (pixels(codec.unpacked(part)) for part in (blob, blob[:-TAIL]))
    return whole is not None and cut is not None and np.array_equal(whole, cut)


def pixels(content: bytes) -> np.ndarray | None:
    """With Pillow, which says nothing on the terminal about pictures that are cut."""
    try:
        with Image.open(io.BytesIO(content)) as picture:
            return np.array(picture)
    except (OSError, SyntaxError, ValueError):
        return None
