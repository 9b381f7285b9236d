"""Selections: the same mask from a map and a cut everywhere, torch's interpolation, thresholds that give way."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from samc.memory.selection import STEPS, WHOLE, central, masks_of, select, stretched, weights, whole

sides = st.integers(1, 40)


def maps_of(count, height, width, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, height, width), dtype=np.uint8)


@given(st.integers(1, 84), st.integers(1, 11))
@settings(max_examples=60, deadline=None)
def test_weights_are_whole_and_add_up(size, coarse):
    found = weights(size, coarse)
    assert np.array_equal(found, found.astype(int))
    assert (found >= 0).all()
    assert (found.sum(1) == 2 * size).all()


@given(sides, sides, st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_stretching_is_torchs_bilinear_interpolation(height, width, rows, columns, seed):
    maps = maps_of(2, rows, columns, seed)
    given = torch.from_numpy(maps)[:, None].double()
    fine = F.interpolate(given, (height, width), mode="bilinear", align_corners=False)[:, 0].numpy()
    low, high = fine.min((1, 2), keepdims=True), fine.max((1, 2), keepdims=True)
    spread = np.where(high - low > 1e-9, high - low, 1)
    expected = np.where(high - low > 1e-9, (fine - low) / spread, 0)
    assert np.abs(stretched(maps, height, width) / STEPS - expected).max() <= 1.01 / STEPS + 1e-9


@given(st.floats(0, 0.99), st.integers(0, 90), st.booleans(), st.integers(0, 2**31))
@settings(max_examples=80, deadline=None)
def test_selected_pixels_are_above_the_threshold_and_fit(threshold, most, gist, seed):
    maps = maps_of(3, 2, 3, seed)
    maps[1] = 7  # flat: nothing is salient
    kept, bent = select(maps, threshold, 8, 10, most, gist=gist)
    levels = stretched(maps, 8, 10)
    assert (kept.masks.sum((1, 2)) <= most).all()
    assert np.array_equal(kept.masks, masks_of(kept.maps, kept.cuts, 8, 10))
    wanted = levels > int(threshold * STEPS)
    assert np.array_equal(kept.masks[~bent], wanted[~bent])
    for row in (0, 2):
        assert not (kept.masks[row] & ~wanted[row]).any()
        assert bent[row] == (wanted[row].sum() > most)
    assert bent[1] == (not gist)
    if gist:
        assert not kept.masks[1].any()
    elif most >= 80:
        assert kept.masks[1].all()


def test_where_nothing_is_salient_and_not_all_fits_the_centre_is_kept():
    kept, bent = select(np.zeros((1, 4, 4), np.uint8), 0.7, 32, 32, 200)
    assert bent.all()
    rows, columns = np.nonzero(kept.masks[0])
    assert 100 < len(rows) <= 200
    assert 8 <= rows.min() <= rows.max() <= 23
    assert 15 <= rows.mean() <= 16
    assert 15 <= columns.mean() <= 16


def test_the_whole_of_everything():
    kept = whole(2, 5, 6)
    assert kept.masks.all()
    assert (kept.cuts == WHOLE).all()
    assert np.array_equal(masks_of(kept.maps, kept.cuts, 5, 6), kept.masks)


def test_a_central_map_is_highest_in_its_middle():
    assert central(1, 1).tolist() == [[255]]
    middle = central(5, 5)
    assert middle[2, 2] == 255
    assert middle[0, 0] < middle[1, 1] < 255
