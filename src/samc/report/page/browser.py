"""The memory browser's content: some images of each task as small pictures, and what there is to say of each."""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Bool, UInt8
from PIL import Image

from samc.completion.rules import telea
from samc.errors import UserError, printable
from samc.experiments.diagnosis import evenly_spread
from samc.experiments.recollection import FILE as RECOLLECTION
from samc.experiments.recollection import UNKNOWN, Recollection, read_recollection
from samc.memory import EpisodicMemory
from samc.memory.file import FILE as MEMORY
from samc.memory.file import load
from samc.memory.gist import Gist
from samc.memory.masked import Cam, MaskedCodec
from samc.memory.selection import MAX_LEVEL, upsampled
from samc.record import RunRecord
from samc.report.page.groups import Group

MOST_MEMORIES = 6
# on a page: those of the first seeds of the first methods
PAGE_PIXELS = 2**20
# of all pictures of a page, so that it stays under five megabytes
LARGEST_SIDE = 96
# of a picture; larger ones are reduced
ABREAST = 32
# pictures in a row of the image that holds them all


@dataclass(frozen=True, eq=False)
class Shown:
    """Some images of a memory, and what is known of them."""

    record: RunRecord
    memory: EpisodicMemory
    places: list[tuple[int, int]]
    recollection: Recollection | None


