"""The methods: one file each, all behind the contract of `base.Learner`."""

import inspect

import torch

from samc.config import RunConfig
from samc.errors import unknown
from samc.learners.agem import AGEM
from samc.learners.base import Learner, NetworkLearner, StepStats
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
    "mer": MER,
    "ebm": EBM,
    "eec": EEC,
    "samc": SAMC,
}

ARGUMENTS = {"buffer_size": "budget_images"}
# settings whose flag, named as elsewhere in the field, differs from the constructor's word


def method(name: str) -> type[NetworkLearner]:
    if name not in LEARNERS:
        raise unknown("model", name, LEARNERS)
    return LEARNERS[name]


def build(config: RunConfig, stream: Stream, device: torch.device) -> NetworkLearner:
    """The learner that a config describes, for a stream."""
    kind = method(config.model)
    # the terms of a comparison make sense for a method without a memory too
    budget_of(stream.image_shape, stream.num_classes, config.buffer_size, "bytes", config.memory_bytes)
    settings = {ARGUMENTS.get(name, name): getattr(config, name) for name in kind.settings}
    return kind(
        stream.num_classes,
        stream.image_shape,
        task_classes=stream.task_classes,
        seed=config.seed,
        device=device,
        **settings,
    )


def described(name: str) -> str:
    """A method in one line: the first of its own file."""
    return (inspect.getdoc(inspect.getmodule(method(name))) or "").splitlines()[0]


__all__ = ["ARGUMENTS", "LEARNERS", "Learner", "NetworkLearner", "StepStats", "build", "described", "method"]
