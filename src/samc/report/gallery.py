"""The picture of a memory: truth, saliency, kept pixels and completed image, one column per image."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from samc.experiments.pictures import RememberedImage
from samc.report.lettering import ignoring_missing_glyphs, in_lines

ROWS = ("truth", "saliency", "kept", "completed")
DROPPED = 0.93
# the light grey of pixels that are not stored
PANEL = 0.95
# inches per side
NAME_WIDTH = 14
# letters above one


def draw_gallery(images: Sequence[RememberedImage], file: Path | BytesIO, title: str) -> None:
    """Tasks from left to right, each image from the truth down to the completed one, and below it what it took."""
    tasks = sorted({image.task for image in images})
    widths = [sum(image.task == task for image in images) for task in tasks]
    size = (PANEL * (sum(widths) + 0.35 * len(tasks)) + 0.9, PANEL * len(ROWS) + 1.7)
    figure = Figure(figsize=size, dpi=110)
    FigureCanvasAgg(figure)
    left, top, bottom = 0.75 / size[0], 1 - 1.1 / size[1], 0.5 / size[1]
    figure.suptitle(title, x=left, y=1 - 0.12 / size[1], va="top", ha="left", fontsize=13, fontweight="bold")
    blocks = figure.add_gridspec(
        1, len(tasks), width_ratios=widths, left=left, right=0.995, top=top, bottom=bottom, wspace=0.09
    )
    for number, task in enumerate(tasks):
        grid = blocks[number].subgridspec(len(ROWS), widths[number], wspace=0.05, hspace=0.05)
        for column, image in enumerate(image for image in images if image.task == task):
            for row, (name, picture) in enumerate(zip(ROWS, panels(image), strict=True)):
                axes = figure.add_subplot(grid[row, column])
                axes.imshow(picture, vmin=0, vmax=1, cmap="inferno", interpolation="nearest")
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
                if row == 0:
                    heading = f"task {task + 1}\n" if column == 0 else "\n"
                    axes.set_title(heading + in_lines(image.name, NAME_WIDTH), fontsize=7.5, loc="left")
                if row == len(ROWS) - 1:
                    axes.set_xlabel(f"{image.nbytes:,} bytes\n{image.mask.mean():.0%} kept", fontsize=7)
                if column == number == 0:
                    axes.set_ylabel(name, fontsize=9)
    with ignoring_missing_glyphs():
        figure.savefig(file)


def panels(image: RememberedImage) -> tuple[np.ndarray, ...]:
    """One for each of ROWS."""
    kept = np.where(image.mask[..., None], image.truth, DROPPED)
    return image.truth, image.saliency, kept, image.completed
