"""The methods: one file each, all behind the contract of `base.Learner`."""

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn

from samc.config import RunConfig
from samc.errors import ConfigError, DataError, UserError, unknown
from samc.learners.agem import AGEM
from samc.learners.base import NetworkLearner
from samc.learners.contract import Learner, StepStats
from samc.learners.der import DER
from samc.learners.ebm import EBM
from samc.learners.eec import EEC
from samc.learners.er import ER
from samc.learners.ewc import EWC
from samc.learners.finetune import Finetune
from samc.learners.fitting import check_kept
from samc.learners.gem import GEM
from samc.learners.icarl import ICaRL
from samc.learners.joint import Joint
from samc.learners.lwf import LwF
from samc.learners.mer import MER
from samc.learners.samc import SAMC
from samc.learners.saving import check_network, check_sizes, read_learner
from samc.learners.scenario import Scenario
from samc.memory import budget_of
from samc.presets import resolve
from samc.streams.base import Stream

LEARNERS: dict[str, type[NetworkLearner]] = {
    "finetune": Finetune,
    "joint": Joint,
    "ewc": EWC,
    "lwf": LwF,
    "icarl": ICaRL,
    "gem": GEM,
    "agem": AGEM,
    "er": ER,
    "der": DER,
    "mer": MER,
    "ebm": EBM,
    "eec": EEC,
    "samc": SAMC,
}


def method(name: str) -> type[NetworkLearner]:
    if name not in LEARNERS:
        raise unknown("model", name, LEARNERS)
    return LEARNERS[name]


def configure(given: dict[str, Any]) -> tuple[RunConfig, dict[str, Any]]:
    """The config of a run from what was given, over preset over defaults; and what the preset contributed."""
    return resolve(given, method(given.get("model", RunConfig.model)).Settings)


def build(config: RunConfig, stream: Stream, device: torch.device) -> NetworkLearner:
    """The learner that a config describes, for a stream."""
    # the terms of a comparison make sense for a method without a memory too
    shape, classes = stream.image_shape, stream.num_classes
    budget_of(shape, classes, config.buffer_size, config.accounting, config.memory_bytes)  # type: ignore[arg-type]
    settings = config.settings.on(stream.name, stream.source).as_dict()
    for name in config.settings.idle():
        del settings[name]
    known = Scenario(settings["scenario"], settings["boundaries"]).declared(enumerate(stream.task_classes))
    return method(config.model)(
        stream.num_classes,
        stream.image_shape,
        task_classes=[classes for _, classes in known],
        seed=config.seed,
        device=device,
        **settings,
    )


def load(path: str | Path, *, model: nn.Module | None = None, device: str | torch.device = "cpu") -> NetworkLearner:
    """The learner that `learner.save` has written. A network of your own is made by you, and given as `model`.

    Whatever number of classes it was made for, its heads grow if others come.
    """
    saved = read_learner(Path(path))
    try:
        return made_again(path, saved, model, device)
    except UserError:
        raise
    # a stranger's file may hold anything under a checksum that fits, and each part then fails in its own way
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{path} holds no whole learner ({reason}); take another copy of it") from None


def made_again(
    path: str | Path, saved: dict[str, Any], model: nn.Module | None, device: str | torch.device
) -> NetworkLearner:
    """The learner of a file's content, once that is known to be in proportion to the file."""
    named = [kind for kind in LEARNERS.values() if kind.__name__ == saved["method"]]
    if not named:
        missing = f"{path} is a learner of {saved['method']}, which is no method of samc.LEARNERS"
        raise ConfigError(f"{missing}; add it: samc.LEARNERS['name'] = {saved['method']}")
    check_network(path, saved, model)
    settings = named[0].Settings(**saved["settings"])
    bare = settings.without_files()
    given = {name: value for name, value in bare.as_dict().items() if name not in bare.idle()}
    if model is not None:
        del given["backbone"]
    made = {name: saved[name] for name in ("num_classes", "image_shape", "mean", "std", "seed")}
    check_sizes(saved, by_name=model is None)
    learner = named[0](**made, model=model, device=device, **given)
    learner.settings, learner.own_network = settings, saved["own_network"]
    learner.load_state_dict(saved["state"])
    check_kept(learner)
    learner.let_heads_grow()
    return learner


def described(name: str) -> str:
    """A method in one line: the first of its own file."""
    kind = method(name)
    text = inspect.getdoc(inspect.getmodule(kind)) or kind.__doc__ or name
    return text.strip().splitlines()[0]


__all__ = ["LEARNERS", "Learner", "NetworkLearner", "StepStats", "build", "configure", "described", "load", "method"]
