"""Presets: named values of settings by stream and method, and what they make of a run together with what was given."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from samc.config import DOMAINS, ROTATED, RunConfig, Settings
from samc.errors import ConfigError, unknown

FILE = "presets.yaml"
ANY_STREAM = "any"


@cache
def presets() -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Preset, stream (in a scenario), method, setting: its value, and the grid that it was chosen from."""
    return yaml.safe_load(files("samc").joinpath(FILE).read_text(encoding="utf-8"))


def preset_values(
    preset: str, dataset: str | None, model: str, scenario: str | None = None, boundaries: str | None = None
) -> dict[str, Any]:
    """What a preset sets for a method on a stream, or, with None, on any.

    What it has for the scenario goes first, and before that what it has where boundaries are hidden.
    """
    if preset not in ("auto", "none", *presets()):
        raise unknown("preset", preset, ("auto", "none", *presets()))
    # what is made for the embedded stream; else the best that was measured for our own method, the paper's for rivals
    auto = ("embedded", "best", "paper") if model == RunConfig.model else ("embedded", "paper")
    order = {"auto": auto, "best": ("best", "paper"), "text": ("text", "paper"), "none": ()}.get(preset, (preset,))
    streams = [unturned(dataset) if dataset else ANY_STREAM, ANY_STREAM]
    kinds = [f"/{scenario}/{boundaries}", f"/{scenario}", ""]
    for name in order:
        for stream in (f"{stream}{kind}" for kind in kinds for stream in streams):
            if model in presets()[name].get(stream, {}):
                entries = presets()[name][stream][model]
                return {setting: entry["value"] for setting, entry in entries.items()}
    named = any(model in methods for name in order for methods in presets()[name].values())
    if preset in ("auto", "none") or (not named and any(streams[0] in presets()[name] for name in order)):
        return {}
    there = [name for name, methods in presets()[preset].items() if "/" not in name and model in methods]
    if not there:
        raise ConfigError(f"preset {preset!r} has no values for {model}; leave it out, or take --preset none")
    if dataset:
        raise ConfigError(f"preset {preset!r} has no values of {model} for {dataset}; it has {', '.join(there)}")
    raise ConfigError(
        f"preset {preset!r} has no values for {model} on any stream; name one, such as {preset}:{there[0]}"
    )


def unturned(dataset: str) -> str:
    """The stream whose values one of domains takes over: the same images, shared out or turned in another way."""
    return dataset.removeprefix(ROTATED).removesuffix(DOMAINS)


def named_preset(text: str, model: str, scenario: str | None = None, boundaries: str | None = None) -> dict[str, Any]:
    """What a constructor's preset sets: paper, or paper:split-cifar10 for the values of one stream."""
    if not isinstance(text, str):
        raise ConfigError(f"preset is a name such as 'best' or 'paper:split-cifar10', got {text!r}")
    name, _, stream = text.partition(":")
    named = (known.partition("/")[0] for preset in presets().values() for known in preset)
    streams = dict.fromkeys(known for known in named if known != ANY_STREAM)
    if stream and stream not in streams:
        raise unknown("stream of a preset", stream, streams)
    return preset_values(name, stream or None, model, scenario, boundaries)


def resolve(given: Mapping[str, Any], method: type[Settings]) -> tuple[RunConfig, dict[str, Any]]:
    """Flags over preset over defaults; returns the config and what the preset contributed."""
    base = RunConfig(**{name: value for name, value in given.items() if name in RunConfig.names()})
    values = preset_values(base.preset, base.dataset, base.model, given.get("scenario"), given.get("boundaries"))
    terms = {name: value for name, value in values.items() if name in RunConfig.names() and name not in given}
    own = {name: value for name, value in given.items() if name not in RunConfig.names() or name in method.names()}
    settings = method.made(own, base.model, {name: value for name, value in values.items() if name in method.names()})
    config = replace(base, **terms, settings=settings)
    return config, {name: value for name, value in values.items() if name not in given}
