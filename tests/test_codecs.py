"""Codecs: exact on kept pixels, sizes that are those of the bytes, and damage that is noticed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samc.errors import ConfigError, DataError
from samc.memory import Budget, EpisodicMemory, parse, select, whole
from samc.memory.codec import Raw
from samc.memory.masked import Coordinates, deflated, inflated
from samc.memory.selection import Selection

EXACT = ("coo", "bitmask", "bitmask+deflate", "cam", "cam+deflate", "gist:thumb:4+cam", "gist:webp:5+bitmask+deflate")
LOSSY = {"jpeg:95": 24.0, "webp:95": 24.0, "thumb:84": math.inf}
ALL = ("raw", *EXACT, *LOSSY, "focus:jpeg:40", "jpeg:1", "webp:1")
shapes = st.tuples(st.sampled_from([1, 3]), st.integers(1, 84), st.integers(1, 84))
thresholds = st.sampled_from([0.0, 0.3, 0.7, 0.95])


def random_maps(count, shape, seed):
    grid = -(-shape[1] // 8), -(-shape[2] // 8)
    return np.random.default_rng(seed).integers(0, 256, (count, *grid), dtype=np.uint8)


def made(count, shape, threshold, seed, gist=False):
    """Smooth random images, and a selection made from random maps."""
    rng = np.random.default_rng(seed)
    _, height, width = shape
    slopes = rng.integers(0, 200, (count, shape[0], 1, 1)) + np.linspace(0, 50, width)[None, None, None, :]
    images = (slopes + rng.integers(0, 5, (count, *shape))).astype(np.uint8)
    maps = random_maps(count, shape, seed)
    return images, select(maps, threshold, height, width, height * width, gist=gist)[0]


@pytest.mark.parametrize("spec", ["raw", *EXACT])
@given(shape=shapes, threshold=thresholds, count=st.integers(0, 3), seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_what_is_kept_comes_back_exactly(spec, shape, threshold, count, seed):
    codec = parse(spec, shape)
    images, kept = made(count, shape, threshold, seed, codec.gist)
    blobs = codec.encode(images, kept)
    decoded, masks = codec.decode(blobs)
    expected = np.ones_like(kept.masks) if spec == "raw" else kept.masks
    assert np.array_equal(masks, expected)
    held = np.broadcast_to(expected[:, None], images.shape)
    assert np.array_equal(decoded[held], images[held])
    if not codec.gist:
        assert not decoded[~held].any()
    assert all(sum(codec.parts(blob).values()) == len(blob) for blob in blobs)
    assert codec.blob_bytes in (None, *map(len, blobs)) or not blobs


@pytest.mark.parametrize("spec", LOSSY)
@given(shape=shapes, seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_lossy_pictures_are_near(spec, shape, seed):
    codec = parse(spec, shape)
    images, kept = made(2, shape, 0.5, seed)
    decoded, masks = codec.decode(codec.encode(images, kept))
    assert masks.all()
    error = np.mean((decoded.astype(float) - images) ** 2)
    if spec == "thumb:84" and shape[1] == shape[2]:
        assert error == 0  # as many pixels as the picture has
    elif spec != "thumb:84":
        assert 10 * np.log10(255**2 / max(error, 1e-9)) > LOSSY[spec]


@pytest.mark.parametrize("spec", ALL)
@given(shape=st.tuples(st.sampled_from([1, 3]), st.integers(1, 30), st.integers(1, 30)), seed=st.integers(0, 2**31))
@settings(max_examples=15, deadline=None)
def test_budgets_hold_at_every_moment_in_both_modes(spec, shape, seed):
    codec = parse(spec, shape)
    whole_bytes = math.prod(shape) + 200
    for budget in (Budget(3 * whole_bytes), Budget(6 * whole_bytes, per_task=False)):
        memory = EpisodicMemory(codec, 10, budget)
        for step in range(6):
            images, _ = made(2, shape, 0.5, seed + step)
            memory.shelf(step % 3)
            kept, _ = select(random_maps(2, shape, seed + step), 0.3, *shape[1:], memory.most_pixels, gist=codec.gist)
            memory.add(step % 3, images, kept, np.array([1, 2]))
            assert all(shelf.cost <= memory.budget_bytes for shelf in memory.shelves.values())
            assert memory.nbytes == sum(shelf.cost for shelf in memory.shelves.values())
            assert memory.nbytes <= (budget.total if not budget.per_task else budget.total * len(memory.shelves))
            assert sum(memory.nbytes_by_part.values()) == memory.nbytes


def test_coordinates_by_hand():
    image = np.arange(12, dtype=np.uint8).reshape(1, 3, 2, 2)
    masks = np.array([[[False, True], [True, False]]])
    kept = Selection(np.zeros((1, 1, 1), np.uint8), np.zeros(1, np.uint16), masks)
    # two pixels: rows 0 1, columns 1 0, then red 1 2, green 5 6, blue 9 10
    assert Coordinates((3, 2, 2)).encode(image, kept) == [bytes([0, 1, 1, 0, 1, 2, 5, 6, 9, 10])]


@pytest.mark.parametrize(
    ("shape", "pixel"), [((3, 32, 32), 5), ((3, 84, 84), 5), ((1, 16, 15), 3), ((3, 300, 40), 6), ((3, 300, 300), 7)]
)
def test_positions_take_the_smallest_type(shape, pixel):
    codec = Coordinates(shape)
    images, kept = made(1, shape, 0.9, 0)
    assert len(codec.encode(images, kept)[0]) == pixel * kept.masks.sum()
    assert codec.most_pixels(7 * pixel + 1) == 7


def test_a_cam_takes_a_byte_a_cell_and_two_for_the_cut():
    images, kept = made(1, (3, 32, 32), 0.7, 0)
    count = int(kept.masks.sum())
    assert len(parse("cam", (3, 32, 32)).encode(images, kept)[0]) == 16 + 2 + 3 * count
    assert len(parse("bitmask", (3, 32, 32)).encode(images, kept)[0]) == 128 + 3 * count


@given(st.integers(1, 3).filter(lambda c: c != 2), st.integers(0, 60), st.integers(0, 2**31), st.booleans())
def test_deflating_is_lossless_and_never_costs_more_than_a_byte(channels, count, seed, smooth):
    rng = np.random.default_rng(seed)
    colours = rng.integers(0, 3 if smooth else 256, (channels, count), dtype=np.uint8)
    blob = deflated(colours)
    assert len(blob) <= colours.size + 1
    assert np.array_equal(inflated(blob, channels, count), colours)


def test_pictures_have_lost_the_headers_that_are_the_same_for_all():
    images, kept = made(3, (3, 32, 32), 0.5, 1)
    for spec in ("jpeg:20", "webp:20"):
        for blob in parse(spec, (3, 32, 32)).encode(images, kept):
            assert b"RIFF" not in blob
            assert b"JFIF" not in blob
            assert len(blob) < 250


def test_a_focused_picture_spends_its_bytes_where_it_mattered():
    rng = np.random.default_rng(0)
    images = np.repeat(rng.integers(0, 256, (1, 1, 32, 32), dtype=np.uint8), 3, axis=1)
    masks = np.zeros((1, 32, 32), bool)
    masks[:, 8:24, 8:24] = True
    kept = Selection(np.zeros((1, 4, 4), np.uint8), np.zeros(1, np.uint16), masks)
    focused, plain = parse("focus:jpeg:60", (3, 32, 32)), parse("jpeg:60", (3, 32, 32))
    (blob,), (other,) = focused.encode(images, kept), plain.encode(images, kept)
    assert len(blob) < 0.6 * len(other)
    error = (focused.decode([blob])[0].astype(float) - images) ** 2
    inside = np.broadcast_to(masks[:, None], images.shape)
    assert error[inside].mean() < 0.5 * error[~inside].mean()


@pytest.mark.parametrize("spec", ALL)
@given(blob=st.binary(max_size=80))
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_are_refused_or_decode(spec, blob):
    codec = parse(spec, (3, 8, 9))
    try:
        images, masks = codec.decode([blob])
    except DataError:
        return
    assert images.shape == (1, 3, 8, 9)
    assert masks.shape == (1, 8, 9)


@pytest.mark.parametrize("spec", ALL)
def test_a_codec_is_made_again_from_its_name(spec):
    codec = parse(spec, (3, 84, 84))
    again = parse(codec.spec, (3, 84, 84))
    images, kept = made(2, (3, 84, 84), 0.7, 3, codec.gist)
    assert again.encode(images, kept) == codec.encode(images, kept)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rw", "unknown codec 'rw': did you mean 'raw'"),
        ("cam+zip", "unknown codec 'cam\\+zip'"),
        ("gist:webp+cam", "codec webp wants a number after it, such as webp:20; got 'webp'"),
        ("webp:0", "the quality of webp is from 1 to 100, got 0"),
    ],
)
def test_names_that_mean_nothing(spec, message):
    with pytest.raises(ConfigError, match=message):
        parse(spec, (3, 8, 8))


def test_raw_takes_whole_images_only():
    images, _ = made(2, (3, 6, 6), 0.5, 0)
    assert Raw((3, 6, 6)).encode(images, whole(2, 6, 6)) == [image.tobytes() for image in images]
