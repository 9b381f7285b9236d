"""Codecs: exact on kept pixels, sizes that are those of the bytes, and damage that is noticed."""

import math

import numpy as np
import pytest
import torch
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
SCALED = ("jpeg:20@16", "webp:20@16", "focus:jpeg:10@16", "crop:24:jpeg:20", "crop:5:webp:20", "jpeg:90@999999999")
ALL = ("raw", *EXACT, *LOSSY, "focus:jpeg:40", "focus:2:jpeg:20", "focus:9999:webp:5", "jpeg:1", "webp:1", *SCALED)
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
    for spec in ("raw", "coo", "bitmask+deflate", "jpeg:20", "focus:jpeg:20", "gist:jpeg:5+bitmask", *SCALED):
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


def as_selection(masks):
    """A selection of these very masks; the codecs of whole pictures look at nothing else."""
    return Selection(np.zeros((len(masks), 1, 1), np.uint8), np.zeros(len(masks), np.uint16), masks)


@pytest.mark.parametrize(
    ("spec", "shape", "size"),
    [
        ("jpeg:20@16", (3, 32, 32), (16, 16)),
        ("webp:20@16", (1, 32, 32), (16, 16)),
        ("jpeg:20@16", (3, 40, 20), (16, 8)),
        ("jpeg:20@16", (1, 3, 84), (1, 16)),
        ("jpeg:20@16", (3, 8, 9), (8, 9)),
        ("jpeg:20@32", (3, 32, 32), (32, 32)),
        ("jpeg:20@1", (3, 32, 32), (1, 1)),
        ("crop:24:jpeg:20", (3, 32, 32), (24, 24)),
        ("crop:24:webp:20", (1, 20, 30), (16, 24)),
        ("crop:24:jpeg:20", (3, 8, 9), (8, 9)),
        ("focus:jpeg:20@16", (3, 84, 84), (16, 16)),
    ],
)
def test_a_picture_has_so_many_pixels_along_its_longer_side(spec, shape, size):
    codec = parse_codec(spec, shape)
    scaled = codec.picture if spec.startswith("focus") else codec
    assert scaled.picture.image_shape == (shape[0], *size)
    images, selection = made(3, shape, 0.5, 0, codec.gist)
    blobs = codec.encode(images, selection)
    decoded, masks = codec.decode(blobs)
    assert (decoded.shape, decoded.dtype) == (images.shape, np.uint8)
    assert masks.shape == (3, *shape[1:])
    assert masks.all()
    assert [sum(codec.nbytes_by_part(blob).values()) for blob in blobs] == [len(blob) for blob in blobs]
    assert codec.max_pixels(1) == shape[1] * shape[2]


@pytest.mark.parametrize("name", ["jpeg", "webp"])
@given(shape=shapes, seed=st.integers(0, 2**31))
@settings(max_examples=15, deadline=None)
def test_a_side_no_smaller_than_the_image_is_the_plain_picture(name, shape, seed):
    images, selection = made(2, shape, 0.5, seed)
    plain = parse_codec(f"{name}:60", shape)
    expected = plain.encode(images, selection)
    for spec in (f"{name}:60@{max(shape[1:])}", f"crop:{max(shape[1:])}:{name}:60", f"crop:84:{name}:60"):
        codec = parse_codec(spec, shape)
        assert codec.encode(images, selection) == expected
        assert np.array_equal(codec.decode(expected)[0], plain.decode(expected)[0])


def test_a_smaller_picture_is_the_mean_of_areas_enlarged():
    images = np.zeros((1, 1, 8, 8), np.uint8)
    images[0, 0, :4, :4], images[0, 0, 4:, 4:] = 200, 100
    images[0, 0, 4::2, 4::2] = 20  # one pixel of every four
    codec = parse_codec("jpeg:100@4", (1, 8, 8))
    (blob,) = codec.encode(images, full_selection(1, 8, 8))
    small = codec.picture.decode([blob])[0][0, 0].astype(int)
    assert np.abs(small - np.kron([[200, 0], [0, 80]], np.ones((2, 2), int))).max() <= 2
    large = torch.nn.functional.interpolate(torch.from_numpy(small[None, None]).double(), (8, 8), mode="bicubic")
    assert np.abs(codec.decode([blob])[0] - large.clamp(0, 255).numpy()).max() <= 1


