"""`samc export`: the network of a finished run for other runtimes."""

from pathlib import Path
from typing import Annotated

import typer

from samc.cli.terminal import say
from samc.errors import ConfigError
from samc.learners import load
from samc.learners.exporting import export as write


def export(
    run: Annotated[Path, typer.Argument(help="a run's folder, or a file of learner.save")],
    onnx: Annotated[Path | None, typer.Option(help="an ONNX file to write, .onnx; needs samc[onnx]")] = None,
    torchscript: Annotated[Path | None, typer.Option(help="a TorchScript file to write, .pt")] = None,
) -> None:
    """Write the network that answers, with the heads of all tasks, to a file that needs no samc.

    Images go in as floats in [0, 1], logits of every head's classes come out; the file says what each column is.

    Examples:

      samc export runs/first --onnx first.onnx

      samc export runs/first --torchscript first.pt
    """
    wanted = [(path, suffix) for path, suffix in ((onnx, ".onnx"), (torchscript, ".pt")) if path is not None]
    if not wanted:
        raise ConfigError("say what to write: --onnx FILE or --torchscript FILE")
    for path, suffix in wanted:
        if path.suffix != suffix:
            raise ConfigError(f"{path} should end in {suffix}")
    learner = load(run)
    logits = sum(map(len, learner.model.heads.choices.values()))
    for path, _ in wanted:
        write(learner, path)
        shape = "x".join(map(str, learner.image_shape))
        say(f"{path}: {path.stat().st_size:,} bytes; images of {shape} in, {logits} logits out")
