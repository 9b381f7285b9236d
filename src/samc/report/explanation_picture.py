"""The picture of an explanation: the image, where the network looks, how sure it is, and what it remembers."""

from io import BytesIO
from typing import Any

import numpy as np
from jaxtyping import UInt8
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from samc.report.explanation import SHOWN_CLASSES, Explanation, Neighbour
from samc.report.lettering import as_text, ignoring_missing_glyphs, in_lines

DPI = 100
PANEL = 2.0
# inches of the image and of its map
SMALL = 1.0
# of a remembered image
EDGE, GAP, TITLE, HEADING, CAPTION = 0.15, 0.2, 0.55, 0.25, 0.38
INK, PALE, STRONG = "#222222", "#b8b8b8", "#c44e00"
HEAT = LinearSegmentedColormap.from_list("heat", ["#3b0f70", "#de4968", "#fecf92"])
MOST_HEAT, DARKER = 0.85, 0.8
# how much of a pixel's colour the map may take, and how bright the grey below it is
DROPPED = 219
# the grey of a pixel that is not stored
LONGEST_NAME, BAR_NAME = 24, 16
# letters of a name in a heading, and beside a bar


def draw_explanation(explanation: Explanation) -> bytes:
    """A PNG."""
    shown, selective = explanation.neighbours, any(not found.mask.all() for found in explanation.neighbours)
    rows = (2 if selective else 1) if shown else 0
    width = 2 * EDGE + max(2 * (PANEL + GAP) + 2.5, len(shown) * (SMALL + 0.1))
    below = TITLE + PANEL + 0.2
    height = below + HEADING + rows * (SMALL + 0.06) + (CAPTION if rows else 0.1)
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)

    def axes_at(left: float, top: float, wide: float, high: float) -> Axes:
        axes = figure.add_axes((left / width, 1 - (top + high) / height, wide / width, high / height))
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        return axes

    def write(text: str, left: float, top: float, **style: Any) -> None:
        figure.text(left / width, 1 - top / height, text, va="top", color=INK, **style)

    name = in_lines(explanation.name, LONGEST_NAME, 1)
    write(f"{name}, {explanation.confidence:.1%} sure", EDGE, 0.13, fontsize=13, fontweight="bold")
    image = axes_at(EDGE, TITLE, PANEL, PANEL)
    show(image, explanation.picture)
    image.set_title("the image", fontsize=8.5, loc="left", pad=3)
    looked = axes_at(EDGE + PANEL + GAP, TITLE, PANEL, PANEL)
    show(looked, overlaid(explanation))
    looked.set_title(f"what speaks for {name}", fontsize=8.5, loc="left", pad=3)
    left = EDGE + 2 * (PANEL + GAP)
    draw_confidences(axes_at(left + 1.05, TITLE, width - left - 1.05 - EDGE - 0.45, PANEL), explanation)
    write(as_text(explanation.basis), EDGE, below, fontsize=8.5)
    for column, neighbour in enumerate(shown):
        for row, picture in enumerate(panels(neighbour, selective)):
            place = EDGE + column * (SMALL + 0.1), below + HEADING + row * (SMALL + 0.06)
            axes = axes_at(*place, SMALL, SMALL)
            show(axes, picture)
        axes.set_xlabel(f"{neighbour.alike:.2f} alike\n{neighbour.nbytes:,} bytes", fontsize=7, color=INK)
    file = BytesIO()
    with ignoring_missing_glyphs():
        figure.savefig(file, format="png")
    return file.getvalue()


def overlaid(explanation: Explanation) -> UInt8[np.ndarray, "h w 3"]:
    """The image in grey, and the warmer and the less grey, the more a pixel speaks for the class."""
    share = MOST_HEAT * explanation.saliency[..., None]
    grey = DARKER * explanation.picture.mean(2, keepdims=True)
    heat = 255 * HEAT(explanation.saliency)[..., :3]
    return ((1 - share) * grey + share * heat).round().astype(np.uint8)


def show(axes: Axes, picture: UInt8[np.ndarray, "h w c"]) -> None:
    """Pixels as they are, grey or coloured."""
    axes.imshow(picture.repeat(3, 2) if picture.shape[2] == 1 else picture, interpolation="nearest", aspect="auto")


def panels(neighbour: Neighbour, selective: bool) -> list[np.ndarray]:
    """As it is replayed, and below that what is kept of it, where a memory keeps a part."""
    kept = np.where(neighbour.mask[..., None], neighbour.picture, np.uint8(DROPPED))
    return [neighbour.picture, *([kept] if selective else [])]


def draw_confidences(axes: Axes, explanation: Explanation) -> None:
    """A bar for each of the likeliest classes."""
    names, shares = zip(*explanation.confidences[:SHOWN_CLASSES], strict=True)
    colours = [STRONG, *[PALE] * len(names)][: len(names)]
    axes.barh(range(len(names)), shares, color=colours, height=0.62)
    axes.set(
        xlim=(0, 1),
        ylim=(SHOWN_CLASSES - 0.4, -0.6),
        yticks=range(len(names)),
        yticklabels=[in_lines(name, BAR_NAME) for name in names],
    )
    axes.tick_params(length=0, labelsize=8, labelcolor=INK)
    for place, share in enumerate(shares):
        axes.text(share + 0.02, place, f"{share:.1%}", va="center", fontsize=8, color=INK)
    axes.set_title("how sure", fontsize=8.5, loc="left", pad=3)
