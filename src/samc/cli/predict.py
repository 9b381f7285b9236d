"""`samc predict`: what a finished run's network says of image files."""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from samc.cli.asking import TASK, learner_to_ask
from samc.cli.class_names import names_of_run
from samc.cli.terminal import say
from samc.streams.images import read_fitted
from samc.streams.names import name_of


def predict(
    run: Annotated[Path, typer.Argument(help="a run's folder, or a file of learner.save")],
    images: Annotated[list[Path], typer.Argument(help="image files")],
    task: Annotated[int | None, typer.Option(min=0, help=TASK)] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Ask the learner that a run has left for the class of images.

    An image of another size than the run's is resized, as --image-size does.

    Examples:

      samc predict runs/first --task 0 cat.png dog.jpg

      samc predict runs/class cat.png                       of a run with --scenario class or domain
    """
    learner, names = learner_to_ask(run, task, device), names_of_run(run)
    x = np.stack([read_fitted(path, learner.image_shape) for path in images])
    for path, label in zip(images, learner.predict(torch.from_numpy(x), task).tolist(), strict=True):
        name = f", {name_of(label, names)}" if names else ""
        say(f"{path}: class {label}{name}")
