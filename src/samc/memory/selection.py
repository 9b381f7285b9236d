"""Which pixels of an image are kept: a small saliency map and a cutoff, from which every machine makes the same mask.

A saliency map has any grid, usually that of the network's feature map, and one byte per cell. It is interpolated to the
image's size in integers, so that a mask that is rebuilt from its map and cutoff is exactly the one that was used.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64, UInt8, UInt16

MAX_LEVEL = 65534
# the level of an image's most salient pixel, the least salient one has 0; a cutoff of MAX_LEVEL keeps nothing
KEEP_ALL = 65535
# the cutoff that stands for "every pixel", since no level reaches it
MAX_DENSE_CELLS = 64
# along one axis; up to so many, interpolating with a matrix is faster than picking the two neighbours of each pixel


@dataclass(frozen=True, repr=False)
class Selection:
    """For each image of a batch its saliency map, the level above which a pixel is kept, and the resulting mask."""

    maps: UInt8[np.ndarray, "b i j"]
    cutoffs: UInt16[np.ndarray, "b"]
    masks: Bool[np.ndarray, "b h w"]

    def __repr__(self) -> str:
        count = len(self.masks)
        share = f", {self.masks.mean():.1%} of their pixels" if self.masks.size else ""
        return f"Selection({count} {'image' if count == 1 else 'images'}{share})"


def select(
    maps: UInt8[np.ndarray, "b i j"], threshold: float, height: int, width: int, max_pixels: int, *, gist: bool = False
) -> tuple[Selection, Bool[np.ndarray, "b"]]:
    """Keep the pixels whose saliency, normalised to [0, 1] per image, is above the threshold.

    Also returns for which images this had to be adjusted:
    - more pixels are salient than `max_pixels`, the most that the memory can ever hold: the cutoff is raised;
    - nothing is salient, the map is constant: the whole image is kept, or as much of its centre as fits.

    With a `gist`, a codec that keeps a coarse picture of the whole image anyway, a constant map keeps no pixel.
    """
    levels = upsampled(maps, height, width)
    cutoffs = np.full(len(maps), int(threshold * MAX_LEVEL), np.uint16)
    constant = levels.max((1, 2)) == 0
    too_many = (levels > cutoffs[:, None, None]).sum((1, 2)) > max_pixels
    adjusted = too_many if gist else too_many | constant
    maps = maps.copy()
    for row in np.flatnonzero(adjusted):
        if constant[row] and height * width <= max_pixels:
            cutoffs[row] = KEEP_ALL
            continue
        if constant[row]:
            maps[row] = central_map(*maps.shape[1:])
            levels[row] = upsampled(maps[row : row + 1], height, width)[0]
        descending = np.sort(levels[row], axis=None)[::-1]
        cutoffs[row] = descending[max_pixels] if max_pixels < len(descending) else 0
    return Selection(maps, cutoffs, above(levels, cutoffs)), adjusted


def full_selection(count: int, height: int, width: int) -> Selection:
    """Every pixel of `count` images."""
    return Selection(
        np.zeros((count, 1, 1), np.uint8), np.full(count, KEEP_ALL, np.uint16), np.ones((count, height, width), bool)
    )


def masks_of(
    maps: UInt8[np.ndarray, "b i j"], cutoffs: UInt16[np.ndarray, "b"], height: int, width: int
) -> Bool[np.ndarray, "b h w"]:
    """The masks that maps and cutoffs stand for."""
    return above(upsampled(maps, height, width), cutoffs)


def above(levels: Int64[np.ndarray, "b h w"], cutoffs: UInt16[np.ndarray, "b"]) -> Bool[np.ndarray, "b h w"]:
    return (levels > cutoffs[:, None, None]) | (cutoffs == KEEP_ALL)[:, None, None]


def upsampled(maps: UInt8[np.ndarray, "b i j"], height: int, width: int) -> Int64[np.ndarray, "b h w"]:
    """Maps at the image's size, each normalised to 0 … MAX_LEVEL; a constant one is 0 everywhere.

    The interpolation is torch's bilinear one, in integers: sums of products of small integers are exact in
    double precision, in whatever order they are added.
    """
    values = interpolated(maps.astype(np.float64).swapaxes(1, 2), height)
    values = interpolated(values.swapaxes(1, 2), width)
    low, high = values.min((1, 2), keepdims=True), values.max((1, 2), keepdims=True)
    spread = (high - low).astype(np.int64)
    return (values - low).astype(np.int64) * MAX_LEVEL // np.maximum(spread, 1)


def interpolated(maps: Float64[np.ndarray, "b i j"], size: int) -> Float64[np.ndarray, "b i size"]:
    """Maps with so many cells along their last axis, times an integer that is the same for all."""
    cells = maps.shape[2]
    if cells == size:
        return maps
    if cells <= MAX_DENSE_CELLS:
        return maps @ interpolation_matrix(size, cells).T
    lower, share = lower_cells(size, cells)
    values, upper_values = maps.take(lower, 2), maps.take(np.minimum(lower + 1, cells - 1), 2)
    # in place: such maps may be large
    values *= 2 * size - share
    upper_values *= share
    values += upper_values
    return values


@cache
def interpolation_matrix(size: int, cells: int) -> Float[np.ndarray, "size cells"]:
    """Each pixel's weights of the cells; they add up to twice the size."""
    pixels = np.arange(size)
    lower, share = lower_cells(size, cells)
    matrix = np.zeros((size, cells))
    np.add.at(matrix, (pixels, lower), 2 * size - share)
    np.add.at(matrix, (pixels, np.minimum(lower + 1, cells - 1)), share)
    return matrix


def lower_cells(size: int, cells: int) -> tuple[Int64[np.ndarray, "size"], Int64[np.ndarray, "size"]]:
    """Each pixel lies between the centres of two cells: the index of the first, and the weight of the second.

    The two weights of a pixel add up to twice the size; in these units its distance from the first centre is an
    integer. Pixels before the centre of cell 0 take that cell's value.
    """
    position = np.maximum((2 * np.arange(size) + 1) * cells - size, 0)
    lower, share = np.divmod(position, 2 * size)
    return lower, share


def central_map(height: int, width: int) -> UInt8[np.ndarray, "i j"]:
    """A map that is highest in its middle."""
    down, across = (1 - np.abs(np.linspace(-1, 1, size + 2)[1:-1]) for size in (height, width))
    highest = max(min(down.max(), across.max()), 1e-9)
    return (255 * np.minimum(down[:, None], across[None]) / highest).round().astype(np.uint8)
