"""`samc explain`: why a finished run's network says what it says of an image, as a picture and in the terminal."""

from pathlib import Path
from typing import Annotated

import typer

from samc.cli.asking import TASK, learner_to_ask
from samc.cli.class_names import names_of_run
from samc.cli.drawing import Terminal, draw
from samc.cli.naming import check_ending
from samc.cli.small_pictures import pictures_in_text, shaded
from samc.cli.terminal import say
from samc.errors import OutputError
from samc.files import write_output
from samc.report.explanation import NEIGHBOURS
from samc.report.explanation import explain as explained
from samc.report.explanation_picture import draw_explanation, overlaid


def explain(
    image: Annotated[Path, typer.Argument(help="an image file")],
    run: Annotated[Path, typer.Option(help="a run's folder, or a file of learner.save")],
    task: Annotated[int | None, typer.Option(min=0, help=TASK)] = None,
    out: Annotated[Path, typer.Option(help="the picture to write; one that is there is replaced")] = Path(
        "explain.png"
    ),
    neighbours: Annotated[int, typer.Option(min=0, max=12, help="how many remembered images")] = NEIGHBOURS,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Show what a network makes of an image and why: what it looks at, and which remembered images are the most alike.

    The map is Grad-CAM's for the predicted class. The remembered images are those of that class in the task's memory
    whose features have the smallest angle to the image's, as they are replayed; of all tasks where there is one head.
    An image of another size than the run's is resized, as --image-size does.

    Examples:

      samc explain cat.png --run runs/first --task 0

      samc explain cat.png --run runs/first --task 0 --out why.png --neighbours 10

      samc explain cat.png --run runs/class                 of a run with --scenario class or domain
    """
    check_ending("--out", out, "a picture", ".png")
    if out.resolve() == image.resolve():
        raise OutputError(f"--out would replace the image that is explained, {image}; choose another name")
    learner, names = learner_to_ask(run, task, device), names_of_run(run)
    found = explained(learner, image, task, neighbours=neighbours, class_names=names)
    write_output(out, draw_explanation(found), replace=True, taken="choose another --out")
    first, *rest = found.lines()
    say(f"{image}: {first}")
    console = Terminal()
    if console.color_system in ("256", "truecolor"):
        small = [found.picture, overlaid(found), *(neighbour.picture for neighbour in found.neighbours)]
        say(f"the image, what speaks for {found.name}, and what is remembered:")
        draw(pictures_in_text(small, console.width))
    else:
        say(f"what speaks for {found.name}:", *shaded(found.saliency))
    say(*rest, f"picture: {out}")
