"""Which pixels are kept: a small map of bytes and a cut, from which every machine makes exactly the same mask."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Float, Int64, UInt8, UInt16

STEPS = 65534
# from the least salient pixel to the most; a cut of so many keeps nothing
WHOLE = 65535
# a cut that no level reaches is the sign for the whole image


@dataclass(frozen=True)
class Selection:
    """For each image its map, the cut above which a pixel is kept, and the mask that the two give."""

    maps: UInt8[np.ndarray, "b i j"]
    cuts: UInt16[np.ndarray, "b"]
    masks: Bool[np.ndarray, "b h w"]


def whole(count: int, height: int, width: int) -> Selection:
    """Every pixel of so many images."""
    return Selection(
        np.zeros((count, 1, 1), np.uint8), np.full(count, WHOLE, np.uint16), np.ones((count, height, width), bool)
    )


def select(
    maps: UInt8[np.ndarray, "b i j"], threshold: float, height: int, width: int, most: int, *, gist: bool = False
) -> tuple[Selection, Bool[np.ndarray, "b"]]:
    """Pixels whose saliency, stretched to [0, 1], is above the threshold; and for which images that had to give way.

    It gives way where nothing is salient (the whole image is wanted then) and where more pixels are wanted than the
    memory can ever hold: the cut is raised until they fit. Where nothing is salient and the whole does not fit, the
    centre is taken to be. With a gist of the image under it, nothing salient is nothing kept.
    """
    levels = stretched(maps, height, width)
    cuts = np.full(len(maps), int(threshold * STEPS), np.uint16)
    flat = levels.max((1, 2)) == 0
    bent = (flat & (not gist)) | ((levels > cuts[:, None, None]).sum((1, 2)) > most)
    maps = maps.copy()
    for row in np.flatnonzero(bent):
        if flat[row] and height * width <= most:
            cuts[row] = WHOLE
            continue
        if flat[row]:
            maps[row] = central(*maps.shape[1:])
            levels[row] = stretched(maps[row : row + 1], height, width)[0]
        ordered = np.sort(levels[row], axis=None)[::-1]
        cuts[row] = ordered[most] if most < len(ordered) else 0
    return Selection(maps, cuts, above(levels, cuts)), bent


def masks_of(
    maps: UInt8[np.ndarray, "b i j"], cuts: UInt16[np.ndarray, "b"], height: int, width: int
) -> Bool[np.ndarray, "b h w"]:
    """The masks, from maps and cuts alone."""
    return above(stretched(maps, height, width), cuts)


def above(levels: Int64[np.ndarray, "b h w"], cuts: UInt16[np.ndarray, "b"]) -> Bool[np.ndarray, "b h w"]:
    return (levels > cuts[:, None, None]) | (cuts == WHOLE)[:, None, None]


def stretched(maps: UInt8[np.ndarray, "b i j"], height: int, width: int) -> Int64[np.ndarray, "b h w"]:
    """Maps at the image's size, each stretched from 0 to 65534; a flat one is 0 everywhere. Whole numbers only."""
    # products of small whole numbers are exact in double precision, in whatever order they are added
    fine = weights(height, maps.shape[1]) @ maps.astype(np.float64) @ weights(width, maps.shape[2]).T
    low, high = fine.min((1, 2), keepdims=True), fine.max((1, 2), keepdims=True)
    spread = (high - low).astype(np.int64)
    return (fine - low).astype(np.int64) * STEPS // np.maximum(spread, 1)


@cache
def weights(size: int, coarse: int) -> Float[np.ndarray, "size coarse"]:
    """Bilinear interpolation along one axis, pixel centres aligned, in whole numbers: rows add up to twice the size."""
    rows = np.arange(size)
    position = np.maximum((2 * rows + 1) * coarse - size, 0)
    low, share = np.divmod(position, 2 * size)
    found = np.zeros((size, coarse))
    np.add.at(found, (rows, low), 2 * size - share)
    np.add.at(found, (rows, np.minimum(low + 1, coarse - 1)), share)
    return found


def central(height: int, width: int) -> UInt8[np.ndarray, "i j"]:
    """A map that is highest in its middle."""
    down, across = (1 - np.abs(np.linspace(-1, 1, size + 2)[1:-1]) for size in (height, width))
    highest = max(min(down.max(), across.max()), 1e-9)
    return (255 * np.minimum(down[:, None], across[None]) / highest).round().astype(np.uint8)
