"""The names of a stream's classes, as one would say them; where a stream has only numbers, there are none."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from samc.streams.base import Stream
from samc.streams.synthetic import class_names as synthetic_names


@cache
def listed() -> dict[str, Any]:
    """What class_names.yaml holds."""
    return yaml.safe_load(files("samc.streams").joinpath("class_names.yaml").read_text(encoding="utf-8"))


def class_names(stream: Stream) -> tuple[str, ...] | None:
    """The name of every class, mini-ImageNet's synsets in words; None where classes are numbers and nothing else."""
    if stream.class_names == tuple(map(str, range(stream.num_classes))):
        return None
    return tuple(map(in_words, stream.class_names))


def in_words(name: str) -> str:
    """A name of a data set's files as it is said."""
    if name in (*listed()["cifar100"], *listed()["cifar100-domains"]):
        return name.replace("_", " ")
    return listed()["mini-imagenet"].get(name, name)


def names_without_data(stream: str) -> tuple[str, ...] | None:
    """The same by a stream's name alone, for records that were made before they had names; None where it is unknown."""
    known = {
        "split-synthetic": synthetic_names(),
        "split-cifar10": tuple(listed()["cifar10"]),
        "split-cifar100": tuple(listed()["cifar100"]),
        "split-mini-imagenet": tuple(listed()["mini-imagenet"]),
    }
    return tuple(map(in_words, known[stream])) if stream in known else None


def name_of(label: int, names: Sequence[str] | None) -> str:
    """A class by its name, or by its number where it has none."""
    return names[label] if names is not None and 0 <= label < len(names) else f"class {label}"
