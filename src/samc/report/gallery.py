"""The picture of a memory: truth, saliency, kept pixels and completed image, side by side."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from samc.experiments.demo import Remembered

ROWS = ("truth", "saliency", "kept", "completed")
DROPPED = 0.93
# the light grey of pixels that are not stored


def draw(items: Sequence[Remembered], path: Path, title: str) -> None:
    """One column an image, one block of columns a task; under each what it took."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tasks = sorted({item.task for item in items})
    columns = max(sum(item.task == task for item in items) for task in tasks)
    per_line = min(2, len(tasks))
    lines = -(-len(tasks) // per_line)
    figure = Figure(figsize=(1.12 * columns * per_line + 1.2, 5.2 * lines + 0.6), dpi=110)
    FigureCanvasAgg(figure)
    blocks = figure.add_gridspec(lines, per_line, left=0.07, right=0.99, top=1 - 0.75 / (5.2 * lines + 0.6), bottom=0.03,
                                 wspace=0.06, hspace=0.22)  # fmt: skip
    figure.suptitle(title, x=0.07, y=0.995, ha="left", fontsize=13, fontweight="bold")
    for index, task in enumerate(tasks):
        grid = blocks[index].subgridspec(len(ROWS), columns, wspace=0.06, hspace=0.06)
        chosen = [item for item in items if item.task == task]
        for column, item in enumerate(chosen):
            for row, (name, picture) in enumerate(zip(ROWS, panels(item), strict=True)):
                axes = figure.add_subplot(grid[row, column])
                axes.imshow(picture, vmin=0, vmax=1, cmap="inferno", interpolation="nearest")
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
                if row == 0:
                    axes.set_title(item.name.replace(" ", "\n", 1), fontsize=7.5)
                if row == len(ROWS) - 1:
                    axes.set_xlabel(f"{item.nbytes} bytes\n{item.mask.mean():.0%} kept", fontsize=7.5)
                if column == 0:
                    label = f"task {task + 1}\n{name}" if row == 0 else name
                    axes.set_ylabel(label, fontsize=9 if index % per_line == 0 or row == 0 else 0.1)
    figure.savefig(path)


def panels(item: Remembered) -> tuple[np.ndarray, ...]:
    kept = np.where(item.mask[..., None], item.truth, DROPPED)
    return item.truth, item.saliency, kept, item.completed
