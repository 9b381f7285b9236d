"""The methods: one file each, all behind the contract of `base.Learner`."""

import inspect
from typing import Any

import torch

from samc.config import RunConfig, resolve
from samc.errors import unknown
from samc.learners.agem import AGEM
from samc.learners.base import Learner, NetworkLearner, StepStats
from samc.learners.der import DER
from samc.learners.ebm import EBM
from samc.learners.eec import EEC
from samc.learners.er import ER
from samc.learners.ewc import EWC
from samc.learners.finetune import Finetune
from samc.learners.gem import GEM
from samc.learners.icarl import ICaRL
from samc.learners.joint import Joint
from samc.learners.lwf import LwF
from samc.learners.mer import MER
from samc.learners.samc import SAMC
from samc.memory import budget_of
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
    return method(config.model)(
        stream.num_classes,
        stream.image_shape,
        task_classes=stream.task_classes,
        seed=config.seed,
        device=device,
        **settings,
    )


def described(name: str) -> str:
    """A method in one line: the first of its own file."""
    kind = method(name)
    text = inspect.getdoc(inspect.getmodule(kind)) or kind.__doc__ or name
    return text.strip().splitlines()[0]


__all__ = ["LEARNERS", "Learner", "NetworkLearner", "StepStats", "build", "configure", "described", "method"]
