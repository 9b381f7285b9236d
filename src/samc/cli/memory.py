"""`samc memory`: measure, draw and audit what a run remembers."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from jaxtyping import UInt8
from rich.table import Table

from samc.cli.class_names import names_of_run
from samc.cli.drawing import draw
from samc.cli.naming import check_ending
from samc.cli.terminal import say
from samc.config import RunConfig, check_setting
from samc.errors import DataError
from samc.files import expanded, folders_with, write_output
from samc.memory import EpisodicMemory
from samc.memory.audit import audit as audit_file
from samc.memory.codec import MAX_UNKNOWN_CLASSES
from samc.memory.file import FILE, container_bytes
from samc.memory.file import load as load_file
from samc.record import FILE as RECORD
from samc.record import RunRecord
from samc.streams import NAMED, open_stream
from samc.streams.images import read_arrays

FAILED = 1
# the exit code of an audit that found something
Kept = dict[int, tuple[int, int]]
# by task, how many pixels of its images are stored, and how many they have
MOST_ROWS = 200
# of a table of tasks

app = typer.Typer(
    help="What a run remembers: measure it, draw it, audit it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

File = Annotated[Path, typer.Argument(help="a memory's file, or the folder of a run that left one")]


@app.command()
def info(file: File) -> None:
    """Show where the bytes are: by part and by task, and what they hold.

    Examples:

      samc memory info runs/first

      samc memory info runs/first/memory.samc
    """
    path = located(file)
    memory = load_file(path)
    kept = kept_pixels(memory)
    draw(summary_table(memory, path, kept), parts_table(memory, container_bytes(path)), tasks_table(memory, kept))


@app.command()
def show(
    file: File,
    out: Annotated[Path, typer.Option(help="the picture to write; one that is there is replaced")],
    per_task: Annotated[int, typer.Option(min=1, max=18, help="how many images of each task")] = 6,
) -> None:
    """Draw some images of each task: the pixels that are kept, and the image as it comes back.

    Classes have their names where the run's record lies beside the memory and knows them.
    Dropped pixels come back from the gist where the codec has one, else they are completed by Telea's rule.

    Examples:

      samc memory show runs/first --out memory.png

      samc memory show runs/first/memory.samc --out memory.png --per-task 10
    """
    from samc.report.memory_picture import draw_memory  # noqa: PLC0415  (matplotlib takes long to import)

    path = located(file)
    memory = load_file(path)
    if not memory.tasks:
        raise DataError(f"{file} remembers no image; there is nothing to show")
    check_ending("--out", out, "a picture", ".png")
    picture = draw_memory(memory, per_task=per_task, class_names=names_of_run(path))
    write_output(out, picture, replace=True, taken="choose another --out")
    say(f"picture: {out}")


@app.command()
def audit(
    file: File,
    against: Annotated[
        str | None,
        typer.Option(help="the originals: an npz file with x, uint8, (n, height, width, 3), or a data set's name"),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="where the data sets are, if one is named")] = None,
    seed: Annotated[int, typer.Option(help="of split-synthetic, if that is named")] = 0,
) -> None:
    """Decode everything, add up the bytes, and search the file for dropped pixels; the verdict is one line.

    Exits with 1 if something is wrong. Given the originals, it searches the file for runs of their dropped pixels and
    compares what comes back with the truth.

    Examples:

      samc memory audit runs/first

      samc memory audit runs/first/memory.samc --against my-data.npz

      samc memory audit runs/second --against split-cifar100
    """
    result = audit_file(located(file), None if against is None else read_originals(against, data_dir, seed))
    say(result.verdict)
    raise typer.Exit(0 if result.passed else FAILED)


def located(path: Path) -> Path:
    """The path of a memory file; a run's folder stands for the one that it left."""
    if path.is_dir() and not (path / FILE).exists():
        if (path / RECORD).exists():
            model = RunRecord.load(path).config["model"]
            raise DataError(
                f"the run in {path} left no {FILE}: {model} keeps no images, it was removed, or the "
                f"record was saved from Python: then learner.memory.save({str(path / FILE)!r}) writes it"
            )
        within = folders_with(FILE, path)
        raise DataError(f"{path} holds no {FILE}; name {within[0] if within else 'the folder of a run'}")
    return path / FILE if path.is_dir() else path


