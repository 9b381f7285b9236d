"""Rules that fill dropped pixels without learning: zeros, and OpenCV's two inpainting algorithms."""

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
# pixels around a dropped one that inpainting considers; the authors' value


def unchanged(images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]) -> UInt8[np.ndarray, "b c h w"]:
    """For memories that still know something of every pixel."""
    return images


def zero(images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]) -> UInt8[np.ndarray, "b c h w"]:
    return images * masks[:, None]


def telea(images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]) -> UInt8[np.ndarray, "b c h w"]:
    """Telea 2004: fast marching outwards from the kept pixels."""
    return inpainted(images, masks, cv2.INPAINT_TELEA)


def navier_stokes(
    images: UInt8[np.ndarray, "b c h w"], masks: Bool[np.ndarray, "b h w"]
) -> UInt8[np.ndarray, "b c h w"]:
    """Bertalmio et al. 2001: edges are continued as the flow of a fluid."""
    return inpainted(images, masks, cv2.INPAINT_NS)


def inpainted(images: np.ndarray, masks: np.ndarray, method: int) -> np.ndarray:
    # OpenCV takes one channel or three, channels last; its result differs from the input only where dropped
    pictures = np.ascontiguousarray(zero(images, masks).transpose(0, 2, 3, 1))
    holes = (~masks).astype(np.uint8)
    # with nothing dropped there is nothing to do, and with nothing kept OpenCV has nothing to start from
    kept_share = masks.mean((1, 2))
    incomplete = np.flatnonzero((kept_share > 0) & (kept_share < 1))

    def fill(rows: np.ndarray) -> None:
        for row in rows:
            filled = cv2.inpaint(pictures[row], holes[row], RADIUS, method)
            pictures[row] = filled.reshape(pictures[row].shape)

    # OpenCV uses one core per image, and most images are small: every thread gets a part of the batch
    for _ in thread_pool().map(fill, np.array_split(incomplete, min(len(incomplete), CORES) or 1)):
        pass
    return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2))


@cache
def thread_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CORES, "inpainting")


RULES: dict[str, Rule] = {"zero": zero, "telea": telea, "navier-stokes": navier_stokes}
