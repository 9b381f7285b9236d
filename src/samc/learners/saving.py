"""A learner as one file: method, settings, network, memory and random states, to be taken up anywhere."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from samc.errors import ConfigError, DataError
from samc.files import folders_with, write_output
from samc.learners.arguments import checked_shape
from samc.models.backbones import BACKBONES, TIMM, build_backbone
from samc.state import file_of, load_state

FILE = "learner.safetensors"
# its name in the folder of a run
KIND = "learner"


def content_of(learner: Any) -> dict[str, Any]:
    return {
        "method": type(learner).__name__,
        "settings": learner.settings.as_dict(),
        "own_network": learner.own_network,
        "num_classes": learner.num_classes,
        "image_shape": learner.image_shape,
        "mean": learner.mean,
        "std": learner.std,
        "seed": learner.seed,
        "state": learner.state_dict(),
    }


def learner_file(learner: Any) -> bytes:
    """What `save_learner` would write."""
    return bytes(file_of(KIND, content_of(learner)))


def save_learner(learner: Any, path: Path, *, replace: bool) -> Path:
    write_output(path, learner_file(learner), replace=replace, taken="choose another name, or say replace=True")
    return path


def read_learner(path: Path) -> dict[str, Any]:
    """What a learner's file says, given the file or the folder of a run."""
    if path.is_dir() and not (path / FILE).exists():
        within = folders_with(FILE, path)
        name = f"name one of its runs, such as {within[0]}" if within else "give the folder of a finished run"
        raise DataError(f"{path} holds no {FILE}, which runs of earlier versions did not leave; {name}")
    return load_state(path / FILE if path.is_dir() else path, KIND)[0]


def check_network(path: str | Path, saved: dict[str, Any], model: nn.Module | None) -> None:
    """A network of the package's is made from its name; any other needs code, which no file shall bring about."""
    name = saved["settings"]["backbone"]
    by_name = not saved["own_network"] and (name in BACKBONES or name.startswith(TIMM))
    if model is None and not by_name:
        raise ConfigError(f"{path} has a network of your own, {name}; make it and give it: samc.load(..., model=net)")
    if model is not None and by_name:
        raise ConfigError(f"{path} has the network {name}, which is made from its name; leave model= out")


def check_sizes(saved: dict[str, Any], *, by_name: bool) -> None:
    """Refuse a file that would have a network made of more numbers than it holds of one: a ValueError says so."""
    held, classes = saved["state"]["model"], saved["state"]["num_classes"]
    sizes = {name: value.numel() for name, value in held.items() if isinstance(value, Tensor)}
    heads = sum(size for name, size in sizes.items() if name.startswith("heads."))
    if saved["num_classes"] not in (None, classes) or classes > heads:
        raise ValueError(f"it says {classes} classes and has not as many")
    if by_name and parameters_of(saved["settings"]["backbone"], saved["image_shape"]) > sum(sizes.values()):
        raise ValueError("it has fewer weights than its network")


def parameters_of(backbone: str, image_shape: Any) -> int:
    """How many numbers a network has, without making them."""
    shape = checked_shape(image_shape)
    try:
        with torch.device("meta"):
            made = build_backbone(backbone, shape)
    except Exception:
        if backbone in BACKBONES:
            raise
        return 0  # some of timm's cannot be made so
    return sum(value.numel() for value in made.state_dict().values())
