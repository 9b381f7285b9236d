"""What a notebook shows of a memory: its pictures, pixel by pixel, and nothing that could run."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from memory_makers import SPECS, filled, smooth_images
from samc.memory import Budget, EpisodicMemory, full_selection, parse_codec
from samc.memory.notebook import DROPPED, GAP, MAX_IMAGES, MAX_SIDE, MAX_TASKS

PICTURE = re.compile(r'<img src="data:image/png;base64,([A-Za-z0-9+/=]+)" alt="([^"]*)"')


def shown_pictures(memory):
    """Per row of the page the picture in it, (height, width, channels)."""
    pictures = [Image.open(io.BytesIO(base64.b64decode(found[1]))) for found in PICTURE.finditer(memory._repr_html_())]
    assert all(picture.format == "PNG" for picture in pictures)
    return [np.array(picture).reshape(picture.height, picture.width, -1) for picture in pictures]


def tiles(picture, width):
    """The images of a row, channels first; between them there is white."""
    starts = range(0, picture.shape[1], width + GAP)
    for start in starts:
        assert (picture[:, start + width : start + width + GAP] == 255).all()
    return [picture[:, start : start + width].transpose(2, 0, 1) for start in starts]


def raw_memory(shape, count, tasks=1, classes=20):
    memory = EpisodicMemory(parse_codec("raw", shape), classes, Budget(10**9))
    images = smooth_images(count * tasks, shape, 0)
    for task in range(tasks):
        selection = full_selection(count, *shape[1:])
        memory.add(task, images[task * count :][:count], selection, np.arange(count) % classes)
    return memory, images


@pytest.mark.parametrize("shape", [(3, 8, 6), (1, 5, 9)])
def test_the_pixels_of_every_task_are_shown(shape):
    memory, images = raw_memory(shape, 3, tasks=2)
    rows = shown_pictures(memory)
    assert len(rows) == 2
    for task, row in enumerate(rows):
        assert row.shape == (shape[1], 3 * shape[2] + 2 * GAP, shape[0])
        for tile, image in zip(tiles(row, shape[2]), images[3 * task :], strict=False):
            assert np.array_equal(tile, image)
    page = memory._repr_html_()
    assert "EpisodicMemory(2 tasks, 6 images, " in page
    nbytes = 3 * (int(np.prod(shape)) + 1)
    numbers = re.findall(r'<td style="text-align:right">([^<]*)</td>', page)
    assert numbers == ["1", "3", f"{nbytes:,}", "2", "3", f"{nbytes:,}"]
    assert [found[2] for found in PICTURE.finditer(page)] == 2 * ["classes 0, 1, 2"]


@pytest.mark.parametrize("spec", SPECS)
def test_dropped_pixels_are_grey_unless_there_is_a_gist(spec):
    memory, _ = filled(spec)
    for task, row in zip(memory.tasks, shown_pictures(memory), strict=True):
        images, masks, _ = memory.recall(task)
        if not memory.codec.gist:
            images = np.where(masks[:, None], images, DROPPED)
        assert np.array_equal(np.stack(tiles(row, 16)), images)


def test_the_page_stays_small():
    memory, images = raw_memory((3, 4, 4), 25, tasks=MAX_TASKS + 3)
    rows = shown_pictures(memory)
    assert len(rows) == MAX_TASKS
    assert "<p>and 3 more tasks</p>" in memory._repr_html_()
    some = tiles(rows[0], 4)
    assert len(some) == MAX_IMAGES
    # from the oldest to the newest
    assert np.array_equal(some[0], images[0])
    assert np.array_equal(some[-1], images[24])
    large, _ = raw_memory((3, 1000, 300), 2)
    (row,) = shown_pictures(large)
    assert row.shape == (125, 2 * 38 + GAP, 3)
    assert max(row.shape[:2]) <= MAX_SIDE
    assert abs(row[:, :38].mean() - large.recall(0)[0][0].mean()) < 3


def test_odd_memories_can_be_shown():
    empty = EpisodicMemory(parse_codec("cam:4x4", (3, 32, 32)), None, Budget(5000))
    assert "EpisodicMemory(0 tasks, 0 images, 0 of 5,000 bytes, cam:4x4)" in empty._repr_html_()
    empty.task(0)
    assert "<img" not in empty._repr_html_()
    for shape in ((2, 4, 4), (4, 4, 4)):  # neither grey nor red, green and blue
        memory, images = raw_memory(shape, 1)
        (row,) = shown_pictures(memory)
        assert np.array_equal(row[:, :, 0], images[0].mean(0).astype(np.uint8))
    thin, _ = raw_memory((1, 1, 1000), 1)
    assert shown_pictures(thin)[0].shape == (1, 125, 1)


def test_what_the_page_says_is_escaped():
    memory, _ = raw_memory((1, 4, 4), 1)
    memory.codec.spec = "<script>alert('&')</script>"
    page = memory._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in page
