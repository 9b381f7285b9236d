"""A learner as one file: method, settings, network, memory and random states, to be taken up anywhere."""

from pathlib import Path
from typing import Any

from torch import nn

from samc.errors import ConfigError
from samc.files import write_output
from samc.models.backbones import BACKBONES, TIMM
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
    return load_state(path / FILE if path.is_dir() else path, KIND)[0]


def check_network(path: str | Path, saved: dict[str, Any], model: nn.Module | None) -> None:
    """A network of the package's is made from its name; any other needs code, which no file shall bring about."""
    name = saved["settings"]["backbone"]
    by_name = not saved["own_network"] and (name in BACKBONES or name.startswith(TIMM))
    if model is None and not by_name:
        raise ConfigError(f"{path} has a network of your own, {name}; make it and give it: samc.load(..., model=net)")
    if model is not None and by_name:
        raise ConfigError(f"{path} has the network {name}, which is made from its name; leave model= out")
