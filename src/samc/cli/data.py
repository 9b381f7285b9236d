"""`samc data`: which data sets are here, whether they are intact, and how to get them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Column, Table

from samc.cli.drawing import Terminal, draw
from samc.cli.progress import live_progress, reading_bar
from samc.cli.terminal import say
from samc.errors import DataError, unknown
from samc.streams import Dataset, cifar, core50, mini_imagenet, mnist, tiny_imagenet, trees
from samc.streams.base import check as check_dataset
from samc.streams.fetch import data_folder, fetch
from samc.streams.packages import is_packaged

app = typer.Typer(
    help="The data sets: list, check and fetch them.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


@dataclass(frozen=True)
class Expected:
    """What a data set should hold: in all, and of each class where classes are alike; where it is, how it is read."""

    layouts: tuple[str, ...]
    classes: int
    per_class: int | None
    test_per_class: int | None
    find: Callable[[Path], Path | None]
    load: Callable[[Path], Dataset]
    images: tuple[int, int] | None = None


KNOWN = {
    "cifar10": Expected(
        ("cifar-10-batches-py/", "cifar-10-batches-bin/"), 10, 5000, 1000,
        partial(cifar.find_folder, "cifar10"), cifar.load_cifar10,
    ),
    "cifar100": Expected(
        ("cifar-100-python/", "cifar-100-binary/"), 100, 500, 100,
        partial(cifar.find_folder, "cifar100"), cifar.load_cifar100,
    ),
    "mini-imagenet": Expected(
        ("mini-imagenet/{train,test}.npz", "mini-imagenet/{train,test}/<wnid>/*.jpg"), 100, 500, 100,
        mini_imagenet.find_folder, mini_imagenet.load_mini_imagenet,
    ),
    "mnist": Expected(
        ("mnist/*-ubyte.gz", "mnist/*-ubyte", "MNIST/raw/*-ubyte.gz"), 10, None, None,
        mnist.find_folder, mnist.load_mnist, (60_000, 10_000),
    ),
    "tiny-imagenet": Expected(
        (tiny_imagenet.ARCHIVE, *(f"{folder}/" for folder in tiny_imagenet.FOLDERS)), 200, 500, 50,
        partial(trees.find_tree, folders=tiny_imagenet.FOLDERS, archive=tiny_imagenet.ARCHIVE),
        tiny_imagenet.load_tiny_imagenet,
    ),
    "core50": Expected(
        (core50.ARCHIVE, *(f"{folder}/" for folder in core50.FOLDERS)), 10, None, None,
        partial(trees.find_tree, folders=core50.FOLDERS, archive=core50.ARCHIVE),
        core50.load_core50, (119_894, 44_972),
    ),
}  # fmt: skip

DataDir = Annotated[
    Path | None,
    typer.Option(help="Where the data sets are; by default $SAMC_DATA, or else samc in your cache folder."),
]


@app.command("list")
def list_sets(data_dir: DataDir = None) -> None:
    """Show every data set, the layouts that are accepted, and where it was found.

    Examples:

      samc data list

      samc data list --data-dir ~/data
    """
    folder = data_folder(data_dir)
    table = Table("data set", Column("layouts accepted", overflow="fold"), Column("found", overflow="fold"))
    for name, known in KNOWN.items():
        found = find(name, folder)
        table.add_row(name, "\n".join(known.layouts), f"{found.name}/" if found else "no")
    say(f"in {folder}:")
    draw(table)


@app.command()
def check(
    name: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(KNOWN)}; by default all that are here.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Read the data sets whole and verify checksums, shapes and counts.

    Examples:

      samc data check

      samc data check cifar100 --data-dir ~/data
    """
    if name is not None and name not in KNOWN:
        raise unknown("data set", name, KNOWN)
    folder = data_folder(data_dir)
    if name is None and not any(find(known, folder) for known in KNOWN):
        raise DataError(f"no data set is in {folder}; get one with: samc data fetch cifar100")
    damaged = []
    for data_set in KNOWN if name is None else [name]:
        if name is None and find(data_set, folder) is None:
            say(f"{data_set}: missing from {folder}")
            continue
        try:
            say(f"{data_set}: {verdict(data_set, folder)}")
        except DataError as error:
            damaged.append(str(error))
    if damaged:
        raise DataError("; ".join(damaged))


def find(name: str, folder: Path) -> Path | None:
    """Where a data set is, or None."""
    return KNOWN[name].find(folder)


def verdict(name: str, folder: Path) -> str:
    """What a data set that could be read holds, and whether that is what it is known to hold."""
    known = KNOWN[name]
    with reading_shown(name):
        dataset = known.load(folder)
    check_dataset(dataset)
    classes, size = len(dataset.class_names), "x".join(str(side) for side in dataset.x.shape[1:])
    found = f"{len(dataset.y):,} training and {len(dataset.test_y):,} test images of {size}, {classes} classes"
    train, test = (np.bincount(labels, minlength=classes) for labels in (dataset.y, dataset.test_y))
    if known.per_class is None or known.test_per_class is None:
        if classes == known.classes and (len(dataset.y), len(dataset.test_y)) == known.images:
            return f"ok, {found}; {dataset.source}"
        usual = f"{' and '.join(f'{count:,}' for count in known.images or ())} images of {known.classes} classes"
        return f"readable but unusual, {found}, where {usual} are usual; {dataset.source}"
    if classes == known.classes and (train == known.per_class).all() and (test == known.test_per_class).all():
        return f"ok, {found}, {known.per_class:,} and {known.test_per_class:,} per class; {dataset.source}"
    return (
        f"readable but unusual, {found}, {train.min():,} to {train.max():,} and {test.min():,} to {test.max():,} "
        f"per class where {known.classes} classes with {known.per_class:,} and {known.test_per_class:,} are usual; "
        f"{dataset.source}"
    )


@contextmanager
def reading_shown(name: str) -> Iterator[None]:
    """A bar of the images that are read, where there are so many that it takes a while."""
    with live_progress(Terminal(stderr=True)) as progress, reading_bar(progress, name):
        yield


@app.command("fetch")
def fetch_set(
    name: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(KNOWN)}, torchvision:NAME or hf:NAME; mini-imagenet you have to bring yourself."
        ),
    ],
    data_dir: DataDir = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="A mirror of the official archive, of mnist the folder of its files; md5 has to be the same."
        ),
    ] = None,
) -> None:
    """Download an official archive, verify it and unpack it; what is there already is left alone.

    Examples:

      samc data fetch cifar100

      samc data fetch cifar10 --url file:///media/cifar-10-python.tar.gz

      samc data fetch torchvision:FashionMNIST
    """
    columns = (TextColumn(name), BarColumn(12), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Terminal(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        bar = bars.add_task(name, total=None, visible=False)
        folder = fetch(
            name,
            data_folder(data_dir),
            url=url,
            progress=lambda done, total: bars.update(bar, completed=done, total=total, visible=True),
        )
        downloaded = bars.tasks[0].visible
    say(f"{name}: {'in' if is_packaged(name) else 'fetched to' if downloaded else 'already intact in'} {folder}")
