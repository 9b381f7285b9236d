"""`samc pretrain`: the autoencoder's weights, learnt from the training images of one data set for streams of others."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from samc.cli.progress import add_bar, live_progress
from samc.device import choose
from samc.errors import OutputError
from samc.experiments.pretraining import BATCH, ENLARGED, LR, STEPS, as_file, training_images
from samc.experiments.pretraining import pretrain as learn
from samc.files import write_whole
from samc.streams import open_stream

SUFFIX = ".safetensors"
SHOWN = 100
# the loss on screen is the mean over so many steps


def pretrain(
    out: Annotated[Path, typer.Option(help=f"the file to write, {SUFFIX}; one that is there is left alone")],
    dataset: Annotated[str, typer.Option(help="whose training images to learn from; samc run --help names them")],
    steps: Annotated[int, typer.Option(min=1, help="steps of Adam")] = STEPS,
    batch_size: Annotated[int, typer.Option(min=4, help="images per step")] = BATCH,
    lr: Annotated[float, typer.Option(help="the highest step size: it rises to it and falls again")] = LR,
    enlarged: Annotated[
        int, typer.Option(min=0, help="a side in pixels to which every second batch is resized")
    ] = ENLARGED,
    seed: Annotated[int, typer.Option(min=0, help="draws images and masks, starts the network")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="where the data sets are")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Train SAMC's inpainting autoencoder on one data set, to complete the images of another.

    Images are masked at random, about as Grad-CAM masks them, and filled by Telea's rule; the autoencoder learns to
    paint them whole. The package's own weights are those of the first two commands; --autoencoder-start uses them.

    Examples:

      samc pretrain --dataset split-cifar10 --out cifar10.safetensors

      samc pretrain --dataset split-cifar100 --out cifar100.safetensors

      samc pretrain --dataset folder:pictures --steps 2000 --out own.safetensors
    """
    if out.suffix != SUFFIX:
        raise OutputError(f"--out is a file's name that ends in {SUFFIX}, got {out}")
    if out.exists():
        raise OutputError(f"{out} is there already; choose another --out or remove it")
    if not out.parent.is_dir():
        raise OutputError(f"there is no folder {out.parent}; make it, or choose another --out")
    where = choose(device)
    stream = open_stream(dataset, data_dir=data_dir)
    images = training_images(stream)
    console, losses = Console(markup=False, highlight=False), list[float]()
    with live_progress(console) as progress:
        move = add_bar(progress, f"autoencoder on {dataset}")

        def tell(step: int, loss: float) -> None:
            losses.append(loss)
            if step % SHOWN == 0 or step == steps:
                move(completed=step / steps, status=f"error on dropped pixels {mean(losses):.4f}")

        how: dict[str, Any] = {"steps": steps, "batch_size": batch_size, "lr": lr, "enlarged": enlarged, "seed": seed}
        learnt = learn(images, **how, device=where, tell=tell)
    origin = {"dataset": dataset, "source": stream.source, "images": len(images), "shape": list(stream.image_shape)}
    content = as_file(learnt, **origin, **how, error=round(mean(losses), 5))
    try:
        write_whole(out, content, replace=False)
    except FileExistsError:
        raise OutputError(f"{out} has come to be meanwhile; choose another --out") from None
    console.print(
        f"weights: {out}, {len(content):,} bytes; mean squared error on dropped pixels {mean(losses):.4f}",
        soft_wrap=True,
    )


def mean(losses: list[float]) -> float:
    last = losses[-SHOWN:]
    return sum(last) / len(last)