@pytest.mark.parametrize(
    ("rows", "columns", "top", "left"),
    [((0, 4), (0, 4), 0, 0), ((12, 16), (12, 16), 8, 8), ((5, 8), (10, 11), 2, 6), ((2, 3), (0, 16), 0, 4)],
)
def test_a_crop_is_where_the_mask_is(rows, columns, top, left):
    """The window's middle is at the mask's mean as far as the image reaches; the rest of the image leaves no trace."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (1, 3, 16, 16), dtype=np.uint8)
    masks = np.zeros((1, 16, 16), bool)
    masks[0, slice(*rows), slice(*columns)] = True
    codec = parse_codec("crop:8:jpeg:90", (3, 16, 16))
    blobs = codec.encode(images, as_selection(masks))
    window = images[:, :, top : top + 8, left : left + 8]
    assert blobs == codec.picture.encode(window, as_selection(masks[:, :8, :8]))
    inside = np.zeros((16, 16), bool)
    inside[top : top + 8, left : left + 8] = True
    other = np.where(inside, images, 255 - images)
    assert codec.encode(other, as_selection(masks)) == blobs


@given(shape=shapes, side=st.integers(1, 90), seed=st.integers(0, 2**31), row=st.floats(0, 1), column=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_a_crop_shows_the_salient_pixel_and_stays_in_the_image(shape, side, seed, row, column):
    images, _ = made(1, shape, 0.5, seed)
    mask = np.zeros(shape[1:], bool)
    place = int(row * (shape[1] - 1)), int(column * (shape[2] - 1))
    mask[place] = True
    marked = images[0].copy()
    marked[:, *place] = 255
    codec = parse_codec(f"crop:{side}:jpeg:50", shape)
    window = codec.cut(marked, mask)
    assert window.shape == codec.picture.image_shape
    assert (window == 255).all(0).sum() == 1


def test_where_nothing_is_salient_the_crop_is_in_the_middle():
    images, _ = made(1, (3, 16, 16), 0.5, 0)
    codec = parse_codec("crop:8:jpeg:90", (3, 16, 16))
    assert np.array_equal(codec.cut(images[0], np.zeros((16, 16), bool)), images[0, :, 4:12, 4:12])


@pytest.mark.parametrize("block", [1, 2, 4, 8, 99])
def test_focus_smooths_blocks_outside_the_mask_only(block, monkeypatch):
    """Outside there is left what a picture of one pixel per block says; inside nothing changes."""
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 16, 24), dtype=np.uint8)
    masks = np.zeros((2, 16, 24), bool)
    masks[:, 4:9, 3:20] = True
    codec = parse_codec(f"focus:{block}:jpeg:60", (3, 16, 24))
    assert codec.spec == ("focus:jpeg:60" if block == 4 else f"focus:{block}:jpeg:60")
    packed = []
    monkeypatch.setattr(codec.picture, "encode", lambda focused, _: packed.append(focused) or [b"", b""])
    before = images.copy()
    codec.encode(images, as_selection(masks))
    assert np.array_equal(images, before)  # who hands images over has them as they were
    (focused,) = packed
    inside = np.broadcast_to(masks[:, None], images.shape)
    assert np.array_equal(focused[inside], images[inside])
    if block == 1:
        assert np.array_equal(focused, images)
        return
    coarse = max(1, 16 // block), max(1, 24 // block)
    small = torch.nn.functional.adaptive_avg_pool2d(torch.from_numpy(images).double(), coarse)
    expected = torch.nn.functional.interpolate(small, (16, 24), mode="bilinear").numpy()
    assert np.abs(focused - expected)[~inside].max() <= 2  # rounded twice


def test_larger_blocks_are_smoother_and_take_fewer_bytes():
    images = np.random.default_rng(0).integers(0, 256, (1, 3, 32, 32), dtype=np.uint8)
    nothing = as_selection(np.zeros((1, 32, 32), bool))
    lengths = [len(parse_codec(f"focus:{n}:jpeg:60", (3, 32, 32)).encode(images, nothing)[0]) for n in (1, 2, 4, 8)]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) == 4


@pytest.mark.parametrize("spec", ["focus:2:jpeg:20", *SCALED])
def test_images_may_lie_in_memory_in_any_order(spec):
    images, selection = made(2, (3, 32, 24), 0.5, 0)
    turned = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    codec = parse_codec(spec, (3, 32, 24))
    assert codec.encode(turned, selection) == codec.encode(images, selection)


@pytest.mark.parametrize("spec", SCALED)
def test_no_image_is_no_picture(spec):
    codec = parse_codec(spec, (3, 8, 9))
    images, selection = made(0, (3, 8, 9), 0.5, 0)
    assert codec.encode(images, selection) == []
    decoded, masks = codec.decode([])
    assert (decoded.shape, masks.shape) == ((0, 3, 8, 9), (0, 8, 9))


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
        ("jpeg:20@", "codec 'jpeg:20@' wants the pixels of a side, such as jpeg:20@16 or crop:24:jpeg:20"),
        ("jpeg:20@0", "codec 'jpeg:20@0' wants the pixels of a side, such as jpeg:20@16"),
        ("jpeg:20@-1", "codec 'jpeg:20@-1' wants the pixels of a side"),
        ("jpeg:20@16@16", "codec 'jpeg:20@16@16' wants the pixels of a side"),
        ("jpeg:20@" + "9" * 5000, "wants the pixels of a side"),
        ("jpeg@16", "codec jpeg wants a number after it, such as jpeg:20; got 'jpeg'"),
        ("cam@16", "unknown codec 'cam'"),
        ("gist:jpeg:5@16+cam", "codec jpeg wants a number after it, such as jpeg:20; got 'jpeg:5@16'"),
        ("crop:jpeg:20", "codec 'crop:jpeg:20' wants the pixels of a side, such as jpeg:20@16 or crop:24:jpeg:20"),
        ("crop:0:jpeg:5", "codec 'crop:0:jpeg:5' wants the pixels of a side"),
        ("crop:24:", "unknown codec ''"),
        ("crop:24:coo", "unknown codec 'coo'"),
        ("crop:24:jpeg:5@16", "codec 'crop:24:jpeg:5@16' wants the pixels of a side"),
        ("focus:0:jpeg:5", "codec 'focus:0:jpeg:5' wants blocks of 1 to 9999 pixels a side, such as focus:2:jpeg:20"),
        ("focus:10000:jpeg:5", "codec 'focus:10000:jpeg:5' wants blocks of 1 to 9999 pixels a side"),
        ("focus:2:", "unknown codec ''"),
        ("focus:\n", "unknown codec"),
        ("focus:jpeg:10@", "codec 'jpeg:10@' wants the pixels of a side"),
        ("focus:crop:24:jpeg:5", "unknown codec 'crop:24:jpeg:5'"),
    ],
)
def test_names_that_mean_nothing(spec, message):
    with pytest.raises(ConfigError, match=message):
        parse_codec(spec, (3, 8, 8))


def test_raw_takes_whole_images_only():
    images, _ = made(2, (3, 6, 6), 0.5, 0)
    assert Raw((3, 6, 6)).encode(images, full_selection(2, 6, 6)) == [image.tobytes() for image in images]
