"""Streams of tasks: the embedded one, the paper's three, others by name, your own files, what Python has."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from samc.config import ROTATED, RunConfig
from samc.errors import ConfigError, unknown
from samc.files import expanded
from samc.streams.base import Dataset, Stream, Task, split
from samc.streams.cifar import load_cifar10, load_cifar100, load_cifar100_domains
from samc.streams.core50 import load_core50
from samc.streams.custom import load_folder, load_npz
from samc.streams.fetch import data_folder
from samc.streams.mini_imagenet import load_mini_imagenet
from samc.streams.mnist import PERMUTATIONS, load_mnist, permuted
from samc.streams.own_data import stream_of
from samc.streams.packages import PACKAGES, is_packaged, load_packaged
from samc.streams.rotated import rotated
from samc.streams.synthetic import CLASSES_PER_TASK, load_synthetic, split_synthetic
from samc.streams.tiny_imagenet import load_tiny_imagenet

PAPER: dict[str, tuple[Callable[[Path], Dataset], int]] = {
    "split-cifar10": (load_cifar10, 2),
    "split-cifar100": (load_cifar100, 5),
    "split-mini-imagenet": (load_mini_imagenet, 5),
}
# the paper's streams: how to read each, and its classes per task
CLASSIC: dict[str, tuple[Callable[[Path], Dataset], int]] = {
    "split-mnist": (load_mnist, 2),
    "split-tiny-imagenet": (load_tiny_imagenet, 20),
}
# others that are cut by class
EMBEDDED = "split-synthetic"
DOMAINS: dict[str, Callable[[Path], Dataset]] = {"split-cifar100-domains": load_cifar100_domains}
# streams whose tasks have the same classes
PERMUTED = "permuted-mnist"
CORE50 = {"core50": "ni", "core50-nc": "nc"}
OWN: dict[str, Callable[[Path, int | None], Dataset]] = {"npz:": load_npz, "folder:": load_folder}
NAMED = (EMBEDDED, *PAPER, *CLASSIC, *DOMAINS, PERMUTED, *CORE50)
# streams that need no path
NAMES = (*NAMED, *(f"{prefix}PATH" for prefix in OWN), *(f"{prefix}NAME" for prefix in PACKAGES), f"{ROTATED}STREAM")


def open_stream(
    name: str, *, data_dir: Path | None = None, image_size: int | None = None, seed: int = 0, **cut: Any
) -> Stream:
    """A stream by the name that the command line uses; `cut` is what `split` takes."""
    plain = name.removeprefix(ROTATED)
    if name == EMBEDDED and image_size is None:
        return split_synthetic(seed, **cut)
    dataset, classes_per_task = read(plain, name, data_dir, image_size, seed, cut)
    if plain == name:
        return split(dataset, **{"classes_per_task": classes_per_task, "seed": seed, **cut})
    if dataset.domain is not None:
        raise ConfigError(f"{plain} has tasks of the same classes already; leave {ROTATED} out")
    tasks = len(dataset.class_names) // classes_per_task if classes_per_task else cut.get("n_tasks")
    if tasks is None:
        raise ConfigError(f"say how many angles {name} shall have: --n-tasks 5")
    return split(replace(rotated(dataset, tasks), name=name), seed=seed, **cut)


def read(
    plain: str, name: str, data_dir: Path | None, image_size: int | None, seed: int, cut: dict[str, Any]
) -> tuple[Dataset, int | None]:
    """The images behind a stream, and its classes per task, if that is known; `name` is what was asked for."""
    for prefix, load in OWN.items():
        if plain.startswith(prefix):
            return load(expanded(plain.removeprefix(prefix)), image_size), None
    if is_packaged(plain):
        return load_packaged(plain, data_folder(data_dir), image_size), None
    if plain not in NAMED:
        raise unknown("dataset", name, NAMES)
    if plain in CORE50:  # it has an order of its own, in which its domains are numbered
        order = cut.pop("class_order", RunConfig.class_order)
        return replace(load_core50(data_folder(data_dir), CORE50[plain], image_size, order, seed), name=plain), None
    if image_size is not None:
        raise ConfigError(f"--image-size is for your own images; those of {plain} have their size")
    if plain == EMBEDDED:
        return load_synthetic(seed), CLASSES_PER_TASK
    classes_per_task = None
    if plain == PERMUTED:
        tasks = PERMUTATIONS if cut.get("n_tasks") is None else cut["n_tasks"]
        dataset = permuted(load_mnist(data_folder(data_dir)), tasks, seed)
    elif plain in DOMAINS:
        dataset = DOMAINS[plain](data_folder(data_dir))
    else:
        load_named, classes_per_task = (PAPER | CLASSIC)[plain]
        dataset = load_named(data_folder(data_dir))
    return replace(dataset, name=plain), classes_per_task


def configured_stream(config: RunConfig, data_dir: Path | None) -> Stream:
    """The stream that a run's config names."""
    return open_stream(
        config.dataset,
        data_dir=data_dir,
        image_size=config.image_size,
        seed=config.seed,
        n_tasks=config.n_tasks,
        samples_per_task=config.samples_per_task,
        class_order=config.class_order,
        tested_on=config.tested_on,
    )


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
    "configured_stream",
    "open_stream",
    "split",
    "split_cifar10",
    "split_cifar100",
    "split_mini_imagenet",
    "split_synthetic",
    "stream_of",
]
