"""Selections: the same mask from a map and a cutoff everywhere, torch's interpolation, adjusted thresholds."""

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from samc.memory.selection import (
    KEEP_ALL,
    MAX_DENSE_CELLS,
    MAX_LEVEL,
    central_map,
    full_selection,
    interpolation_matrix,
    masks_of,
    select,
    upsampled,
)


def maps_of(count, height, width, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, height, width), dtype=np.uint8)


@given(st.integers(1, 84), st.integers(1, 11))
@settings(max_examples=60, deadline=None)
def test_weights_are_whole_and_add_up(size, cells):
    weights = interpolation_matrix(size, cells)
    assert np.array_equal(weights, weights.astype(int))
    assert (weights >= 0).all()
    assert (weights.sum(1) == 2 * size).all()


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 100), st.integers(1, 100), st.integers(0, 2**31))
@example(28, 28, 7, 7, 0)
@example(100, 80, 100, 80, 0)  # as many cells as pixels
@example(100, 100, MAX_DENSE_CELLS + 1, 1, 0)
@settings(max_examples=60, deadline=None)
def test_upsampling_is_torchs_bilinear_interpolation(height, width, rows, columns, seed):
    maps = maps_of(2, rows, columns, seed)
    tensor = torch.from_numpy(maps)[:, None].double()
    fine = F.interpolate(tensor, (height, width), mode="bilinear", align_corners=False)[:, 0].numpy()
    low, high = fine.min((1, 2), keepdims=True), fine.max((1, 2), keepdims=True)
    spread = np.where(high - low > 1e-9, high - low, 1)
    expected = np.where(high - low > 1e-9, (fine - low) / spread, 0)
    assert np.abs(upsampled(maps, height, width) / MAX_LEVEL - expected).max() <= 1.01 / MAX_LEVEL + 1e-9


@given(st.floats(0, 0.99), st.integers(0, 90), st.booleans(), st.integers(0, 2**31))
@settings(max_examples=80, deadline=None)
def test_selected_pixels_are_above_the_threshold_and_fit(threshold, max_pixels, gist, seed):
    maps = maps_of(3, 2, 3, seed)
    maps[1] = 7  # constant: nothing is salient
    selection, adjusted = select(maps, threshold, 8, 10, max_pixels, gist=gist)
    levels = upsampled(maps, 8, 10)
    assert (selection.masks.sum((1, 2)) <= max_pixels).all()
    assert np.array_equal(selection.masks, masks_of(selection.maps, selection.cutoffs, 8, 10))
    wanted = levels > int(threshold * MAX_LEVEL)
    assert np.array_equal(selection.masks[~adjusted], wanted[~adjusted])
    for row in (0, 2):
        assert not (selection.masks[row] & ~wanted[row]).any()
        assert adjusted[row] == (wanted[row].sum() > max_pixels)
    assert adjusted[1] == (not gist)
    if gist:
        assert not selection.masks[1].any()
    elif max_pixels >= 80:
        assert selection.masks[1].all()


def test_where_nothing_is_salient_and_not_all_fits_the_centre_is_kept():
    selection, adjusted = select(np.zeros((1, 4, 4), np.uint8), 0.7, 32, 32, 200)
    assert adjusted.all()
    rows, columns = np.nonzero(selection.masks[0])
    assert 100 < len(rows) <= 200
    assert 8 <= rows.min() <= rows.max() <= 23
    assert 15 <= rows.mean() <= 16
    assert 15 <= columns.mean() <= 16


def test_a_full_selection_keeps_every_pixel():
    selection = full_selection(2, 5, 6)
    assert selection.masks.all()
    assert (selection.cutoffs == KEEP_ALL).all()
    assert np.array_equal(masks_of(selection.maps, selection.cutoffs, 5, 6), selection.masks)


def test_a_central_map_is_highest_in_its_middle():
    assert central_map(1, 1).tolist() == [[255]]
    middle = central_map(5, 5)
    assert middle[2, 2] == 255
    assert middle[0, 0] < middle[1, 1] < 255
