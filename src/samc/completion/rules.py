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
    filled = zero(images, masks)

    def fill(index: int) -> None:
        mask = masks[index]
        # with nothing dropped there is nothing to do, and with nothing kept OpenCV has nothing to start from
        if mask.all() or not mask.any():
            return
        # OpenCV takes one channel or three, channels last; its result differs from the input only where dropped
        picture = np.ascontiguousarray(filled[index].transpose(1, 2, 0))
        painted = cv2.inpaint(picture, (~mask).astype(np.uint8), RADIUS, method)
        filled[index] = painted.reshape(picture.shape).transpose(2, 0, 1)

    for _ in pool().map(fill, range(len(masks))):  # OpenCV paints one image on one core
        pass
    return filled


@cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), "inpainting")


RULES: dict[str, Rule] = {"zero": zero, "telea": telea, "navier-stokes": navier_stokes}
