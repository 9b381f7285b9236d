"""Memories that tests share, and what a liar who knows the format makes of their files."""

import json

import numpy as np
from safetensors.numpy import load_file
from safetensors.numpy import save_file as save_tensors

from samc.memory import Budget, EpisodicMemory, parse_codec, select
from samc.memory.container import KEY, compact_json
from samc.memory.file import checksum, container_bytes

SPECS = (
    "raw",
    "jpeg:30",
    "webp:30",
    "thumb:4",
    "coo",
    "bitmask",
    "bitmask+deflate",
    "cam",
    "cam+deflate",
    "gist:thumb:4+cam",
    "gist:webp:5+cam+deflate",
    "focus:2:jpeg:30",
    "jpeg:30@8",
    "webp:30@8",
    "focus:jpeg:30@8",
    "crop:8:jpeg:30",
)


def grid_of(shape):
    """The grid of the saliency maps of these tests: an eighth of the image, as of the reduced ResNet-18."""
    return -(-shape[1] // 8), -(-shape[2] // 8)


def smooth_images(count, shape, seed):
    """Not noise: there is something to compress."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-6, 7, (count, *shape)).cumsum(-1) + rng.integers(40, 200, (count, *shape[:2], 1))
    return np.clip(steps, 0, 255).astype(np.uint8)


def filled(spec, shape=(3, 16, 16), *, tasks=(0, 3), count=4, classes=20, seed=0, grid=None, budget=None, **more):
    """A memory with a few images of two tasks; and those images."""
    grid = grid or grid_of(shape)
    memory = EpisodicMemory(parse_codec(spec, shape, grid), classes, budget or Budget(100_000), **more)
    rng = np.random.default_rng(seed)
    _, height, width = shape
    images = smooth_images(len(tasks) * count, shape, seed)
    for number, task in enumerate(tasks):
        maps = rng.integers(0, 256, (count, *grid), dtype=np.uint8)
        selection, _ = select(maps, 0.5, height, width, memory.max_pixels)
        memory.add(task, images[number * count :][:count], selection, rng.integers(0, memory.num_classes, count))
    return memory, images


def forged(path, tensors=None, **changes):
    """The file with other fields or tensors and a checksum that fits them: a liar who knows the format."""
    raw = path.read_bytes()
    header = json.loads(raw[8 : container_bytes(path)])
    fields = json.loads(header["__metadata__"][KEY]) | changes
    fields.pop("checksum")
    tensors = tensors or load_file(path)
    text = compact_json(fields | {"checksum": checksum(fields, tensors)}, sort_keys=True)
    save_tensors(tensors, path, metadata={KEY: text})
