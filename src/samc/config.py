"""Settings of a run: one frozen dataclass is the command line's flags, the presets' keys and the record's config."""

import math
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from samc.errors import ConfigError, unknown

LARGEST_IMAGE = 1024
# a side that a network of this kind could still take; far beyond it images alone would fill the machine


def setting(default: Any, meaning: str, choices: tuple[str, ...] = ()) -> Any:
    """A field with its meaning beside it; the command line shows both."""
    meaning = f"{meaning}: {' or '.join(choices)}" if choices else meaning
    return field(default=default, metadata={"help": meaning, "choices": choices})


@dataclass(frozen=True)
class RunConfig:
    """Everything that a run's result depends on, but for the files it reads and the machine it runs on."""

    model: str = setting("samc", "the method; samc models lists them")
    dataset: str = setting(
        "split-synthetic",
        "split-synthetic, split-cifar10, split-cifar100, split-mini-imagenet, npz:PATH or folder:PATH",
    )
    preset: str = setting("auto", "named values for this stream; auto takes those made for it, none takes none")
    seed: int = setting(0, "orders the images, starts the network, draws samples")
    n_tasks: int | None = setting(None, "use the first so many tasks; for your own data, how many to cut it into")
    samples_per_task: int | None = setting(None, "use so many training images of each task instead of all")
    class_order: str = setting("natural", "natural, shuffled, or class numbers like 3,1,2")
    image_size: int | None = setting(None, "resize your own images to this many pixels a side")
    tested_on: str = setting(
        "test", "the stream's test images, or a tenth of its training images that is held out", ("test", "held-out")
    )
    n_epochs: int = setting(1, "passes over each task's images")
    batch_size: int = setting(10, "images a step")
    lr: float | None = setting(0.1, "step size of plain SGD")
    buffer_size: int = setting(10, "memory of each task: the bytes of so many whole images")
    memory_bytes: str | None = setting(None, "the budget in bytes instead: 30KB/task, or 600KB for all tasks together")
    codec: str | None = setting(
        None,
        "how images are kept, Q a quality: raw, jpeg:Q, webp:Q, thumb:N; for samc coo, bitmask or cam, each also with "
        "+deflate, gist:jpeg:Q or gist:webp:Q before +cam, focus:jpeg:Q, focus:webp:Q",
    )
    keeps: str | None = setting(
        None, "what a full memory holds of a task, instead of what the method does by itself", ("newest", "sample")
    )
    accounting: str = setting("bytes", "what counts, everything or colours only", ("bytes", "values"))
    regularization: float | None = setting(
        1.0, "weight of what holds old tasks: EWC's penalty, LwF's and iCaRL's distillation"
    )
    temperature: float | None = setting(2.0, "how much LwF softens the answers that it distils")
    fisher_images: int | None = setting(100, "images of each task from which EWC estimates what matters")
    meta_lr: float | None = setting(0.1, "MER's Reptile rate across batches; 1 goes all the way")
    within_meta_lr: float | None = setting(1.0, "MER's Reptile rate within a batch")
    meta_batches: int | None = setting(1, "MER's batches, each mixed with memory anew, to a Reptile step")
    inner_steps: int | None = setting(1, "MER's SGD steps, each on a part, to a batch")
    encoder_steps: int | None = setting(200, "Adam steps of EEC's autoencoder after each task")
    encoder_lr: float | None = setting(0.003, "step size of EEC's autoencoder")
    content_weight: float | None = setting(0.1, "share of the classifier's features in EEC's reconstruction loss")
    memory_strength: float | None = setting(0.5, "GEM's margin: the least weight of each past task in a projection")
    constraints: str | None = setting(
        "all", "past tasks that a step of gem or samc must not harm: all, sampled:K (drawn anew), or their mean"
    )
    reference_precision: str | None = setting(
        "float32", "of past tasks' gradients; the batch's own is float32", ("float32", "bf16")
    )
    replay: str | None = setting("gem", "how memory is used", ("gem", "agem", "er"))
    threshold: float | None = setting(0.7, "a pixel is kept if its saliency in [0, 1] is above this")
    saliency_target: str | None = setting("label", "class that Grad-CAM explains", ("label", "predicted"))
    saliency_mode: str | None = setting(
        "eval", "mode in which Grad-CAM looks; train moves statistics", ("eval", "train")
    )
    completion: str | None = setting(
        "telea+autoencoder",
        "what fills dropped pixels: zero, telea, navier-stokes, autoencoder, or a rule and it: telea+autoencoder",
    )
    autoencoder_output: str | None = setting(
        "correction", "what the autoencoder paints after a rule", ("whole", "correction")
    )
    autoencoder_steps: int | None = setting(100, "SGD steps of the autoencoder after each task")
    autoencoder_lr: float | None = setting(0.1, "step size of the autoencoder")

    def __post_init__(self) -> None:
        for item in fields(self):
            value, choices = getattr(self, item.name), item.metadata["choices"]
            if choices and value is not None and value not in choices:
                raise unknown(flag(item.name), value, choices)
            if value == "":
                raise ConfigError(f"{flag(item.name)} is empty; leave it out, or give it a value")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"--seed is a whole number from 0 to {2**63 - 1}, got {self.seed}")
        for item in fields(self):
            name, value = item.name, getattr(self, item.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{flag(name)} is a finite number, got {value}")
        for name in ("n_epochs", "batch_size", "image_size", "n_tasks", "autoencoder_steps"):
            value, least = getattr(self, name), 0 if name == "autoencoder_steps" else 1
            if value is not None and value < least:
                raise ConfigError(f"{flag(name)} is a whole number from {least}, got {value}")
        if self.image_size is not None and self.image_size > LARGEST_IMAGE:
            raise ConfigError(f"--image-size is at most {LARGEST_IMAGE:,} pixels a side, got {self.image_size}")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


SHARED = ("model", "dataset", "preset", "seed", "n_tasks", "samples_per_task", "class_order", "image_size", "tested_on",
          "n_epochs",
          "batch_size", "buffer_size", "memory_bytes", "accounting")  # fmt: skip
# settings that mean something for every method: buffer_size and accounting state the terms of a comparison


CONE = ("memory_strength", "constraints", "reference_precision")
# settings of GEM's cone, which ER's rule goes without


def resolve(given: dict[str, Any], used: tuple[str, ...]) -> tuple[RunConfig, dict[str, Any]]:
    """Flags over preset over defaults; returns the config and what the preset contributed.

    `used` names the method's own settings. One that was given and is not among them is refused, and in the config
    those that the method does not take are None.
    """
    base = RunConfig(**{name: value for name, value in given.items() if name in ("model", "dataset", "preset")})
    for name in given:
        if name not in (*SHARED, *used):
            raise ConfigError(f"{base.model} has no {flag(name)}; it takes {', '.join(map(flag, used))}")
    values = preset_values(base.preset, base.dataset, base.model)
    idle = {item.name: None for item in fields(RunConfig) if item.name not in (*SHARED, *used)}
    config = replace(base, **{**values, **given, **idle})
    for name in CONE if config.replay == "er" else ():
        if name in given:
            raise ConfigError(f"{flag(name)} does nothing with --replay er; add --replay gem, or leave it out")
    return config, {name: value for name, value in values.items() if name not in given}


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@cache
def presets() -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Preset, stream, method, setting: its value, and the grid that it was chosen from."""
    return yaml.safe_load(files("samc").joinpath("presets.yaml").read_text())


def preset_values(preset: str, dataset: str, model: str) -> dict[str, Any]:
    """What a preset sets for a stream and a method."""
    if preset not in ("auto", "none", *presets()):
        raise unknown("preset", preset, ("auto", "none", *presets()))
    # the best that was measured, else what the paper gives; a stream has values in one of them or in its own preset
    order = {"auto": ("best", "paper", "embedded"), "best": ("best", "paper"), "none": ()}.get(preset, (preset,))
    for name in order:
        if model in presets()[name].get(dataset, {}):
            return {setting: entry["value"] for setting, entry in presets()[name][dataset][model].items()}
    if preset in ("auto", "none") or any(dataset in presets()[name] for name in order):
        return {}
    raise ConfigError(f"preset {preset!r} has no values for {dataset}; it has {', '.join(presets()[preset])}")
