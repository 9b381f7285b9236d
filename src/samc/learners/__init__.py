"""The methods: one file each, all behind the contract of `base.Learner`."""

import torch

from samc.config import RunConfig
from samc.errors import unknown
from samc.learners.base import Learner, NetworkLearner, StepStats
from samc.learners.finetune import Finetune
from samc.learners.gem import GEM
from samc.learners.samc import SAMC
from samc.streams.base import Stream

LEARNERS: dict[str, type[NetworkLearner]] = {"finetune": Finetune, "gem": GEM, "samc": SAMC}

ARGUMENTS = {"buffer_size": "budget_images"}
# settings whose flag, named as elsewhere in the field, differs from the constructor's word


def method(name: str) -> type[NetworkLearner]:
    if name not in LEARNERS:
        raise unknown("model", name, LEARNERS)
    return LEARNERS[name]


def build(config: RunConfig, stream: Stream, device: torch.device) -> NetworkLearner:
    """The learner that a config describes, for a stream."""
    kind = method(config.model)
    settings = {ARGUMENTS.get(name, name): getattr(config, name) for name in kind.settings}
    return kind(
        stream.num_classes,
        stream.image_shape,
        task_classes=stream.task_classes,
        seed=config.seed,
        device=device,
        **settings,
    )


__all__ = ["GEM", "LEARNERS", "SAMC", "Finetune", "Learner", "NetworkLearner", "StepStats", "build", "method"]
