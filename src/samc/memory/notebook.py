"""A memory at a glance: some decoded images of each task, as one picture, or as a small page for notebooks."""

import base64
import html
import io
from itertools import islice

import numpy as np
from jaxtyping import Int64, UInt8
from PIL import Image

from samc.memory.buffer import EpisodicMemory
from samc.memory.stored import TaskMemory, counted

MAX_TASKS, MAX_IMAGES = 20, 10
MAX_SIDE = 128
# pixels; larger images are reduced, so that the page stays small
SHOWN_HEIGHT = 64
# pixels of an image on the page
GAP = 2
# white pixels between two images of a row
DROPPED = 219
# the grey of a pixel that is not stored


def memory_html(memory: EpisodicMemory) -> str:
    """One table row per task: its number, images and bytes, and some of its images from the oldest to the newest."""
    rows = [task_row(memory, task, held) for task, held in islice(memory.by_task.items(), MAX_TASKS)]
    more = len(memory.by_task) - len(rows)
    note = f"<p>and {counted(more, 'more task')}</p>" if more > 0 else ""
    return (
        f"<div><p><code>{html.escape(repr(memory))}</code></p>"
        f"<table><thead><tr><th>task</th><th>images</th><th>bytes</th><th>some of them</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{note}</div>"
    )


def task_row(memory: EpisodicMemory, task: int, held: TaskMemory) -> str:
    numbers = (task + 1, f"{len(held.images):,}", f"{held.nbytes:,}")
    cells = "".join(f'<td style="text-align:right">{html.escape(str(number))}</td>' for number in numbers)
    return f'<tr>{cells}<td style="text-align:left">{pictures(memory, held) if held.images else ""}</td></tr>'


def pictures(memory: EpisodicMemory, held: TaskMemory) -> str:
    """Some images of a task as one embedded PNG; the classes are what one reads when pointing at it."""
    strip, labels = task_strip(memory, held)
    classes = "classes " + ", ".join(map(str, labels))
    content = base64.b64encode(as_png(strip)).decode()
    style = f"height:{SHOWN_HEIGHT}px;max-width:none;image-rendering:pixelated"
    name = html.escape(classes, quote=True)
    return f'<img src="data:image/png;base64,{content}" alt="{name}" title="{name}" style="{style}">'


def gallery(memory: EpisodicMemory) -> UInt8[np.ndarray, "h w c"]:
    """One picture, a line for each task: some of its images, from the oldest to the newest."""
    held = (memory.by_task[task] for task in memory.tasks[:MAX_TASKS])
    strips = [task_strip(memory, task_memory)[0] for task_memory in held]
    width = max(strip.shape[1] for strip in strips)
    lines = [np.pad(strip, ((0, GAP), (0, width - strip.shape[1]), (0, 0)), constant_values=255) for strip in strips]
    return np.concatenate(lines)[:-GAP]


def task_strip(
    memory: EpisodicMemory, held: TaskMemory
) -> tuple[UInt8[np.ndarray, "h2 w2 c2"], Int64[np.ndarray, "n"]]:
    """Some images of a task side by side, from the oldest to the newest, and their labels."""
    indices = np.linspace(0, len(held.images) - 1, min(MAX_IMAGES, len(held.images))).round().astype(int)
    chosen = [held.images[index] for index in indices]
    images, masks = memory.codec.decode([image.blob for image in chosen])
    if not memory.codec.gist:
        images = np.where(masks[:, None], images, np.uint8(DROPPED))
    return side_by_side(images), memory.labels(chosen)


def side_by_side(images: UInt8[np.ndarray, "n c h w"]) -> UInt8[np.ndarray, "h2 w2 c2"]:
    """One picture, grey or coloured, with white between the images."""
    if images.shape[1] not in (1, 3):
        images = images.mean(1, keepdims=True).astype(np.uint8)
    tiles = [reduced(image) for image in images.transpose(0, 2, 3, 1)]
    framed = [np.pad(tile, ((0, 0), (0, GAP), (0, 0)), constant_values=255) for tile in tiles]
    return np.concatenate(framed, axis=1)[:, :-GAP]


def reduced(image: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "h2 w2 c"]:
    """The image with no side above MAX_SIDE, each pixel the mean of what it stands for."""
    height, width, channels = image.shape
    factor = -(-max(height, width) // MAX_SIDE)
    if factor == 1:
        return image
    small = np.array(as_image(image).reduce((min(factor, width), min(factor, height))))
    return small.reshape(*small.shape[:2], channels)


def as_image(picture: UInt8[np.ndarray, "h w c"]) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(picture[:, :, 0] if picture.shape[2] == 1 else picture))


def as_png(picture: UInt8[np.ndarray, "h w c"]) -> bytes:
    file = io.BytesIO()
    as_image(picture).save(file, "PNG")
    return file.getvalue()