def read_originals(against: str, data_dir: Path | None, seed: int) -> UInt8[np.ndarray, "n c h w"]:
    """Every training image of a data set, or of the user's own arrays."""
    check_setting(RunConfig, "seed", seed)
    if against in NAMED:
        return np.concatenate([task.x.numpy() for task in open_stream(against, data_dir=data_dir, seed=seed)])
    path = expanded(against.removeprefix("npz:"))
    if not path.exists():
        raise DataError(f"--against {against}: no such file; give an npz file with x, or one of {', '.join(NAMED)}")
    x = read_arrays(path, needed=("x",))["x"]
    x = x[..., None] if x.ndim == 3 else x
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[3] not in (1, 3):
        raise DataError(f"{path}: x is uint8 (n, height, width, 1 or 3), got {x.dtype} {x.shape}; convert it first")
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def summary_table(memory: EpisodicMemory, path: Path, kept: Kept) -> Table:
    """What the memory is, one line per property."""
    table = Table(title=str(path), title_justify="left", title_style="bold", show_header=False)
    channels, height, width = memory.codec.image_shape
    images = sum(memory.images_per_task.values())
    unknown = "unknown, at most " if memory.num_classes == MAX_UNKNOWN_CLASSES else ""
    table.add_row("codec", memory.codec.spec)
    table.add_row("images", f"{images:,} of {height}x{width}, {channels} {'channel' if channels == 1 else 'channels'}")
    table.add_row("kept", f"{kept_share(kept.values()):.1%} of their pixels")
    table.add_row("raw, they would take", f"{images * int(np.prod(memory.codec.image_shape)):,} bytes")
    table.add_row("classes", f"{unknown}{memory.num_classes:,}")
    table.add_row("budget", f"{memory.budget}, counted in {memory.accounting}")
    table.add_row("file", f"{path.stat().st_size:,} bytes")
    return table


def parts_table(memory: EpisodicMemory, container: int) -> Table:
    """Every byte of the file, by what it is for."""
    table = Table("part", title="bytes by part", title_justify="left", title_style="bold", show_footer=True)
    table.columns[0].footer = "file"
    sizes = memory.nbytes_by_part | {"container": container}
    total, images = sum(sizes.values()), max(1, sum(memory.images_per_task.values()))
    table.add_column("bytes", f"{total:,}", justify="right")
    table.add_column("share", justify="right")
    table.add_column("per image", f"{total / images:,.1f}", justify="right")
    for name, size in sizes.items():
        table.add_row(name, f"{size:,}", f"{size / total:.1%}", f"{size / images:,.1f}")
    return table


def tasks_table(memory: EpisodicMemory, kept: Kept) -> Table:
    """Images and bytes of each task."""
    table = Table("task", title="bytes by task", title_justify="left", title_style="bold")
    for name in ("bytes", "images", "ever offered", "kept", "per image"):
        table.add_column(name, justify="right")
    for task, held in islice(memory.by_task.items(), MOST_ROWS):
        count = len(held.images)
        share = f"{kept_share([kept[task]]):.1%}" if count else "-"
        per_image = f"{held.nbytes / count:,.1f}" if count else "-"
        table.add_row(str(task + 1), f"{held.nbytes:,}", f"{count:,}", f"{held.offered:,}", share, per_image)
    if len(memory.by_task) > MOST_ROWS:
        table.add_row(f"{len(memory.by_task) - MOST_ROWS:,} more")
    return table


def kept_pixels(memory: EpisodicMemory) -> Kept:
    """Every image is decoded once, few at a time."""
    kept = dict.fromkeys(memory.by_task, (0, 0))
    for task in memory.by_task:
        for _, _, mask in memory.decoded([task]):
            kept[task] = kept[task][0] + int(mask.sum()), kept[task][1] + mask.size
    return kept


def kept_share(counts: Iterable[tuple[int, int]]) -> float:
    """Of all pixels, the share that is stored."""
    kept, total = (sum(numbers) for numbers in zip((0, 0), *counts, strict=True))
    return kept / max(1, total)
