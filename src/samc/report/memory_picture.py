"""The picture of a memory: for each task some images as they are stored, and as they come back."""

from collections.abc import Sequence
from io import BytesIO

import numpy as np
from jaxtyping import Float, Shaped, UInt8
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from samc.completion.rules import telea
from samc.experiments.diagnosis import evenly_spread
from samc.memory import EpisodicMemory
from samc.memory.gist import Gist
from samc.memory.masked import MaskedCodec
from samc.report.lettering import ignoring_missing_glyphs, in_lines
from samc.streams.names import name_of

DROPPED = 219
# the grey of a pixel that is not stored
GAP = 0.06
# between two images, as a part of an image
PANEL = 0.85
# inches per image
NAME_WIDTH = 15
# letters that fit below one
MAX_IMAGES_ABREAST = 18
# more tasks than fit next to each other continue below
MOST_TASKS = 100
# spread over all of them; a picture of more would take minutes
MOST_PIXELS = 512
# per side, several times what a panel shows


def draw_memory(memory: EpisodicMemory, *, per_task: int = 6, class_names: Sequence[str] | None = None) -> bytes:
    """A PNG. Tasks as blocks, in reading order; below each image its class, its bytes and how much of it was kept."""
    tasks = [memory.tasks[place] for place in sorted(evenly_spread(len(memory.tasks), MOST_TASKS))]
    columns = max([1, *(min(per_task, len(memory.by_task[task].images)) for task in tasks)])
    abreast = max(1, min(len(tasks), MAX_IMAGES_ABREAST // columns))
    blocks = max(1, -(-len(tasks) // abreast))
    names = row_names(memory)
    _, height, width = memory.codec.image_shape
    panel_height = PANEL * min(max(height / width, 0.3), 3)
    block_width, block_height = columns * PANEL + 0.45, len(names) * panel_height + 0.75
    size = max(abreast * block_width + 0.55, 5.2), blocks * block_height + 0.5
    figure = Figure(figsize=size, dpi=110)
    FigureCanvasAgg(figure)
    total = sum(memory.images_per_task.values())
    title = f"{total:,} {'image' if total == 1 else 'images'} in {memory.nbytes:,} bytes, codec {memory.codec.spec}"
    if len(tasks) < len(memory.tasks):
        title += f"; {len(tasks)} of {len(memory.tasks):,} tasks"
    figure.text(0.55 / size[0], 1 - 0.15 / size[1], title, va="top", fontsize=12, fontweight="bold")
    for number, task in enumerate(tasks):
        down, across = divmod(number, abreast)
        count = min(columns, len(memory.by_task[task].images))
        bottom = size[1] - 0.5 - down * block_height - 0.25 - len(names) * panel_height
        corner = ((0.55 + across * block_width) / size[0], bottom / size[1])
        axes = figure.add_axes((*corner, count * PANEL / size[0], len(names) * panel_height / size[1]))
        draw_task(axes, memory, task, count, names if across == 0 else ("",) * len(names), class_names)
    picture = BytesIO()
    with ignoring_missing_glyphs():
        figure.savefig(picture, format="png")
    return picture.getvalue()


def row_names(memory: EpisodicMemory) -> tuple[str, ...]:
    """Whole images have no second row: nothing was dropped that could be completed."""
    if not isinstance(memory.codec, MaskedCodec | Gist):
        return ("kept",)
    return ("kept", "with the gist" if memory.codec.gist else "completed")


def draw_task(
    axes: Axes,
    memory: EpisodicMemory,
    task: int,
    count: int,
    names: tuple[str, ...],
    class_names: Sequence[str] | None,
) -> None:
    """One task: so many of its images, from the oldest to the newest."""
    held = memory.by_task[task]
    indices = np.linspace(0, len(held.images) - 1, count).round().astype(int)
    chosen = [held.images[index] for index in indices]
    decoded = [memory.codec.decode([image.blob]) for image in chosen]  # one at a time: they may be large
    images, masks = (np.concatenate([thinned(part[place]) for part in decoded]) for place in (0, 1))
    pictures = [np.where(masks[:, None], images, DROPPED).astype(np.uint8)]
    if len(names) == 2:
        pictures.append(images if memory.codec.gist else telea(images, masks))
    extent = (0, count, len(names), 0)
    axes.imshow(mosaic(pictures), extent=extent, aspect="auto", interpolation="nearest", cmap="gray", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=np.arange(len(names)) + 0.5, yticklabels=names)
    axes.tick_params(length=0, labelsize=8.5)
    for name in axes.get_yticklabels():
        name.set(rotation=90, verticalalignment="center")
    axes.spines[:].set_visible(False)
    noun = "image" if len(held.images) == 1 else "images"
    heading = f"task {task + 1}: {len(held.images)} {noun}, {held.nbytes:,} bytes"
    axes.set_title(heading, fontsize=8.5, loc="left", pad=3)
    for column, (image, label) in enumerate(zip(chosen, memory.labels(chosen), strict=True)):
        share = f", {masks[column].mean():.0%}" if len(names) == 2 else ""
        class_name = in_lines(name_of(int(label), class_names), NAME_WIDTH)
        caption = f"{class_name}\n{image.nbytes:,} B{share}"
        axes.text(column + 0.5, len(names) + 0.02, caption, fontsize=6.5, ha="center", va="top")


def thinned(images: Shaped[np.ndarray, "b *c h w"]) -> Shaped[np.ndarray, "b *c i j"]:
    """Every so many-th pixel of images larger than a panel can show."""
    step = -(-max(images.shape[-2:]) // MOST_PIXELS)
    return images[..., ::step, ::step]


def mosaic(rows: list[UInt8[np.ndarray, "n c h w"]]) -> Float[np.ndarray, "p q *c"]:
    """Images side by side, rows below each other, white between them; pixels stay sharp."""
    height, width = rows[0].shape[2:]
    # small images are enlarged first, so that the gap is the same part of every image
    zoom = max(1, -(-96 // max(height, width)))
    margin = max(1, round(GAP / 2 * zoom * max(height, width)))
    lines = []
    for images in rows:
        large = images.repeat(zoom, axis=2).repeat(zoom, axis=3).transpose(0, 2, 3, 1)
        framed = np.pad(large, ((0, 0), (margin, margin), (margin, margin), (0, 0)), constant_values=255)
        lines.append(np.concatenate(list(framed), axis=1))
    picture = np.concatenate(lines) / 255
    return picture[..., 0] if picture.shape[2] == 1 else picture
