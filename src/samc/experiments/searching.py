"""A search: every combination of some values of a method's settings, judged on held-out training images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from types import NoneType
from typing import Any, get_args

from samc.config import RunConfig, Settings, Terms, flag, kinds
from samc.errors import ConfigError, unknown
from samc.experiments.jobs import Job, make_job
from samc.experiments.specification import Key, Variant
from samc.learners import method

TERMS = {*Terms.names(), "scenario", "boundaries"}
# what a comparison is made on: other values of these make other questions, not better answers
MOST_POINTS = 1000
HELD_OUT = {"tested_on": "held-out"}
EXAMPLE = "write --grid lr=0.03,0.1"


@dataclass(frozen=True)
class GridSearch:
    """What all runs have in common, the values of each setting that is searched, and the seeds of every point."""

    given: Mapping[str, Any]
    tried: Mapping[str, Sequence[Any]]
    seeds: Sequence[int]

    @property
    def model(self) -> str:
        return self.given.get("model", RunConfig.model)

    @property
    def dataset(self) -> str:
        return self.given.get("dataset", RunConfig.dataset)

    def jobs(self) -> dict[Key, Job]:
        """Every run, point by point; a point that cannot be is refused before the first of them."""
        jobs = {}
        for values in product(*self.tried.values()):
            point = dict(zip(self.tried, values, strict=True))
            variant = Variant(described(point), self.model, point)
            for seed in self.seeds:
                settings = {**self.given, **point, **HELD_OUT, "seed": seed}
                jobs[self.dataset, variant, seed] = make_job(settings)
        return jobs


def described(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{flag(name).removeprefix('--')} {value}" for name, value in point.items())


def parse_search(given: Mapping[str, Any], texts: Sequence[str], seeds: Sequence[int]) -> GridSearch:
    """The search that texts such as lr=0.03,0.1 name, on top of the settings that were given."""
    if "tested_on" in given or "seed" in given:
        raise ConfigError("a search is judged on held-out images of --seeds; leave --tested-on and --seed out")
    settings = method(given.get("model", RunConfig.model)).Settings
    tried: dict[str, list[Any]] = {}
    for text in texts:
        name, values = parse_values(text, settings)
        if name in tried or name in given:
            raise ConfigError(f"{flag(name)} is said twice; name all of its values in one --grid")
        tried[name] = values
    if not tried:
        raise ConfigError(f"nothing is to be searched; {EXAMPLE}")
    if prod(map(len, tried.values())) > MOST_POINTS:
        raise ConfigError(f"more than {MOST_POINTS:,} points; name fewer values, or search settings one by one")
    return GridSearch(given, tried, seeds)


def parse_values(text: str, settings: type[Settings]) -> tuple[str, list[Any]]:
    """A setting's name, and its values as the type that it has."""
    spelt, equals, rest = text.partition("=")
    name = spelt.strip().lstrip("-").replace("-", "_")
    if not equals or not rest.strip():
        raise ConfigError(f"--grid {text!r} names no values; {EXAMPLE}")
    if name in TERMS or name in RunConfig.names():
        raise ConfigError(f"{flag(name)} is a term of the comparison, the same for all points; give it as a flag")
    if name not in settings.names():
        raise unknown("setting of a grid", name, [other for other in settings.names() if other not in TERMS])
    kind = kinds(settings)[name]
    wanted = {option for option in get_args(kind) or (kind,) if option is not NoneType}
    values = [parse_value(part.strip(), wanted, name) for part in rest.split(",")]
    if len(set(values)) < len(values):
        raise ConfigError(f"--grid {text}: a value is named twice")
    return name, values


def parse_value(text: str, wanted: set[type], name: str) -> Any:
    if bool in wanted:
        if text not in ("true", "false"):
            raise ConfigError(f"{flag(name)} is true or false, got {text!r}")
        return text == "true"
    for kind in (int, float):
        if kind in wanted:
            try:
                return kind(text)
            except ValueError:
                whole = "whole " if kind is int else ""
                raise ConfigError(f"{flag(name)} takes {whole}numbers, got {text!r}") from None
    return text