def browsers(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The memories of a page, for its script; what cannot be read says why in its place."""
    found = [
        (method.name, run)
        for group in groups
        for method in group.methods
        for run in method.runs[:1]
        if (run.folder / MEMORY).is_file()
    ][:MOST_MEMORIES]
    shown = []
    for name, run in found:
        title = name if len(groups) == 1 else f"{name}, {printable(run.record.fingerprint['stream'])}"
        seed = run.record.config.get("seed")
        title += "" if seed is None else f", seed {seed}"
        try:
            content = browser(choose(run.record, run.folder, PAGE_PIXELS // len(found)))
        except UserError as error:
            content = {"problem": str(error)}
        shown.append({"name": title, **content})
    return shown


def choose(record: RunRecord, folder: Path, most_pixels: int) -> Shown:
    """As many images of each task as there is room for: those that the run has noted something of, if it did."""
    memory = load(folder / MEMORY)
    noted = read_recollection(folder / RECOLLECTION) if (folder / RECOLLECTION).is_file() else None
    if noted is not None and not belongs(noted, memory):
        noted = None
    layers = 2 if drops(memory) else 1
    _, height, width = memory.codec.image_shape
    pixels = math.prod(-(-side // reduction(height, width)) for side in (height, width))
    per_task = max(1, most_pixels // (layers * pixels * max(1, len(memory.tasks))))
    places = []
    for task in memory.tasks:
        known = [] if noted is None else noted.place[noted.task == task].tolist()
        held = known or range(len(memory.by_task[task].images))
        places += [(task, held[place]) for place in sorted(evenly_spread(len(held), per_task))]
    return Shown(record, memory, places, noted)


def belongs(noted: Recollection, memory: EpisodicMemory) -> bool:
    """Whether it is of this memory: places that there are, with the same labels."""
    for task, place, label in zip(noted.task.tolist(), noted.place.tolist(), noted.label.tolist(), strict=True):
        held = memory.by_task.get(task)
        if held is None or not 0 <= place < len(held.images) or memory.labels([held.images[place]])[0] != label:
            return False
    return len(noted.pixels) == 0 or noted.pixels.shape[1:] == tuple(memory.codec.image_shape)


def drops(memory: EpisodicMemory) -> bool:
    """Whether pixels are left out that something has to make up for."""
    return isinstance(memory.codec, MaskedCodec | Gist)


def browser(shown: Shown) -> dict[str, Any]:
    """Columns of facts and the pictures, as the script takes them."""
    memory, record, noted = shown.memory, shown.record, shown.recollection
    images = [memory.by_task[task].images[place] for task, place in shown.places]
    stored, masks = memory.codec.decode([image.blob for image in images])
    labels, rows = memory.labels(images), noted_rows(shown)
    completed = replayed(memory, stored, masks, noted, rows)
    maps = [saliency(memory, image.blob, noted, row) for image, row in zip(images, rows, strict=True)]
    then, now = (predicted(noted, rows, name) for name in ("then", "now"))
    known = sorted({label for label in (*labels.tolist(), *then, *now) if label is not None})
    layers: dict[str, str] = {"completed": sprite(as_tiles(completed))}
    if drops(memory):
        layers["kept"] = sprite(as_tiles(stored, masks))
    if any(found is not None for found in maps):
        layers["saliency"] = sprite(saliency_tiles(maps, stored.shape[2:]), lossless=False)
    return {
        "codec": memory.codec.spec,
        "total": sum(memory.images_per_task.values()),
        "bytes": memory.nbytes,
        "side": [-(-side // reduction(*stored.shape[2:])) for side in stored.shape[2:]],
        "abreast": ABREAST,
        "noted": noted is not None,
        "layers": layers,
        "classes": {label: printable(record.class_name(label)) for label in known},
        "tasks": [
            {"task": task, "images": len(memory.by_task[task].images), "bytes": memory.by_task[task].nbytes}
            for task in memory.tasks
        ],
        "images": {
            "task": [task for task, _ in shown.places],
            "label": labels.tolist(),
            "then": then,
            "now": now,
            "bytes": [image.nbytes for image in images],
            "kept": [round(float(mask.mean()), 4) for mask in masks],
            "psnr": [decibels(noted, row) for row in rows],
            "map": [found is not None for found in maps],
        },
    }


def noted_rows(shown: Shown) -> list[int | None]:
    """Of each shown image its row in what the run has noted."""
    if shown.recollection is None:
        return [None] * len(shown.places)
    pairs = zip(shown.recollection.task.tolist(), shown.recollection.place.tolist(), strict=True)
    rows = {pair: row for row, pair in enumerate(pairs)}
    return [rows.get(place) for place in shown.places]


def predicted(noted: Recollection | None, rows: Sequence[int | None], name: str) -> list[int | None]:
    classes = [UNKNOWN if noted is None or row is None else int(getattr(noted, name)[row]) for row in rows]
    return [None if label == UNKNOWN else label for label in classes]


def decibels(noted: Recollection | None, row: int | None) -> float | str | None:
    """To a tenth; an exact image has no finite one."""
    value = math.nan if noted is None or row is None else float(noted.psnr[row])
    return None if math.isnan(value) else "exact" if math.isinf(value) else round(value, 1)


def replayed(
    memory: EpisodicMemory,
    stored: UInt8[np.ndarray, "n c h w"],
    masks: Bool[np.ndarray, "n h w"],
    noted: Recollection | None,
    rows: Sequence[int | None],
) -> UInt8[np.ndarray, "n c h w"]:
    """Images as the method replays them; where nobody noted that, dropped pixels are filled by Telea's rule."""
    completed = stored if memory.codec.gist or masks.all() else telea(stored, masks)
    if noted is not None and len(noted.pixels):
        completed = completed.copy()
        for image, row in zip(completed, rows, strict=True):
            if row is not None:
                image[:] = noted.pixels[row]
    return completed


def saliency(
    memory: EpisodicMemory, blob: bytes, noted: Recollection | None, row: int | None
) -> UInt8[np.ndarray, "i j"] | None:
    """The map by which pixels were kept: from the image's own bytes, or as the run has noted it."""
    codec = memory.codec
    masked, content = (codec.masked, codec.split(blob)[1]) if isinstance(codec, Gist) else (codec, blob)
    if isinstance(masked, Cam):
        return masked.saliency(content)
    return noted.saliency[row] if noted is not None and row is not None and noted.salient[row] else None


def as_tiles(
    images: UInt8[np.ndarray, "n c h w"], masks: Bool[np.ndarray, "n h w"] | None = None
) -> UInt8[np.ndarray, "n h2 w2 c2"]:
    """Red, green, blue and, with masks, how opaque: a dropped pixel is not there."""
    tiles = np.repeat(images, 3, axis=1) if images.shape[1] == 1 else images
    tiles = tiles.transpose(0, 2, 3, 1)
    if masks is not None:
        alpha = masks[..., None].astype(np.uint8) * 255
        tiles = np.concatenate([tiles * (alpha > 0), alpha], axis=3)
    step = reduction(*images.shape[2:])
    return tiles[:, ::step, ::step]


def reduction(height: int, width: int) -> int:
    """Every so many-th pixel is shown."""
    return -(-max(height, width) // LARGEST_SIDE)


def saliency_tiles(
    maps: Sequence[UInt8[np.ndarray, "i j"] | None], size: tuple[int, ...]
) -> UInt8[np.ndarray, "n h2 w2 3"]:
    tiles = np.zeros((len(maps), *size, 3), np.uint8)
    for tile, found in zip(tiles, maps, strict=True):
        if found is not None:
            levels = upsampled(found[None], *size)[0] / MAX_LEVEL
            tile[:] = mpl.colormaps["inferno"](levels, bytes=True)[..., :3]
    step = reduction(*size)
    return tiles[:, ::step, ::step]


def sprite(tiles: UInt8[np.ndarray, "n h w c"], *, lossless: bool = True) -> str:
    """All pictures in one image, row by row, inside a text that a page can hold."""
    count, height, width, channels = tiles.shape
    down = -(-count // ABREAST)
    sheet = np.zeros((down * ABREAST, height, width, channels), np.uint8)
    sheet[:count] = tiles
    sheet = sheet.reshape(down, ABREAST, height, width, channels).swapaxes(1, 2)
    picture, file = Image.fromarray(sheet.reshape(down * height, ABREAST * width, channels)), io.BytesIO()
    picture.save(file, "WEBP", lossless=lossless, method=4, quality=60)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()
