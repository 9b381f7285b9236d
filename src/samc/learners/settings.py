"""Settings that methods share: of every network, and of those that hold old heads to an average of it."""

from dataclasses import dataclass, replace
from typing import Any

from samc.config import Settings, setting
from samc.errors import ConfigError
from samc.learners.augmentation import AUGMENTATIONS
from samc.learners.scenario import BOUNDARIES, SCENARIOS


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(Settings):
    """Settings of every method."""

    lr: float = setting(0.1, "step size of plain SGD", above=0, hint="the paper uses 0.1")
    backbone: str = setting(
        "reduced-resnet18",
        "the network: reduced-resnet18, resnet18, mlp, vit-tiny, timm:NAME or package.module:factory",
        group="what to learn",
    )
    weights: str | None = setting(
        None,
        "a local file that the network starts from: safetensors, or torch's own of weights only",
        group="what to learn",
    )
    average: float = setting(
        0.0,
        "an exponential average of the network answers, over about 1/(1 - this) steps: fewer than a task has; 0: the "
        "network itself",
        least=0,
        below=1,
        hint="0.99 is a good start",
        before=0.0,
    )
    augment: str = setting(
        "none", "what is done to images before each step, replayed ones too", choices=AUGMENTATIONS, before="none"
    )
    scenario: str = setting(
        "task",
        "whether images are tested with their task, or alone among all classes seen, or in domains of the same classes",
        choices=SCENARIOS,
        group="what to learn",
    )
    boundaries: str = setting(
        "told",
        "whether a learner is told when a task begins and ends; hidden needs scenario class or domain",
        choices=BOUNDARIES,
        group="what to learn",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.boundaries == "hidden" and self.scenario == "task":
            raise ConfigError("where boundaries are hidden no task is known at test; add --scenario class or domain")
        if reason := self.meaningless():
            raise ConfigError(reason)

    def meaningless(self) -> str:
        """Why a method means nothing in its scenario, and what to do instead; most mean something in all."""
        return ""

    def without_files(self) -> Any:
        return replace(self, weights=None)


@dataclass(frozen=True, kw_only=True)
class HoldingSettings(NetworkSettings):
    """Settings of methods that can hold old heads to the average of the network."""

    distil: float = setting(
        0.0,
        "weight of the mean squared difference of old heads' logits to the average's",
        least=0,
        hint="1 is a good start",
        before=0.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distil and not self.average:
            raise ConfigError("--distil holds old heads to the average of the network; add --average 0.99")
