"""Searching bytes for images: which originals have left runs of their dropped pixels in a file."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt64

RUN = 16
# consecutive bytes, hashed to one number; shorter runs are shared by images that have little to do with each other
CHUNK = 256
# originals that are searched at once
MULTIPLIERS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
# odd numbers whose products spread over all bits


def run_hashes(rows: UInt8[np.ndarray, "b n"]) -> UInt64[np.ndarray, "b m"]:
    """Every run of each row, as a number that two different runs hardly ever share."""
    rows = np.ascontiguousarray(rows)
    count = max(0, rows.shape[1] - RUN + 1)
    if not len(rows) or not count:
        return np.zeros((len(rows), count), np.uint64)
    halves = (
        np.ndarray((len(rows), count), np.uint64, rows, offset=start, strides=(rows.shape[1], 1))
        for start in (0, RUN // 2)
    )
    first, second = (half * multiplier for half, multiplier in zip(halves, MULTIPLIERS, strict=True))
    return first ^ (second >> np.uint64(29)) ^ second


ALL_DROPPED = run_hashes(np.ones((1, RUN), np.uint8))[0, 0]
# the hash of a run of flags that are all set


def distinctive_runs(pieces: Sequence[UInt8[np.ndarray, "_"]]) -> UInt64[np.ndarray, "k"]:
    """The runs of some bytes that could tell one image from another: no plain areas, gradients or repeated colours."""
    hashes = [np.zeros(0, np.uint64)]
    for piece in pieces:
        if len(piece) < RUN:
            continue
        windows = np.sort(np.lib.stride_tricks.sliding_window_view(piece, RUN), axis=1)
        distinct_values = 1 + (np.diff(windows, axis=1) != 0).sum(1)
        bends = windowed_sum(piece[2:] - 2 * piece[1:-1] + piece[:-2] != 0, RUN - 2)
        changes = windowed_sum(piece[3:] != piece[:-3], RUN - 3)  # to the same channel of the pixel before
        hashes.append(run_hashes(piece[None])[0][(distinct_values >= 6) & (bends >= 4) & (changes >= 6)])
    return np.unique(np.concatenate(hashes))


def windowed_sum(flags: Bool[np.ndarray, "n"], length: int) -> Int64[np.ndarray, "m"]:
    """How many flags are set in each window of so many."""
    sums = np.concatenate([[0], np.cumsum(flags)])
    return sums[length:] - sums[:-length]


def count_runs(
    known: UInt64[np.ndarray, "k"], originals: UInt8[np.ndarray, "n c h w"], kept: Mapping[int, Bool[np.ndarray, "h w"]]
) -> Int64[np.ndarray, "n"]:
    """How many different known runs each original has among its dropped pixels.

    `kept` says what was kept of which original; of all others every pixel was dropped. Pixels are searched in the
    orders in which programs write them: channel after channel, and pixel after pixel with red or with blue first.
    """
    counts = np.zeros(len(originals), np.int64)
    if not len(known):
        return counts
    # a table of flags, found by the upper bits of a hash, rules out nearly all runs before the exact comparison
    shift = np.uint64(64 - max(16, len(known).bit_length() + 4))
    listed = np.zeros(2 ** (64 - int(shift)), bool)
    listed[(known * MULTIPLIERS[0]) >> shift] = True
    for start in range(0, len(originals), CHUNK):
        chunk = originals[start : start + CHUNK]
        dropped = np.ones((len(chunk), *chunk.shape[2:]), bool)
        for row in range(len(chunk)):
            if start + row in kept:
                dropped[row] = ~kept[start + row]
        hits = [np.zeros((0, 2), np.uint64)]
        for values, value_dropped in pixel_orders(chunk, dropped):
            hashes = run_hashes(values)
            rows, columns = np.nonzero(listed[(hashes * MULTIPLIERS[0]) >> shift])
            candidates = hashes[rows, columns]
            all_dropped = run_hashes(value_dropped.astype(np.uint8))[rows, columns] == ALL_DROPPED
            confirmed = all_dropped & np.isin(candidates, known)
            images = rows[confirmed] * len(chunk) // len(hashes)
            hits.append(np.stack([images.astype(np.uint64), candidates[confirmed]], axis=1))
        images = np.unique(np.concatenate(hits), axis=0)[:, 0].astype(np.int64)
        counts[start : start + len(chunk)] = np.bincount(images, minlength=len(chunk))
    return counts


def pixel_orders(
    images: UInt8[np.ndarray, "b c h w"], dropped: Bool[np.ndarray, "b h w"]
) -> list[tuple[UInt8[np.ndarray, "r n"], Bool[np.ndarray, "r n"]]]:
    """The images' values in each order, and which of them were dropped; an image has one row, or one per channel."""
    count, channels, height, width = images.shape
    planes = images.reshape(count * channels, height * width)
    orders = [(planes, np.repeat(dropped.reshape(count, -1), channels, axis=0))]
    if channels > 1:
        value_dropped = np.repeat(dropped.reshape(count, -1), channels, axis=1)
        channels_last = images.transpose(0, 2, 3, 1)
        orders += [
            (channels_last.reshape(count, -1), value_dropped),
            (channels_last[..., ::-1].reshape(count, -1), value_dropped),
        ]
    return orders


def matching_originals(
    image: UInt8[np.ndarray, "c h w"], mask: Bool[np.ndarray, "h w"], originals: UInt8[np.ndarray, "n c h w"]
) -> Int64[np.ndarray, "m"]:
    """The originals that have all of an image's kept pixels; none, where nothing was kept."""
    positions = np.argwhere(mask)
    if not len(positions):
        return np.zeros(0, np.int64)
    rows = np.arange(len(originals))
    # pixels far from each other tell more than neighbours do
    for y, x in positions[:: max(1, len(positions) // 8)]:
        values = originals[:, :, y, x] if len(rows) == len(originals) else originals[rows, :, y, x]
        rows = rows[(values == image[:, y, x]).all(1)]
    return rows[[bool((originals[row][:, mask] == image[:, mask]).all()) for row in rows]] if len(rows) else rows
