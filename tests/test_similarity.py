"""PSNR and SSIM against hand-computed numbers, a plain loop, and what must hold of any images."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samc.similarity import psnr, squared_error, ssim, ssim_map

EVERYWHERE = np.ones((1, 6, 7), bool)


def constant(value, shape=(1, 3, 6, 7)):
    return np.full(shape, value)


def noise(seed, shape=(2, 3, 13, 9)):
    return np.random.default_rng(seed).random(shape, np.float32)


def test_the_error_is_that_of_the_chosen_pixels():
    first, second = constant(0.0), constant(0.0)
    second[0, :, 0, 0] = 0.5
    corner = np.zeros_like(EVERYWHERE)
    corner[0, 0, 0] = True
    assert squared_error(first, second, corner) == 0.25
    assert squared_error(first, second, ~corner) == 0.0
    assert squared_error(first, second, EVERYWHERE) == pytest.approx(0.25 / 42)
    assert squared_error(first, second, ~EVERYWHERE) is None
    assert ssim(first, second, ~EVERYWHERE) is None


def test_decibels():
    assert psnr(0.01) == pytest.approx(20)
    assert psnr(1.0) == 0
    assert psnr(0.0) == math.inf
    assert psnr(None) is None


def test_ssim_of_constant_images_is_their_luminance_alone():
    # (2·0.2·0.6 + 0.0001) / (0.04 + 0.36 + 0.0001): there is no contrast to differ in
    assert ssim(constant(0.2), constant(0.6), EVERYWHERE) == pytest.approx(0.2401 / 0.4001)
    assert ssim(constant(0.0), constant(1.0), EVERYWHERE) == pytest.approx(0.0001 / 1.0001)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(1, 14), st.sampled_from([1, 3]))
def test_identical_images_give_one_and_order_does_not_matter(seed, height, width, channels):
    first, second = (noise(seed + n, (2, channels, height, width)) for n in (0, 1))
    np.testing.assert_allclose(ssim_map(first, first), 1, atol=1e-9)
    there, back = ssim_map(first, second), ssim_map(second, first)
    np.testing.assert_allclose(there, back, atol=1e-12)
    assert there.max() <= 1 + 1e-9


def test_ssim_is_what_a_loop_over_one_window_gives():
    first, second = noise(0), noise(1)
    for row, column in ((6, 4), (0, 0), (12, 3)):  # the middle, a corner, an edge
        total, sums = 0.0, np.zeros(5)
        for i in range(max(0, row - 5), min(13, row + 6)):
            for j in range(max(0, column - 5), min(9, column + 6)):
                weight = math.exp(-((i - row) ** 2 + (j - column) ** 2) / 4.5)
                x, y = float(first[1, 2, i, j]), float(second[1, 2, i, j])
                total += weight
                sums += weight * np.array([x, y, x * x, y * y, x * y])
        mean_x, mean_y, xx, yy, xy = sums / total
        luminance = (2 * mean_x * mean_y + 0.0001) / (mean_x**2 + mean_y**2 + 0.0001)
        contrast = (2 * (xy - mean_x * mean_y) + 0.0009) / (xx - mean_x**2 + yy - mean_y**2 + 0.0009)
        assert ssim_map(first, second)[1, 2, row, column] == pytest.approx(luminance * contrast)
