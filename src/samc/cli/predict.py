"""`samc predict`: what a finished run's network says of image files."""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from PIL import Image
from rich.console import Console

from samc.device import choose
from samc.errors import DataError, printable
from samc.learners import load
from samc.streams.images import read_image


def predict(
    run: Annotated[Path, typer.Argument(help="a run's folder, or a file of learner.save")],
    images: Annotated[list[Path], typer.Argument(help="image files")],
    task: Annotated[int, typer.Option(min=0, help="the task that the images are of: its classes are the choice")],
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Ask the learner that a run has left for the class of images.

    An image of another size than the run's is resized, as --image-size does.

    Examples:

      samc predict runs/first --task 0 cat.png dog.jpg
    """
    learner = load(run, device=choose(device))
    x = np.stack([fitted(path, learner.image_shape) for path in images])
    console = Console(markup=False, highlight=False)
    for path, label in zip(images, learner.predict(torch.from_numpy(x), task).tolist(), strict=True):
        console.print(f"{printable(str(path))}: class {label}", soft_wrap=True)


def fitted(path: Path, image_shape: tuple[int, int, int]) -> np.ndarray:
    """An image file with the channels and the size that the learner knows."""
    channels, height, width = image_shape
    if channels not in (1, 3):
        raise DataError(f"image files have one channel or three, this learner's images {channels}; use Python")
    image = Image.fromarray(read_image(path, max(height, width) if height == width else None))
    if image.size != (width, height):
        raise DataError(
            f"{path} is {image.width}x{image.height}, this learner's images are {width}x{height}; resize it"
        )
    pixels = np.asarray(image.convert("L") if channels == 1 else image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)
