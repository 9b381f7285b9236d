"""Streams of tasks: the embedded one, the paper's three, your own files, and what your Python code has at hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from samc.errors import ConfigError, unknown
from samc.files import expanded
from samc.streams.base import Dataset, Stream, Task, split
from samc.streams.cifar import load_cifar10, load_cifar100
from samc.streams.custom import load_folder, load_npz
from samc.streams.fetch import data_folder
from samc.streams.mini_imagenet import load_mini_imagenet
from samc.streams.own_data import stream_of
from samc.streams.synthetic import split_synthetic

PAPER: dict[str, tuple[Callable[[Path], Dataset], int]] = {
    "split-cifar10": (load_cifar10, 2),
    "split-cifar100": (load_cifar100, 5),
    "split-mini-imagenet": (load_mini_imagenet, 5),
}
# the paper's streams: how to read each, and its classes per task
OWN: dict[str, Callable[[Path, int | None], Dataset]] = {"npz:": load_npz, "folder:": load_folder}
NAMES = ("split-synthetic", *PAPER, *(f"{prefix}PATH" for prefix in OWN))


def open_stream(
    name: str, *, data_dir: Path | None = None, image_size: int | None = None, seed: int = 0, **cut: Any
) -> Stream:
    """A stream by the name that the command line uses; `cut` is what `split` takes."""
    for prefix, load in OWN.items():
        if name.startswith(prefix):
            return split(load(expanded(name.removeprefix(prefix)), image_size), seed=seed, **cut)
    if name != "split-synthetic" and name not in PAPER:
        raise unknown("dataset", name, NAMES)
    if image_size is not None:
        raise ConfigError(f"--image-size is for your own images; those of {name} have their size")
    if name == "split-synthetic":
        return split_synthetic(seed, **cut)
    load_paper, classes_per_task = PAPER[name]
    dataset = replace(load_paper(data_folder(data_dir)), name=name)
    return split(dataset, classes_per_task=classes_per_task, seed=seed, **cut)


def split_cifar10(data_dir: Path | None = None, seed: int = 0, **cut: Any) -> Stream:
    """Five tasks of two classes."""
    return open_stream("split-cifar10", data_dir=data_dir, seed=seed, **cut)


def split_cifar100(data_dir: Path | None = None, seed: int = 0, **cut: Any) -> Stream:
    """Twenty tasks of five classes."""
    return open_stream("split-cifar100", data_dir=data_dir, seed=seed, **cut)


def split_mini_imagenet(data_dir: Path | None = None, seed: int = 0, **cut: Any) -> Stream:
    """Twenty tasks of five classes, 84x84."""
    return open_stream("split-mini-imagenet", data_dir=data_dir, seed=seed, **cut)


__all__ = [
    "Dataset",
    "Stream",
    "Task",
    "open_stream",
    "split",
    "split_cifar10",
    "split_cifar100",
    "split_mini_imagenet",
    "split_synthetic",
    "stream_of",
]
