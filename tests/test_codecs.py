"""Codecs: exact on kept pixels, sizes that are those of the bytes, and damage that is noticed."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_makers import grid_of
from samc.errors import ConfigError, DataError
from samc.memory import Budget, EpisodicMemory, full_selection, parse_codec, select
from samc.memory.codec import Raw
from samc.memory.masked import Coordinates, deflated, inflated
from samc.memory.selection import Selection

EXACT = ("coo", "bitmask", "bitmask+deflate", "cam", "cam+deflate", "gist:thumb:4+cam", "gist:webp:5+bitmask+deflate")
LOSSY = {"jpeg:95": 24.0, "webp:95": 24.0, "thumb:84": math.inf}
ALL = ("raw", *EXACT, *LOSSY, "focus:jpeg:40", "jpeg:1", "webp:1")
shapes = st.tuples(st.sampled_from([1, 3]), st.integers(1, 84), st.integers(1, 84))
thresholds = st.sampled_from([0.0, 0.3, 0.7, 0.95])


def codec_of(spec, shape):
    return parse_codec(spec, shape, grid_of(shape))


def random_maps(count, grid, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, *grid), dtype=np.uint8)


def made(count, shape, threshold, seed, gist=False, grid=None):
    """Smooth random images, and a selection made from random maps."""
    rng = np.random.default_rng(seed)
    _, height, width = shape
    gradients = rng.integers(0, 200, (count, shape[0], 1, 1)) + np.linspace(0, 50, width)[None, None, None, :]
    images = (gradients + rng.integers(0, 5, (count, *shape))).astype(np.uint8)
    maps = random_maps(count, grid or grid_of(shape), seed)
    return images, select(maps, threshold, height, width, height * width, gist=gist)[0]


@pytest.mark.parametrize("spec", ["raw", *EXACT])
@given(shape=shapes, threshold=thresholds, count=st.integers(0, 3), seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_what_is_kept_comes_back_exactly(spec, shape, threshold, count, seed):
    codec = codec_of(spec, shape)
    images, selection = made(count, shape, threshold, seed, codec.gist)
    blobs = codec.encode(images, selection)
    decoded, masks = codec.decode(blobs)
    expected = np.ones_like(selection.masks) if spec == "raw" else selection.masks
    assert np.array_equal(masks, expected)
    held = np.broadcast_to(expected[:, None], images.shape)
    assert np.array_equal(decoded[held], images[held])
    if not codec.gist:
        assert not decoded[~held].any()
    assert all(sum(codec.nbytes_by_part(blob).values()) == len(blob) for blob in blobs)
    assert codec.blob_bytes in (None, *map(len, blobs)) or not blobs


@pytest.mark.parametrize("spec", LOSSY)
@given(shape=shapes, seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_lossy_pictures_are_near(spec, shape, seed):
    codec = codec_of(spec, shape)
    images, selection = made(2, shape, 0.5, seed)
    decoded, masks = codec.decode(codec.encode(images, selection))
    assert masks.all()
    error = np.mean((decoded.astype(float) - images) ** 2)
    if spec == "thumb:84" and shape[1] == shape[2]:
        assert error == 0  # as many pixels as the picture has
    elif spec != "thumb:84":
        assert 10 * np.log10(255**2 / max(error, 1e-9)) > LOSSY[spec]


@pytest.mark.slow
@pytest.mark.parametrize("spec", ALL)
@given(shape=st.tuples(st.sampled_from([1, 3]), st.integers(1, 30), st.integers(1, 30)), seed=st.integers(0, 2**31))
@settings(max_examples=15, deadline=None)
def test_budgets_hold_at_every_moment_in_both_modes(spec, shape, seed):
    codec = codec_of(spec, shape)
    whole_bytes = math.prod(shape) + 200
    for budget in (Budget(3 * whole_bytes), Budget(6 * whole_bytes, per_task=False)):
        memory = EpisodicMemory(codec, 10, budget)
        for step in range(6):
            images, _ = made(2, shape, 0.5, seed + step)
            memory.task(step % 3)
            maps = random_maps(2, grid_of(shape), seed + step)
            selection, _ = select(maps, 0.3, *shape[1:], memory.max_pixels, gist=codec.gist)
            memory.add(step % 3, images, selection, np.array([1, 2]))
            assert all(held.cost <= memory.budget_bytes for held in memory.by_task.values())
            assert memory.nbytes == sum(held.cost for held in memory.by_task.values())
            assert memory.nbytes <= (budget.total if not budget.per_task else budget.total * len(memory.by_task))
            assert sum(memory.nbytes_by_part.values()) == memory.nbytes


def test_coordinates_by_hand():
    image = np.arange(12, dtype=np.uint8).reshape(1, 3, 2, 2)
    masks = np.array([[[False, True], [True, False]]])
    selection = Selection(np.zeros((1, 1, 1), np.uint8), np.zeros(1, np.uint16), masks)
    # two pixels: rows 0 1, columns 1 0, then red 1 2, green 5 6, blue 9 10
    assert Coordinates((3, 2, 2)).encode(image, selection) == [bytes([0, 1, 1, 0, 1, 2, 5, 6, 9, 10])]


@pytest.mark.parametrize(
    ("shape", "pixel"), [((3, 32, 32), 5), ((3, 84, 84), 5), ((1, 16, 15), 3), ((3, 300, 40), 6), ((3, 300, 300), 7)]
)
def test_positions_take_the_smallest_type(shape, pixel):
    codec = Coordinates(shape)
    images, selection = made(1, shape, 0.9, 0)
    assert len(codec.encode(images, selection)[0]) == pixel * selection.masks.sum()
    assert codec.max_pixels(7 * pixel + 1) == 7


def test_cam_takes_one_byte_per_cell_and_two_for_the_cutoff():
    images, selection = made(1, (3, 32, 32), 0.7, 0)
    count = int(selection.masks.sum())
    assert len(parse_codec("cam:4x4", (3, 32, 32)).encode(images, selection)[0]) == 16 + 2 + 3 * count
    assert len(parse_codec("bitmask", (3, 32, 32)).encode(images, selection)[0]) == 128 + 3 * count


@given(shape=shapes, grid=st.tuples(st.integers(1, 84), st.integers(1, 84)), seed=st.integers(0, 2**31))
@example(shape=(1, 28, 28), grid=(7, 7), seed=0)  # a ViT with patches of 4 pixels
@example(shape=(3, 84, 84), grid=(84, 84), seed=0)  # the gradient at the pixels
@example(shape=(3, 84, 84), grid=(84, 70), seed=0)
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("spec", ["cam", "cam+deflate", "gist:thumb:1+cam"])
def test_maps_of_any_grid_are_stored(spec, shape, grid, seed):
    grid = min(grid[0], shape[1]), min(grid[1], shape[2])
    codec = parse_codec(spec, shape, grid)
    assert codec.spec == spec.replace("cam", f"cam:{grid[0]}x{grid[1]}")
    images, selection = made(2, shape, 0.5, seed, codec.gist, grid)
    decoded, masks = parse_codec(codec.spec, shape).decode(codec.encode(images, selection))
    assert np.array_equal(masks, selection.masks)
    assert np.array_equal(decoded * masks[:, None], images * masks[:, None])
    assert codec.max_pixels(10**6) == shape[1] * shape[2]


def test_the_grid_is_said_once_and_the_same():
    shape = (3, 32, 24)
    assert parse_codec("cam", shape, (4, 3)).spec == "cam:4x3"
    assert parse_codec("cam+deflate", shape, (4, 3)).spec == "cam:4x3+deflate"
    assert parse_codec("gist:jpeg:5+cam", shape, (4, 3)).spec == "gist:jpeg:5+cam:4x3"
    assert parse_codec("cam:4x3+deflate", shape).grid == parse_codec("cam:4x3", shape, (4, 3)).grid == (4, 3)
    for spec in ("raw", "coo", "bitmask+deflate", "jpeg:20", "focus:jpeg:20", "gist:jpeg:5+bitmask"):
        assert parse_codec(spec, shape, (4, 3)).spec == spec
    images, selection = made(1, shape, 0.5, 0, grid=(2, 3))
    with pytest.raises(ConfigError, match=r"cam:4x3 stores maps of \(4, 3\) cells, got \(2, 3\); name the grid"):
        parse_codec("cam", shape, (4, 3)).encode(images, selection)


@pytest.mark.parametrize(
    ("spec", "grid", "message"),
    [
        ("cam", None, "cam needs its map's grid, such as cam:4x4"),
        ("gist:jpeg:5+cam+deflate", None, "cam needs its map's grid, such as cam:4x4"),
        ("cam:4x4", (7, 7), "codec 'cam:4x4' differs from the saliency maps, which are 7x7; write cam alone"),
        ("cam:", (4, 4), "the grid of cam is rows and columns, such as cam:4x4; got 'cam:'"),
        ("cam:4", None, "the grid of cam is rows and columns, such as cam:4x4; got 'cam:4'"),
        ("cam:-4x4", None, "the grid of cam is rows and columns"),
        ("cam:4x4x4", None, "the grid of cam is rows and columns"),
        (f"cam:{'9' * 5000}x4", None, "the grid of cam is rows and columns"),
        ("cam:0x4", None, "the grid of cam is from 1x1 up to the image's 8x9, got 0x4"),
        ("cam:9x9", None, "the grid of cam is from 1x1 up to the image's 8x9, got 9x9; other maps need bitmask"),
        ("cam:8x10", None, "from 1x1 up to the image's 8x9"),
        ("cam", (999_999_999, 999_999_999), "from 1x1 up to the image's 8x9"),
        ("coo:4x4", None, "unknown codec 'coo:4x4'"),
        ("bitmask:4x4+deflate", (4, 4), "unknown codec 'bitmask:4x4\\+deflate'"),
    ],
)
def test_grids_that_cannot_be_are_refused_with_the_remedy(spec, grid, message):
    with pytest.raises(ConfigError, match=message):
        parse_codec(spec, (3, 8, 9), grid)


@given(st.integers(1, 3).filter(lambda c: c != 2), st.integers(0, 60), st.integers(0, 2**31), st.booleans())
def test_deflating_is_lossless_and_never_costs_more_than_a_byte(channels, count, seed, smooth):
    rng = np.random.default_rng(seed)
    colours = rng.integers(0, 3 if smooth else 256, (channels, count), dtype=np.uint8)
    blob = deflated(colours)
    assert len(blob) <= colours.size + 1
    assert np.array_equal(inflated(blob, channels, count), colours)


def test_pictures_have_lost_the_headers_that_are_the_same_for_all():
    images, selection = made(3, (3, 32, 32), 0.5, 1)
    for spec in ("jpeg:20", "webp:20"):
        for blob in parse_codec(spec, (3, 32, 32)).encode(images, selection):
            assert b"RIFF" not in blob
            assert b"JFIF" not in blob
            assert len(blob) < 250


def test_a_focused_picture_spends_its_bytes_on_the_salient_region():
    rng = np.random.default_rng(0)
    images = np.repeat(rng.integers(0, 256, (1, 1, 32, 32), dtype=np.uint8), 3, axis=1)
    masks = np.zeros((1, 32, 32), bool)
    masks[:, 8:24, 8:24] = True
    selection = Selection(np.zeros((1, 4, 4), np.uint8), np.zeros(1, np.uint16), masks)
    focused, plain = parse_codec("focus:jpeg:60", (3, 32, 32)), parse_codec("jpeg:60", (3, 32, 32))
    (blob,), (other,) = focused.encode(images, selection), plain.encode(images, selection)
    assert len(blob) < 0.6 * len(other)
    error = (focused.decode([blob])[0].astype(float) - images) ** 2
    inside = np.broadcast_to(masks[:, None], images.shape)
    assert error[inside].mean() < 0.5 * error[~inside].mean()


@pytest.mark.parametrize("spec", ALL)
@given(blob=st.binary(max_size=80))
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_are_refused_or_decode(spec, blob):
    codec = codec_of(spec, (3, 8, 9))
    try:
        images, masks = codec.decode([blob])
    except DataError:
        return
    assert images.shape == (1, 3, 8, 9)
    assert masks.shape == (1, 8, 9)


@pytest.mark.parametrize("spec", ALL)
def test_a_codec_is_made_again_from_its_name(spec):
    codec = codec_of(spec, (3, 84, 84))
    again = parse_codec(codec.spec, (3, 84, 84))
    assert repr(codec) == repr(again) == f"parse_codec('{codec.spec}', (3, 84, 84))"
    images, selection = made(2, (3, 84, 84), 0.7, 3, codec.gist)
    assert again.encode(images, selection) == codec.encode(images, selection)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rw", "unknown codec 'rw': did you mean 'raw'"),
        ("cam+zip", "unknown codec 'cam\\+zip'"),
        ("gist:webp+cam", "codec webp wants a number after it, such as webp:20; got 'webp'"),
        ("webp:0", "the quality of webp is from 1 to 100, got 0"),
        ("jpeg:" + "9" * 5000, "codec jpeg wants a number after it"),
    ],
)
def test_names_that_mean_nothing(spec, message):
    with pytest.raises(ConfigError, match=message):
        parse_codec(spec, (3, 8, 8))


def test_raw_takes_whole_images_only():
    images, _ = made(2, (3, 6, 6), 0.5, 0)
    assert Raw((3, 6, 6)).encode(images, full_selection(2, 6, 6)) == [image.tobytes() for image in images]
