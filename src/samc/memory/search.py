"""Looking for images in bytes: which originals have left runs of their dropped pixels in a file."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt64

RUN = 16
# bytes in a row, compared as one number; shorter ones are shared by images that have little to do with each other
CHUNK = 256
MIXERS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
# odd numbers whose products spread over all bits


def runs(rows: UInt8[np.ndarray, "b n"]) -> UInt64[np.ndarray, "b m"]:
    """Every run of each row, as a number that two different ones hardly ever share."""
    rows = np.ascontiguousarray(rows)
    count = max(0, rows.shape[1] - RUN + 1)
    if not len(rows) or not count:
        return np.zeros((len(rows), count), np.uint64)
    halves = (
        np.ndarray((len(rows), count), np.uint64, rows, offset=start, strides=(rows.shape[1], 1))
        for start in (0, RUN // 2)
    )
    first, second = (half * mixer for half, mixer in zip(halves, MIXERS, strict=True))
    return first ^ (second >> np.uint64(29)) ^ second


ALL = runs(np.ones((1, RUN), np.uint8))[0, 0]
# a run of dropped pixels only


def telling_runs(pieces: Sequence[UInt8[np.ndarray, "_"]]) -> UInt64[np.ndarray, "k"]:
    """The runs of some bytes that could tell one image from another: no even areas, no ramps, no repeated colour."""
    found = [np.zeros(0, np.uint64)]
    for piece in pieces:
        if len(piece) < RUN:
            continue
        windows = np.sort(np.lib.stride_tricks.sliding_window_view(piece, RUN), axis=1)
        tones = 1 + (np.diff(windows, axis=1) != 0).sum(1)
        turns = within(piece[2:] - 2 * piece[1:-1] + piece[:-2] != 0, RUN - 2)
        changes = within(piece[3:] != piece[:-3], RUN - 3)  # to the same channel of the pixel before
        found.append(runs(piece[None])[0][(tones >= 6) & (turns >= 4) & (changes >= 6)])
    return np.unique(np.concatenate(found))


def within(flags: Bool[np.ndarray, "n"], length: int) -> Int64[np.ndarray, "m"]:
    """How many are set in each stretch of so many."""
    sums = np.concatenate([[0], np.cumsum(flags)])
    return sums[length:] - sums[:-length]


def found_runs(
    known: UInt64[np.ndarray, "k"], originals: UInt8[np.ndarray, "n c h w"], kept: Mapping[int, Bool[np.ndarray, "h w"]]
) -> Int64[np.ndarray, "n"]:
    """How many different known runs each original has among its dropped pixels.

    `kept` says what was kept of which original; of all others every pixel was dropped. Looked for are the orders in
    which programs write pixels: plane after plane, and pixel after pixel with red or with blue first.
    """
    counts = np.zeros(len(originals), np.int64)
    if not len(known):
        return counts
    bits = np.uint64(64 - max(16, len(known).bit_length() + 4))
    listed = np.zeros(2 ** (64 - int(bits)), bool)
    listed[(known * MIXERS[0]) >> bits] = True
    for start in range(0, len(originals), CHUNK):
        part = originals[start : start + CHUNK]
        dropped = np.ones((len(part), *part.shape[2:]), bool)
        for row in range(len(part)):
            if start + row in kept:
                dropped[row] = ~kept[start + row]
        hits = [np.zeros((0, 2), np.uint64)]
        for pixels, gone in orders(part, dropped):
            keys = runs(pixels)
            rows, places = np.nonzero(listed[(keys * MIXERS[0]) >> bits])  # few pass, and those are looked at closely
            these = keys[rows, places]
            true = (runs(gone.astype(np.uint8))[rows, places] == ALL) & np.isin(these, known)
            images = rows[true] * len(part) // len(keys)
            hits.append(np.stack([images.astype(np.uint64), these[true]], axis=1))
        images = np.unique(np.concatenate(hits), axis=0)[:, 0].astype(np.int64)
        counts[start : start + len(part)] = np.bincount(images, minlength=len(part))
    return counts


def orders(
    images: UInt8[np.ndarray, "b c h w"], dropped: Bool[np.ndarray, "b h w"]
) -> list[tuple[UInt8[np.ndarray, "r n"], Bool[np.ndarray, "r n"]]]:
    """The images' bytes in each order, and which of them were dropped; an image has one row or a row a channel."""
    count, channels, height, width = images.shape
    planes = images.reshape(count * channels, height * width)
    found = [(planes, np.repeat(dropped.reshape(count, -1), channels, axis=0))]
    if channels > 1:
        beside = np.repeat(dropped.reshape(count, -1), channels, axis=1)
        mixed = images.transpose(0, 2, 3, 1)
        found += [(mixed.reshape(count, -1), beside), (mixed[..., ::-1].reshape(count, -1), beside)]
    return found


def matches(
    image: UInt8[np.ndarray, "c h w"], mask: Bool[np.ndarray, "h w"], originals: UInt8[np.ndarray, "n c h w"]
) -> Int64[np.ndarray, "m"]:
    """The originals that have all of an image's kept pixels; none, where nothing was kept."""
    places = np.argwhere(mask)
    if not len(places):
        return np.zeros(0, np.int64)
    rows = np.arange(len(originals))
    # pixels far from each other tell more than neighbours do
    for down, across in places[:: max(1, len(places) // 8)]:
        seen = originals[:, :, down, across] if len(rows) == len(originals) else originals[rows, :, down, across]
        rows = rows[(seen == image[:, down, across]).all(1)]
    return rows[[bool((originals[row][:, mask] == image[:, mask]).all()) for row in rows]] if len(rows) else rows
