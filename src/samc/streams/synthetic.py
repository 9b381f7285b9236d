"""The embedded stream: twenty classes of painted objects on a cluttered background, made from a seed, without files.

An object's class is its shape, texture and colour together; its place, size, angle and light are random, and smaller
objects of any kind lie about. Within a task two shapes, two textures and two colours are mixed so that no single
property tells the classes apart, and any two do.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8

from samc.config import RunConfig, check_setting
from samc.errors import ConfigError
from samc.streams.base import Dataset, Stream, split

SIDE = 32
TASKS, CLASSES_PER_TASK = 5, 4
# sizes in half-widths of the picture, the background's colours in [0, 1]
OBJECT_RADII = (0.40, 0.60)
DISTRACTOR_RADII = (0.12, 0.22)
DISTRACTORS = 3
BACKGROUND = (0.15, 0.75)
Field = Callable[[np.ndarray, np.ndarray], np.ndarray]
COLOURS = {
    "red": (0.90, 0.22, 0.20),
    "green": (0.25, 0.75, 0.30),
    "blue": (0.22, 0.38, 0.92),
    "yellow": (0.95, 0.80, 0.20),
    "violet": (0.68, 0.30, 0.82),
}


def attributes() -> Int[np.ndarray, "20 3"]:
    """Each class's shape, texture and colour: the third is the exclusive or of the first two, within each task."""
    rows = []
    for task in range(TASKS):
        for shape, texture in ((0, 0), (0, 1), (1, 0), (1, 1)):
            colour = shape ^ texture
            rows.append(((task + shape) % 5, (task + texture) % 4, (2 * task + colour) % 5))
    return np.array(rows)


def class_names() -> tuple[str, ...]:
    colours = tuple(COLOURS)
    shapes, textures = tuple(DISTANCES), tuple(PATTERNS)
    return tuple(f"{textures[texture]} {colours[colour]} {shapes[shape]}" for shape, texture, colour in attributes())


# how far a point lies outside a shape, in units of its radius; negative inside
DISTANCES: dict[str, Field] = {
    "disc": lambda p, q: np.hypot(p, q) - 0.95,
    "square": lambda p, q: np.maximum(np.abs(p), np.abs(q)) - 0.82,
    "triangle": lambda p, q: np.maximum(-q - 0.6, 0.866 * np.abs(p) + 0.5 * q - 0.55),
    "cross": lambda p, q: np.minimum(
        np.maximum(np.abs(p) - 1, np.abs(q) - 0.34), np.maximum(np.abs(q) - 1, np.abs(p) - 0.34)
    ),
    "ring": lambda p, q: np.abs(np.hypot(p, q) - 0.74) - 0.26,
}
# how dark a texture is at a point, 0 or 1
PATTERNS: dict[str, Field] = {
    "plain": lambda p, q: np.zeros_like(p),
    "striped": lambda p, q: np.sin(7.5 * p) > 0.1,
    "checked": lambda p, q: (np.sin(6 * p) > 0) ^ (np.sin(6 * q) > 0),
    "dotted": lambda p, q: (np.cos(8.5 * p) + np.cos(8.5 * q)) > 0.75,
}


def evaluate_fields(fields: dict[str, Field], kind: Int[np.ndarray, "n"], p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Each picture's own field at each of its points."""
    result = np.empty_like(p)
    for number, function in enumerate(fields.values()):
        rows = kind == number
        result[rows] = function(p[rows], q[rows])
    return result


def paint_objects(
    canvas: Float[np.ndarray, "n h w 3"],
    kinds: Int[np.ndarray, "n 3"],
    radii: tuple[float, float],
    rng: np.random.Generator,
) -> None:
    """Put one object of the given kind on each picture, at a random place, size and angle."""
    count = len(canvas)
    radius = rng.uniform(*radii, count)[:, None, None]
    reach = 1 - radius
    x, y = rng.uniform(-1, 1, (2, count, 1, 1)) * reach
    angle = rng.uniform(-0.5, 0.5, (count, 1, 1))
    steps = np.linspace(-1, 1, SIDE)
    across, down = steps[None, None, :] - x, steps[None, :, None] - y
    p = (np.cos(angle) * across + np.sin(angle) * down) / radius
    q = (np.cos(angle) * down - np.sin(angle) * across) / radius
    shape, texture, colour = kinds.T
    cover = np.clip(0.5 - evaluate_fields(DISTANCES, shape, p, q) * radius * SIDE / 2, 0, 1)[..., None]
    tint = np.array(list(COLOURS.values()))[colour] + rng.normal(0, 0.05, (count, 3))
    shade = 1 - 0.75 * evaluate_fields(PATTERNS, texture, p, q)[..., None]
    canvas *= 1 - cover
    canvas += cover * tint[:, None, None, :] * shade


def background(count: int, rng: np.random.Generator) -> Float[np.ndarray, "n h w 3"]:
    """Soft blotches of random colours, with grain."""
    coarse = rng.uniform(*BACKGROUND, (count, 5, 5, 3))
    grid = np.linspace(0, 4, SIDE)
    low = np.minimum(grid.astype(int), 3)
    share = grid - low
    rows = coarse[:, low] * (1 - share)[None, :, None, None] + coarse[:, low + 1] * share[None, :, None, None]
    smooth = rows[:, :, low] * (1 - share)[None, None, :, None] + rows[:, :, low + 1] * share[None, None, :, None]
    return smooth + rng.normal(0, 0.06, smooth.shape)


def paint(labels: Int[np.ndarray, "n"], rng: np.random.Generator) -> UInt8[np.ndarray, "n h w 3"]:
    """One picture per label."""
    count = len(labels)
    canvas = background(count, rng)
    for _ in range(DISTRACTORS):
        kinds = rng.integers(0, (len(DISTANCES), len(PATTERNS), len(COLOURS)), (count, 3))
        paint_objects(canvas, kinds, DISTRACTOR_RADII, rng)
    paint_objects(canvas, attributes()[labels], OBJECT_RADII, rng)
    light = rng.uniform(0.65, 1.25, (count, 1, 1, 1))
    tilt = rng.uniform(-0.2, 0.2, (2, count, 1, 1, 1))
    steps = np.linspace(-1, 1, SIDE)
    light = light * (1 + tilt[0] * steps[None, None, :, None] + tilt[1] * steps[None, :, None, None])
    return (np.clip(canvas * light, 0, 1) * 255).round().astype(np.uint8)


@lru_cache(maxsize=2)
def load_synthetic(seed: int = 0, train_per_class: int = 140, test_per_class: int = 25) -> Dataset:
    """All twenty classes; training and test pictures have random numbers of their own. Runs of one seed share them."""
    if train_per_class < 1 or test_per_class < 1:
        raise ConfigError("every class needs at least one training and one test picture")
    check_setting(RunConfig, "seed", seed)
    classes = np.arange(TASKS * CLASSES_PER_TASK)
    y, test_y = np.repeat(classes, train_per_class), np.repeat(classes, test_per_class)
    rng, test_rng = (np.random.default_rng(np.random.SeedSequence((seed, part))) for part in (0, 1))
    return Dataset(
        "split-synthetic", paint(y, rng), y, paint(test_y, test_rng), test_y, class_names(), "painted, version 1"
    )


def split_synthetic(seed: int = 0, *, train_per_class: int = 140, test_per_class: int = 25, **cut: Any) -> Stream:
    """Five tasks of four classes, unless `split`'s arguments say otherwise."""
    dataset = load_synthetic(seed, train_per_class, test_per_class)
    return split(dataset, **{"classes_per_task": CLASSES_PER_TASK, "seed": seed, **cut})
