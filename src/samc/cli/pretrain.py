"""`samc pretrain`: the autoencoder's weights, learnt from the training images of one data set for streams of others."""

from pathlib import Path
from typing import Annotated, Any

import typer

from samc.cli.drawing import Terminal
from samc.cli.naming import check_ending
from samc.cli.progress import Bar, live_progress
from samc.cli.terminal import say
from samc.device import choose
from samc.errors import OutputError
from samc.experiments.pretraining import BATCH, ENLARGED, EVERY, LR, PATIENCE, STEPS, as_file, training_images
from samc.experiments.pretraining import pretrain as learn
from samc.files import write_whole
from samc.streams import open_stream

SUFFIX = ".safetensors"


def pretrain(
    out: Annotated[Path, typer.Option(help=f"the file to write, {SUFFIX}; one that is there is left alone")],
    images: Annotated[
        str, typer.Option(metavar="DATASET", help="whose training images to learn from; samc run --help names them")
    ],
    steps: Annotated[int, typer.Option(min=1, help="the most steps of Adam, if it improves all the time")] = STEPS,
    patience: Annotated[
        int,
        typer.Option(
            min=0,
            help=f"it ends after so many times {EVERY} steps in which it has not improved; 0: it makes all --steps, "
            "with a step size that rises to --lr and falls again, and holds no image out",
        ),
    ] = PATIENCE,
    batch_size: Annotated[int, typer.Option(min=4, help="images per step")] = BATCH,
    lr: Annotated[float, typer.Option(help="the first step size; it is halved when it no longer helps")] = LR,
    enlarged: Annotated[
        int, typer.Option(min=0, help="a side in pixels to which every second batch is resized")
    ] = ENLARGED,
    seed: Annotated[int, typer.Option(min=0, help="draws images and masks, starts the network")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="where the data sets are")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Train SAMC's inpainting autoencoder on one data set, to complete the images of another.

    Images are masked at random, about as Grad-CAM masks them, and filled by Telea's rule; the autoencoder learns to
    paint them whole until it no longer improves on a tenth of them, which it never learns from. What did best on that
    tenth is written; samc run --autoencoder FILE uses it. The package's own weights were made with --steps 4000
    --patience 0.

    Examples:

      samc pretrain --images split-cifar100 --out cifar100.safetensors

      samc pretrain --images folder:pictures --out own.safetensors

      samc run --preset paper --autoencoder own.safetensors --autoencoder-output whole
    """
    check_ending("--out", out, "a file", SUFFIX)
    if out.exists():
        raise OutputError(f"{out} is there already; choose another --out or remove it")
    if not out.parent.is_dir():
        raise OutputError(f"there is no folder {out.parent}; make it, or choose another --out")
    where = choose(device)
    stream = open_stream(images, data_dir=data_dir)
    pictures = training_images(stream)
    judged = "held-out images" if patience else "images that were learnt from"
    with live_progress(Terminal()) as progress:
        bar = Bar(progress, f"autoencoder on {stream.name}")

        def tell(step: int, error: float) -> None:
            bar.tell(completed=step / steps, status=f"error on {judged} {error:.4f}")

        how: dict[str, Any] = {"patience": patience, "batch_size": batch_size, "lr": lr, "enlarged": enlarged}
        learnt = learn(pictures, steps=steps, **how, seed=seed, device=where, tell=tell)
    origin = {"dataset": stream.name, "source": stream.source, "shape": list(stream.image_shape)}
    counts = {"images": len(pictures), "held_out": learnt.held_out, "most_steps": steps, "steps": learnt.steps}
    best = {"best_step": learnt.best_step, "error": round(learnt.error, 5)}
    content = as_file(learnt.autoencoder, **origin, **counts, **best, **how, seed=seed)
    try:
        write_whole(out, content, replace=False)
    except FileExistsError:
        raise OutputError(f"{out} has come to be meanwhile; choose another --out") from None
    ended = "it no longer improved" if learnt.steps < steps else "as many as were asked for"
    say(
        f"weights: {out}, {len(content):,} bytes, of step {learnt.best_step:,} of {learnt.steps:,} ({ended}); mean "
        f"squared error on dropped pixels of {judged} {learnt.error:.4f}"
    )
