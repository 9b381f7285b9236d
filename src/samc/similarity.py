"""How similar images are: mean squared error, PSNR and SSIM over a part of them; pure functions of values in [0, 1]."""

import math

import numpy as np
from jaxtyping import Bool, Float

WINDOW_REACH = 5
WINDOW_WIDTH = 1.5
# the Gaussian window of Wang et al. 2004: 11 by 11, deviation 1.5
LUMINANCE, CONTRAST = 0.01**2, 0.03**2
# their constants for values in [0, 1], which keep a quotient of two small numbers stable


def squared_error(
    first: Float[np.ndarray, "n c h w"], second: Float[np.ndarray, "n c h w"], where: Bool[np.ndarray, "n h w"]
) -> float | None:
    """Mean over all chosen pixels of all images together; None where none is chosen."""
    squares = (first.astype(np.float64) - second) ** 2
    return float(squares.mean(1)[where].mean()) if where.any() else None


def psnr(error: float | None) -> float | None:
    """Decibels of a mean squared error, the highest value being 1; infinite where there is none."""
    if error is None:
        return None
    return -10 * math.log10(error) if error else math.inf


def ssim(
    first: Float[np.ndarray, "n c h w"], second: Float[np.ndarray, "n c h w"], where: Bool[np.ndarray, "n h w"]
) -> float | None:
    """Mean of the SSIM map over all chosen pixels; None where none is chosen.

    The window around a chosen pixel also sees its neighbours, chosen or not.
    """
    return float(ssim_map(first, second).mean(1)[where].mean()) if where.any() else None


def ssim_map(first: Float[np.ndarray, "n c h w"], second: Float[np.ndarray, "n c h w"]) -> Float[np.ndarray, "n c h w"]:
    """SSIM of the window around each pixel, channel by channel."""
    down, across = window(first.shape[2]), window(first.shape[3]).T

    def local_mean(values: np.ndarray) -> np.ndarray:
        return down @ values @ across

    x, y = first.astype(np.float64), second.astype(np.float64)
    mean_x, mean_y = local_mean(x), local_mean(y)
    variances = local_mean(x * x) - mean_x**2 + local_mean(y * y) - mean_y**2
    covariance = local_mean(x * y) - mean_x * mean_y
    numerator = (2 * mean_x * mean_y + LUMINANCE) * (2 * covariance + CONTRAST)
    return numerator / ((mean_x**2 + mean_y**2 + LUMINANCE) * (variances + CONTRAST))


def window(size: int) -> Float[np.ndarray, "size size"]:
    """A row of weights around each position of an axis; at the edge, what lies outside has no weight."""
    offsets = np.subtract.outer(np.arange(size), np.arange(size))
    weights = np.exp(-(offsets**2) / (2 * WINDOW_WIDTH**2)) * (abs(offsets) <= WINDOW_REACH)
    return weights / weights.sum(1, keepdims=True)
