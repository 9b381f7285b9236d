"""The picture of a memory's file: for each task some images as they are kept, and as they come back."""

from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from samc.completion.rules import telea
from samc.memory import EpisodicMemory
from samc.memory.gist import Gist
from samc.memory.masked import Masked

DROPPED = 0.86
# the grey of pixels that are not stored
GAP = 0.06
# between images, in images
PANEL = 0.85
# inches an image
WIDEST = 18
# images side by side, before tasks go on below


def draw(memory: EpisodicMemory, path: Path, *, per_task: int = 6) -> None:
    """Tasks as blocks, in reading order; below each image its label, its bytes and how much of it was kept."""
    tasks = memory.tasks
    columns = max([1, *(min(per_task, len(memory.shelves[task].items)) for task in tasks)])
    abreast = max(1, min(len(tasks), WIDEST // columns))
    blocks = max(1, -(-len(tasks) // abreast))
    names = row_names(memory)
    _, height, width = memory.codec.image_shape
    panel_high = PANEL * min(max(height / width, 0.3), 3)
    wide, high = columns * PANEL + 0.45, len(names) * panel_high + 0.75
    size = max(abreast * wide + 0.55, 5.2), blocks * high + 0.5
    figure = Figure(figsize=size, dpi=110)
    FigureCanvasAgg(figure)
    total = sum(memory.images_per_task.values())
    title = f"{total:,} {'image' if total == 1 else 'images'} in {memory.nbytes:,} bytes, codec {memory.codec.spec}"
    figure.text(0.55 / size[0], 1 - 0.15 / size[1], title, va="top", fontsize=12, fontweight="bold")
    for number, task in enumerate(tasks):
        down, across = divmod(number, abreast)
        shown = min(columns, len(memory.shelves[task].items))
        bottom = size[1] - 0.5 - down * high - 0.25 - len(names) * panel_high
        corner = ((0.55 + across * wide) / size[0], bottom / size[1])
        axes = figure.add_axes((*corner, shown * PANEL / size[0], len(names) * panel_high / size[1]))
        block(axes, memory, task, shown, names if across == 0 else ("",) * len(names))
    figure.savefig(path)


def row_names(memory: EpisodicMemory) -> tuple[str, ...]:
    """Whole images have no second row: nothing was dropped that could be completed."""
    if not isinstance(memory.codec, Masked | Gist):
        return ("kept",)
    return ("kept", "with the gist" if memory.codec.gist else "completed")


def block(axes: Axes, memory: EpisodicMemory, task: int, shown: int, names: tuple[str, ...]) -> None:
    """One task: some of its images from the oldest to the newest."""
    items = list(memory.shelves[task].items)
    rows = np.linspace(0, len(items) - 1, shown).round().astype(int)
    images, masks = memory.codec.decode([items[row].blob for row in rows])
    pictures = [np.where(masks[:, None], images, int(255 * DROPPED)).astype(np.uint8)]
    if len(names) == 2:
        pictures.append(images if memory.codec.gist else telea(images, masks))
    extent = (0, shown, len(names), 0)
    axes.imshow(mosaic(pictures), extent=extent, aspect="auto", interpolation="nearest", cmap="gray", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=np.arange(len(names)) + 0.5, yticklabels=names)
    axes.tick_params(length=0, labelsize=8.5)
    for name in axes.get_yticklabels():
        name.set(rotation=90, verticalalignment="center")
    axes.spines[:].set_visible(False)
    nbytes = sum(item.nbytes for item in items)
    heading = f"task {task + 1}: {len(items)} {'image' if len(items) == 1 else 'images'}, {nbytes:,} bytes"
    axes.set_title(heading, fontsize=8.5, loc="left", pad=3)
    for column, row in enumerate(rows):
        label = int(np.frombuffer(items[row].label, memory.label_type)[0])
        share = f", {masks[column].mean():.0%}" if len(names) == 2 else ""
        caption = f"class {label}\n{items[row].nbytes:,} B{share}"
        axes.text(column + 0.5, len(names) + 0.02, caption, fontsize=6.5, ha="center", va="top")


def mosaic(rows: list[UInt8[np.ndarray, "n c h w"]]) -> Float[np.ndarray, "p q *c"]:
    """Images side by side, rows below each other, white between them; nothing is smoothed."""
    height, width = rows[0].shape[2:]
    # small images are painted large first, so that the gap is the same part of every image
    zoom = max(1, -(-96 // max(height, width)))
    margin = max(1, round(GAP / 2 * zoom * max(height, width)))
    lines = []
    for images in rows:
        large = images.repeat(zoom, axis=2).repeat(zoom, axis=3).transpose(0, 2, 3, 1)
        framed = np.pad(large, ((0, 0), (margin, margin), (margin, margin), (0, 0)), constant_values=255)
        lines.append(np.concatenate(list(framed), axis=1))
    picture = np.concatenate(lines) / 255
    return picture[..., 0] if picture.shape[2] == 1 else picture
