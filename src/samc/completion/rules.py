"""Rules that fill dropped pixels without learning anything: zeros, and OpenCV's two inpainters."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import cv2
import numpy as np
from jaxtyping import Bool, UInt8

Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]
# images uint8 (b, c, h, w) and masks bool (b, h, w), True where kept -> images with the rest filled

CORES = os.cpu_count() or 1
RADIUS = 3
# pixels around a dropped one that the inpainters look at; the authors' value


def as_it_is(images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]) -> UInt8[np.ndarray, "b c h w"]:
    """For memories that still know something of every pixel."""
    return images


def zero(images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]) -> UInt8[np.ndarray, "b c h w"]:
    return images * masks[:, None]


def telea(images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]) -> UInt8[np.ndarray, "b c h w"]:
    """Telea 2004: fast marching from the kept pixels outwards."""
    return inpainted(images, masks, cv2.INPAINT_TELEA)


def navier_stokes(
    images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]
) -> UInt8[np.ndarray, "b c h w"]:
    """Bertalmio et al. 2001: edges carried on as a fluid would."""
    return inpainted(images, masks, cv2.INPAINT_NS)


def inpainted(images: np.ndarray, masks: np.ndarray, method: int) -> np.ndarray:
    # OpenCV takes one channel or three, channels last; its result differs from the input only where dropped
    pictures = np.ascontiguousarray(zero(images, masks).transpose(0, 2, 3, 1))
    holes = (~masks).astype(np.uint8)
    # with nothing dropped there is nothing to do, and with nothing kept OpenCV has nothing to start from
    share = masks.mean((1, 2))
    wanted = np.flatnonzero((share > 0) & (share < 1))

    def fill(rows: np.ndarray) -> None:
        for row in rows:
            painted = cv2.inpaint(pictures[row], holes[row], RADIUS, method)
            pictures[row] = painted.reshape(pictures[row].shape)

    # an image is painted on one core, and most of them are small: each thread gets a part of all of them
    for _ in pool().map(fill, np.array_split(wanted, min(len(wanted), CORES) or 1)):
        pass
    return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2))


@cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CORES, "inpainting")


RULES: dict[str, Rule] = {"zero": zero, "telea": telea, "navier-stokes": navier_stokes}
