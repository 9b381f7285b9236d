"""`samc data`: which data sets are here, whether they are intact, and how to get them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Column, Table

from samc.cli.drawing import draw, say
from samc.errors import DataError, unknown
from samc.streams import Dataset, cifar, mini_imagenet
from samc.streams.base import check as check_dataset
from samc.streams.fetch import data_folder, fetch

app = typer.Typer(
    help="The data sets: list, check and fetch them.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


@dataclass(frozen=True)
class Expected:
    """What a data set should hold."""

    layouts: tuple[str, ...]
    classes: int
    per_class: int
    test_per_class: int


KNOWN = {
    "cifar10": Expected(("cifar-10-batches-py/", "cifar-10-batches-bin/"), 10, 5000, 1000),
    "cifar100": Expected(("cifar-100-python/", "cifar-100-binary/"), 100, 500, 100),
    "mini-imagenet": Expected(
        ("mini-imagenet/{train,test}.npz", "mini-imagenet/{train,test}/<wnid>/*.jpg"), 100, 500, 100
    ),
}

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
    return mini_imagenet.find_folder(folder) if name == mini_imagenet.FOLDER else cifar.find_folder(name, folder)


def load(name: str, folder: Path) -> Dataset:
    """Read a data set, with every check there is."""
    loaders = {"cifar10": cifar.load_cifar10, "cifar100": cifar.load_cifar100}
    dataset = loaders.get(name, mini_imagenet.load_mini_imagenet)(folder)
    check_dataset(dataset)
    return dataset


def verdict(name: str, folder: Path) -> str:
    """What a data set that could be read holds, and whether that is what it is known to hold."""
    known, dataset = KNOWN[name], load(name, folder)
    classes, size = len(dataset.class_names), "x".join(str(side) for side in dataset.x.shape[1:])
    found = f"{len(dataset.y):,} training and {len(dataset.test_y):,} test images of {size}, {classes} classes"
    train, test = (np.bincount(labels, minlength=classes) for labels in (dataset.y, dataset.test_y))
    if classes == known.classes and (train == known.per_class).all() and (test == known.test_per_class).all():
        return f"ok, {found}, {known.per_class:,} and {known.test_per_class:,} per class; {dataset.source}"
    return (
        f"readable but unusual, {found}, {train.min():,} to {train.max():,} and {test.min():,} to {test.max():,} "
        f"per class where {known.classes} classes with {known.per_class:,} and {known.test_per_class:,} are usual; "
        f"{dataset.source}"
    )


@app.command("fetch")
def fetch_set(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(KNOWN)}; the last you have to bring yourself.")],
    data_dir: DataDir = None,
    url: Annotated[
        str | None, typer.Option(help="A mirror of the official archive; its md5 has to be the same.")
    ] = None,
) -> None:
    """Download an official archive, verify it and unpack it; what is there already is left alone.

    Examples:

      samc data fetch cifar100

      samc data fetch cifar10 --url file:///media/cifar-10-python.tar.gz
    """
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        bar = bars.add_task(name, total=None, visible=False)
        folder = fetch(
            name,
            data_folder(data_dir),
            url=url,
            progress=lambda done, total: bars.update(bar, completed=done, total=total, visible=True),
        )
        downloaded = bars.tasks[0].visible
    say(f"{name}: {'fetched to' if downloaded else 'already intact in'} {folder}")
